"""The instruments: what attention does and how large gradients are (chapter, sections D, E and H).

Rows that see a single key are left out of entropy and saturation, where they can only be 0 and 1.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ablations.model.language_model import LanguageModel
from ablations.model.mixer.softmax import weights

SATURATED = 0.99


def attention_statistics(scores_BxHxTxS: Tensor, visible_TxS: Tensor) -> dict[str, Tensor]:
    """Statistics per head, each of shape H.

    Args:
        scores_BxHxTxS: what enters the softmax, before masking.
        visible_TxS: which keys each query sees.

    Returns:
        `entropy` of the weights in nats, mean over rows; `entropy_share`, the same divided row by row by the log of
        the visible keys; `score_mean` and `score_std` over visible entries; `saturated`, the share of rows with one
        weight above 0.99.
    """
    weights_BxHxTxS = weights(scores_BxHxTxS, visible_TxS)
    keys_T = visible_TxS.sum(dim=-1)
    choosing_T = keys_T > 1
    entropy_BxHxT = torch.special.entr(weights_BxHxTxS).sum(dim=-1)[..., choosing_T]
    largest_BxHxT = weights_BxHxTxS.amax(dim=-1)[..., choosing_T]
    visible_HxN = scores_BxHxTxS.transpose(0, 1)[:, :, visible_TxS].flatten(1)
    return {
        "entropy": entropy_BxHxT.mean(dim=(0, 2)),
        "entropy_share": (entropy_BxHxT / keys_T[choosing_T].log()).mean(dim=(0, 2)),
        "score_mean": visible_HxN.mean(dim=-1),
        "score_std": visible_HxN.std(dim=-1, correction=0),
        "saturated": (largest_BxHxT > SATURATED).float().mean(dim=(0, 2)),
    }


def gradient_norm(parameters: Iterable[nn.Parameter]) -> float:
    """Euclidean norm of all gradients together; 0 where there are none."""
    norms = [parameter.grad.norm() for parameter in parameters if parameter.grad is not None]
    return torch.stack(norms).norm().item() if norms else 0.0


def read_gradients(model: LanguageModel) -> dict[str, float]:
    """Gradient norm of the whole model and of each block, as they stand."""
    blocks = {f"block{i}/gradient_norm": gradient_norm(b.parameters()) for i, b in enumerate(model.blocks, start=1)}
    return {"gradient_norm": gradient_norm(model.parameters()), **blocks}


def read_attention(model: LanguageModel, tokens_BxT: Tensor) -> dict[str, float]:
    """`attention_statistics` of every block that attends, per head and averaged over its heads; and the `statistics`,
    numbers by name, of any part that has some.

    The model is left as it was: no gradient, no dropout, no random number drawn.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        seen = model.scores(tokens_BxT)
    model.train(was_training)
    reading: dict[str, float] = {}
    for i, block in enumerate(model.blocks, start=1):
        for part in block.modules():  # what a part tells of its last input
            reading |= {f"block{i}/{name}": float(value) for name, value in getattr(part, "statistics", {}).items()}
    for i, scores in enumerate(seen, start=1):
        if scores is None:
            continue
        for name, value_H in attention_statistics(*scores).items():
            reading[f"block{i}/{name}"] = value_H.mean().item()
            if len(value_H) > 1:
                reading |= {f"block{i}/head{h}/{name}": value for h, value in enumerate(value_H.tolist(), start=1)}
    return reading
