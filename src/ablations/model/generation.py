"""Text from a model, token by token (second chapter): greedy or sampled, with what it keeps of the past or without."""

import math

import torch
from torch import Tensor

from ablations.model.language_model import LanguageModel
from ablations.model.past import Past


def generate(
    model: LanguageModel,
    prompt_T: Tensor,
    count: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    cached: bool = True,
) -> Tensor:
    """`count` tokens that follow the prompt.

    Args:
        model: in whatever mode; it is left as it was.
        prompt_T: at least one token.
        count: of tokens to come.
        temperature: the scores are divided by it; 0 always takes the largest.
        top_k: only so many of the likeliest tokens are drawn from; None for all.
        top_p: only the likeliest that together have this probability are drawn from (Holtzman et al. 2020).
        seed: of the draws.
        cached: whether past positions are kept (the KV cache) or read again for each token; the tokens are the same.
            Where the position encoding follows the length of the text, or an encoder reads its begin, nothing is kept.

    Raises:
        ValueError: a value that cannot be, named with what is allowed.
    """
    if len(prompt_T) < 1:
        raise ValueError("prompt: empty; allowed: at least one token")
    if count < 1:
        raise ValueError(f"tokens: {count}; allowed: at least 1")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature: {temperature}; allowed: at least 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: {top_k}; allowed: at least 1")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p: {top_p}; allowed: above 0, at most 1")
    cached = cached and not getattr(model.position, "follows_length", False) and not hasattr(model, "source")
    was_training = model.training
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    pasts = [Past() for _ in model.blocks] if cached else None
    text_T, unread_T = prompt_T, prompt_T
    with torch.no_grad():
        for _ in range(count):
            logits_V = model((unread_T if cached else text_T)[None], pasts)[0, -1]
            unread_T = _drawn(logits_V, temperature, top_k, top_p, generator)
            text_T = torch.cat((text_T, unread_T))
    model.train(was_training)
    return text_T[len(prompt_T) :]


def probabilities(logits_V: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """What is drawn from, V: nothing but the likeliest tokens that `top_k` and `top_p` leave; one at least."""
    logits_V = logits_V.double() / temperature
    if top_k is not None and top_k < len(logits_V):
        logits_V = logits_V.masked_fill(logits_V < logits_V.topk(top_k).values[-1], -math.inf)
    sorted_V, order_V = logits_V.softmax(dim=-1).sort(descending=True, stable=True)
    before_V = sorted_V.cumsum(dim=-1) - sorted_V
    kept_V = torch.zeros_like(sorted_V).scatter(0, order_V, sorted_V * (before_V < top_p))
    return kept_V / kept_V.sum()


def _drawn(logits_V: Tensor, temperature: float, top_k: int | None, top_p: float, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits_V.argmax(dim=-1, keepdim=True)
    return torch.multinomial(probabilities(logits_V.cpu(), temperature, top_k, top_p), 1, generator=generator)
