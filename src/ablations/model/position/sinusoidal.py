"""Sinusoidal absolute positions (Vaswani et al. 2017, section 3.5; chapter, section I)."""

import torch
from torch import Tensor

from ablations.model.position.base import Position


class Sinusoidal(Position):
    """sin(t / 10000^(2i/D)) in the even columns and the cosine in the odd ones, added to the token embedding.

    Args:
        width: of the embeddings, even.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        if width % 2:
            raise ValueError(f"width: {width}; allowed: an even width")
        self.width = width

    def embed(self, x_BxTxD: Tensor, start: int = 0) -> Tensor:
        t_T = torch.arange(start, start + x_BxTxD.shape[1], device=x_BxTxD.device)
        even_F = torch.arange(0, self.width, 2, device=x_BxTxD.device)
        angle_TxF = t_T[:, None] / 10000.0 ** (even_F / self.width)
        waves_TxD = torch.stack((angle_TxF.sin(), angle_TxF.cos()), dim=-1).flatten(1)
        return x_BxTxD + waves_TxD.to(x_BxTxD.dtype)
