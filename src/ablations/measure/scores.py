"""`dot_product` and `softmax`: how scores grow with the width, and what that does (chapter, sections C and D).

Queries and keys are unit normals, put through the project's own attention with identity matrices for W_q and W_k.
"""

import math

import torch
from torch import Tensor

from ablations.measure.result import Result
from ablations.model.mixer.attention import Attention
from ablations.model.mixer.softmax import weights
from ablations.model.position.base import Position
from ablations.training.probes import SATURATED, attention_statistics

WIDTHS = (4, 16, 64, 256, 1024)
PAIRS = 20_000
ROWS = 2_000
KEYS = 64
QUERIES = 50  # that share one set of keys


def transparent(d: int, scaled: bool) -> Attention:
    """One head whose queries and keys are its input."""
    attention = Attention(d, scaled=scaled)
    with torch.no_grad():
        attention.qkv.weight.copy_(torch.eye(d).repeat(3, 1))
    return attention


def products(d: int) -> Tensor:
    """Undivided scores of 20,000 independent pairs of unit normals."""
    attention, position = transparent(d, scaled=False), Position(d)
    found = []
    with torch.no_grad():
        for _ in range(PAIRS // 1000):
            scores_BxHxTxT, _ = attention.scores(torch.randn(1000, 2, d), position)
            found.append(scores_BxHxTxT[:, 0, 1, 0])
    return torch.cat(found)


def random_rows(d: int, scaled: bool) -> Tensor:
    """Scores of 2,000 random queries over 64 random keys each, 1x1x2000x64."""
    attention, position = transparent(d, scaled), Position(d)
    found = []
    with torch.no_grad():
        for _ in range(ROWS // QUERIES):
            scores_BxHxTxT, _ = attention.scores(torch.randn(1, KEYS + QUERIES, d), position)
            found.append(scores_BxHxTxT[:, :, KEYS:, :KEYS])
    return torch.cat(found, dim=2)


def measure() -> list[Result]:
    """Variance per width; effective tokens, the gradient through the softmax, and frozen rows, divided and not."""
    torch.manual_seed(0)
    spread, sharpness = [], []
    for d in WIDTHS:
        scores = products(d)
        row = {"row": f"d = {d}", "variant": f"d_{d}", "variance": scores.var().item(), "std": scores.std().item()}
        spread.append(row | {"sqrt_d": math.sqrt(d)})
    visible = torch.ones(ROWS, KEYS, dtype=torch.bool)
    for d in WIDTHS:
        line: dict[str, str | float] = {"row": f"d = {d}", "variant": f"d_{d}"}
        for name, scaled in (("divided", True), ("undivided", False)):
            scores_BxHxRxS = random_rows(d, scaled)
            weights_RxS = weights(scores_BxHxRxS, visible)[0, 0]
            statistics = attention_statistics(scores_BxHxRxS, visible)
            line[f"effective_tokens_{name}"] = torch.special.entr(weights_RxS).sum(dim=1).exp().mean().item()
            line[f"jacobian_diagonal_{name}"] = (weights_RxS * (1 - weights_RxS)).sum(dim=1).mean().item()
            line[f"frozen_{name}"] = statistics["saturated"].item()
        sharpness.append(line)
    return [
        Result("dot_product", f"C. Variance of a dot product, {PAIRS:,} random pairs", spread),
        Result(
            "softmax",
            f"D. What that does to a softmax over {KEYS} scores, {ROWS:,} random rows: effective tokens, sum of the "
            f"Jacobian's diagonal w(1 - w), share of rows with a weight above {SATURATED}",
            sharpness,
        ),
    ]
