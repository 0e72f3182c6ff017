"""The uniform causal average (chapter, sections A and B)."""

import torch
from torch import Tensor, nn

from ablations.model.past import Past, start_of
from ablations.model.position.base import Position


class Average(nn.Module):
    """Every position gets the mean of itself and its past: attention with all scores equal, and no weights to learn.

    Args:
        width: of its input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> Tensor:
        """Output BxTxD. The position encoding has no say: an average cannot see order."""
        T, start = x_BxTxD.shape[1], start_of(past)
        ones_TxT = torch.ones(T, T, device=x_BxTxD.device, dtype=x_BxTxD.dtype).tril()
        seen_Tx1 = ones_TxT.sum(dim=-1, keepdim=True) + start
        mean_BxTxD = (ones_TxT / seen_Tx1) @ x_BxTxD
        if past is not None:
            sum_Bx1xD = past.kept.get("sum", torch.zeros_like(x_BxTxD[:, :1]))
            mean_BxTxD = mean_BxTxD + sum_Bx1xD / seen_Tx1
            past.kept["sum"] = sum_Bx1xD + x_BxTxD.sum(dim=1, keepdim=True)
        return mean_BxTxD

    def scores(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """Zero scores, Bx1xTxT, and which of them are visible, TxT."""
        B, T, _ = x_BxTxD.shape
        return x_BxTxD.new_zeros(B, 1, T, T), torch.ones(T, T, dtype=torch.bool, device=x_BxTxD.device).tril()
