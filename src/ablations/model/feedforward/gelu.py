"""The feed-forward network (chapter, sections F and G; Vaswani et al. 2017, section 3.3)."""

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """W_2 GELU(W_1 x), each position alone; both layers have a bias.

    Args:
        width: of its input and output.
        inner: inner width as a multiple of `width`.
    """

    def __init__(self, width: int, inner: float = 4.0) -> None:
        super().__init__()
        if round(width * inner) < 1:
            raise ValueError(f"inner: {inner}; allowed: at least 1 / width")
        self.up = nn.Linear(width, round(width * inner))
        self.down = nn.Linear(round(width * inner), width)

    def forward(self, x_BxTxD: Tensor) -> Tensor:
        out_BxTxD: Tensor = self.down(F.gelu(self.up(x_BxTxD)))
        return out_BxTxD
