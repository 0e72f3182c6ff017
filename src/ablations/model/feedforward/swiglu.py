"""The gated feed-forward network of today's models (Shazeer 2020, eq. 6; second chapter)."""

import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """W_down (SiLU(W_gate x) * W_up x), each position alone, no bias.

    Args:
        width: of its input and output.
        inner: inner width as a multiple of `width`; at 8/3 its three matrices have the parameters of two at 4.
    """

    def __init__(self, width: int, inner: float = 8 / 3) -> None:
        super().__init__()
        if round(width * inner) < 1:
            raise ValueError(f"inner: {inner}; allowed: at least 1 / width")
        self.gate, self.up = (nn.Linear(width, round(width * inner), bias=False) for _ in range(2))
        self.down = nn.Linear(round(width * inner), width, bias=False)

    def forward(self, x_BxTxD: Tensor) -> Tensor:
        out_BxTxD: Tensor = self.down(F.silu(self.gate(x_BxTxD)) * self.up(x_BxTxD))
        return out_BxTxD
