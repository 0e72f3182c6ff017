"""The uniform causal average (chapter, sections A and B)."""

import torch
from torch import Tensor, nn

from ablations.model.position.base import Position


class Average(nn.Module):
    """Every position gets the mean of itself and its past: attention with all scores equal, and no weights to learn.

    Args:
        width: of its input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x_BxTxD: Tensor, position: Position) -> Tensor:
        """Output BxTxD. The position encoding has no say: an average cannot see order."""
        T = x_BxTxD.shape[1]
        ones_TxT = torch.ones(T, T, device=x_BxTxD.device, dtype=x_BxTxD.dtype).tril()
        return (ones_TxT / ones_TxT.sum(dim=-1, keepdim=True)) @ x_BxTxD

    def scores(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """Zero scores, Bx1xTxT, and which of them are visible, TxT."""
        B, T, _ = x_BxTxD.shape
        return x_BxTxD.new_zeros(B, 1, T, T), torch.ones(T, T, dtype=torch.bool, device=x_BxTxD.device).tril()
