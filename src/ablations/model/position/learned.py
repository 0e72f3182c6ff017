"""Learned absolute positions (chapter, sections A and I; Radford et al. 2018)."""

import torch
from torch import Tensor, nn

from ablations.model.position.base import Position


class Learned(Position):
    """One learned vector per position, added to the token embedding.

    Args:
        width: of the embeddings.
        length: rows of the table. Rows past the trained window keep their initialisation.
    """

    def __init__(self, width: int, length: int) -> None:
        super().__init__(width)
        if length < 1:
            raise ValueError(f"length: {length}; allowed: at least 1")
        self.table = nn.Embedding(length, width)

    def embed(self, x_BxTxD: Tensor) -> Tensor:
        return x_BxTxD + self.table(torch.arange(x_BxTxD.shape[1], device=x_BxTxD.device))
