"""The feed-forward network with ReLU (Vaswani et al. 2017, section 3.3)."""

import torch.nn.functional as F
from torch import Tensor

from ablations.model.feedforward.gelu import FeedForward


class ReLU(FeedForward):
    """W_2 max(0, W_1 x), each position alone."""

    def forward(self, x_BxTxD: Tensor) -> Tensor:
        out_BxTxD: Tensor = self.down(F.relu(self.up(x_BxTxD)))
        return out_BxTxD
