"""Sliding-window attention (Beltagy et al. 2020, section 3.1; Jiang et al. 2023)."""

from typing import Any

import torch
from torch import Tensor

from ablations.model.mixer.attention import Attention
from ablations.model.past import Past
from ablations.model.position.base import Position


class SlidingWindow(Attention):
    """Attention that sees the present position and those just before it; its past needs no more room than that.

    Args:
        width: of its input and output.
        window: positions that each position sees, itself among them.
        rest: as for `Attention`; it is causal.
    """

    def __init__(self, width: int, window: int, **rest: Any) -> None:
        super().__init__(width, **rest)
        if window < 1:
            raise ValueError(f"window: {window}; allowed: at least 1")
        if not self.causal:
            raise ValueError("causal: false; allowed: true, since a window looks back")
        self.window = window

    def visible(self, queries: int, keys: int, device: torch.device) -> Tensor:
        return super().visible(queries, keys, device).triu(keys - queries - self.window + 1)

    def kernel_masks(self, queries: int, keys: int) -> bool:
        return queries == keys and keys <= self.window

    def _heads(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> tuple[Tensor, Tensor, Tensor]:
        heads = super()._heads(x_BxTxD, position, past)
        if past is not None:
            first = {name: max(0, kept.shape[-2] - self.window + 1) for name, kept in past.kept.items()}
            past.kept = {name: kept[..., first[name] :, :].clone() for name, kept in past.kept.items()}
        return heads
