"""Attention with linear biases, ALiBi (Press et al. 2022; chapter, section I)."""

import math

import torch
from torch import Tensor

from ablations.model.position.base import Position


def slopes(heads: int) -> list[float]:
    """One slope per head: 2^(-8/n), 2^(-16/n), ... for n = heads a power of two; for other counts those of the power
    below, then every other one of the power above (the paper's released code).
    """
    below = 2 ** math.floor(math.log2(heads))
    own = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2 ** (-8 * (i + 1) / (2 * below)) for i in range(0, 2 * below, 2)]
    return own + between[: heads - below]


class ALiBi(Position):
    """Lowers each score by slope x distance; nothing is added to the embeddings."""

    def bias(self, heads: int, queries: int, keys: int, device: torch.device) -> Tensor:
        t_S = torch.arange(keys, device=device)
        distance_TxS = (t_S[keys - queries :, None] - t_S).abs()
        return -torch.tensor(slopes(heads), device=device)[:, None, None] * distance_TxS
