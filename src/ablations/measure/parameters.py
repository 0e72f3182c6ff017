"""`parameters`: where the parameters sit, counted from the modules (chapter, section G)."""

import functools
from typing import Any

import torch
from torch import nn

from ablations.measure.result import Result
from ablations.model.block import Block
from ablations.model.feedforward.gelu import FeedForward
from ablations.model.language_model import LanguageModel
from ablations.model.mixer.attention import Attention
from ablations.model.position.learned import Learned

WIDTHS = (128, 256, 512, 768)
HEAD = 64  # width of a head; it changes no count
GPT2 = {"vocabulary": 50_257, "context": 1024, "width": 768, "blocks": 12, "heads": 12}


def count(*modules: nn.Module) -> int:
    """Parameters of the modules, shared ones once."""
    return sum(p.numel() for p in {id(p): p for module in modules for p in module.parameters()}.values())


def block(d: int) -> Block:
    """The chapter's block, d wide."""
    return Block(
        mixer=lambda: Attention(d, heads=d // HEAD, project=True),
        feedforward=lambda: FeedForward(d),
        norm=lambda: nn.LayerNorm(d),
        placement="pre",
        residual=True,
        dropout=0.0,
    )


def gpt2(vocabulary: int, context: int, width: int, blocks: int, heads: int) -> LanguageModel:
    """GPT-2 of these sizes: the chapter's model with biases everywhere, and the embedding as its output layer."""
    model = LanguageModel(
        vocabulary=vocabulary,
        width=width,
        blocks=blocks,
        position=functools.partial(Learned, length=context),
        mixer=functools.partial(Attention, heads=heads, project=True, bias=True),
        feedforward=FeedForward,
        norm=nn.LayerNorm,
        placement="pre",
        residual=True,
    )
    model.output = nn.Linear(width, vocabulary, bias=False)
    model.output.weight = model.embedding.weight
    return model


def measure() -> list[Result]:
    """Per component and width beside the formula; GPT-2 small part by part."""
    rows: list[dict[str, Any]] = []
    with torch.device("meta"):
        for d in WIDTHS:
            made = block(d)
            assert made.mixer is not None and made.feedforward is not None
            parts = {
                "attention": (count(made.mixer), 4 * d * d + d),
                "feed-forward": (count(made.feedforward), 8 * d * d + 5 * d),
                "LayerNorm": (count(made.mixer_norm, made.feedforward_norm), 4 * d),
                "block": (count(made), 12 * d * d + 10 * d),
            }
            for part, (counted, formula) in parts.items():
                share = counted / count(made)
                row = {"row": f"d = {d}, {part}", "variant": f"d_{d}_{part}", "parameters": counted, "formula": formula}
                rows.append(row | {"share_of_block": share})
        small = gpt2(**GPT2)
        d, v, n, context = GPT2["width"], GPT2["vocabulary"], GPT2["blocks"], GPT2["context"]
        whole = [
            ("token embedding, also the output", "embedding", count(small.embedding), v * d),
            ("position embedding", "positions", count(small.position), context * d),
            (f"{n} blocks", "blocks", count(*small.blocks), n * (12 * d * d + 13 * d)),
            ("last LayerNorm", "norm", count(small.norm), 2 * d),
            ("all", "all", count(small), v * d + context * d + n * (12 * d * d + 13 * d) + 2 * d),
        ]
    gpt = [
        {"row": f"GPT-2 small: {label}", "variant": f"gpt2_{key}", "parameters": counted, "formula": formula}
        for label, key, counted, formula in whole
    ]
    return [
        Result("parameters", "G. Where the parameters sit, counted and by formula (no bias in W_q, W_k, W_v)", rows),
        Result("gpt2", "G. GPT-2 small, with biases everywhere", gpt),
    ]
