"""Learned absolute positions (chapter, sections A and I; Radford et al. 2018)."""

import torch
from torch import Tensor, nn

from ablations.model.position.base import Position

UNTRAINED = 0  # seed of the rows past the table


class Learned(Position):
    """One learned vector per position, added to the token embedding.

    Args:
        width: of the embeddings.
        length: rows of the table. A longer sequence gets rows that were never trained, as initialisation draws them.
    """

    def __init__(self, width: int, length: int) -> None:
        super().__init__(width)
        if length < 1:
            raise ValueError(f"length: {length}; allowed: at least 1")
        self.table = nn.Embedding(length, width)

    def embed(self, x_BxTxD: Tensor, start: int = 0) -> Tensor:
        end = start + x_BxTxD.shape[1]
        missing = end - len(self.table.weight)
        rows_SxD = self.table.weight[:end]
        if missing > 0:
            untrained = torch.randn(missing, rows_SxD.shape[1], generator=torch.Generator().manual_seed(UNTRAINED))
            rows_SxD = torch.cat((rows_SxD, untrained.to(rows_SxD)))
        return x_BxTxD + rows_SxD[start:]
