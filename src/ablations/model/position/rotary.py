"""Rotary positions, RoPE (Su et al. 2021, eq. 34; chapter, section I)."""

import torch
from torch import Tensor

from ablations.model.position.base import Position


class Rotary(Position):
    """Turns each pair of a query's and key's columns by an angle that grows with the position, so that their product
    depends on the distance alone.

    Args:
        width: of the embeddings.
        base: of the geometric row of wavelengths.
    """

    def __init__(self, width: int, base: float = 10000.0) -> None:
        super().__init__(width)
        if base <= 1:
            raise ValueError(f"base: {base}; allowed: above 1")
        self.base = base

    def rates(self, d_k: int, length: int, device: torch.device) -> Tensor:
        """Radians per position of each pair of columns, F = d_k / 2 of them, in a text of `length`."""
        return self.base ** (-torch.arange(0, d_k, 2, device=device) / d_k)

    def gain(self, length: int) -> float:
        """What turned columns are multiplied by in a text of `length`."""
        return 1.0

    def rotate(self, x_BxHxTxK: Tensor, start: int = 0) -> Tensor:
        T, K = x_BxHxTxK.shape[-2:]
        if K % 2:
            raise ValueError(f"d_k: {K}; allowed: even, since columns are turned in pairs")
        t_T = torch.arange(start, start + T, device=x_BxHxTxK.device)
        angle_TxF = t_T[:, None] * self.rates(K, start + T, x_BxHxTxK.device)
        gain = self.gain(start + T)
        cos_TxF, sin_TxF = angle_TxF.cos() * gain, angle_TxF.sin() * gain
        a_BxHxTxF, b_BxHxTxF = x_BxHxTxK[..., 0::2], x_BxHxTxK[..., 1::2]
        turned = (a_BxHxTxF * cos_TxF - b_BxHxTxF * sin_TxF, a_BxHxTxF * sin_TxF + b_BxHxTxF * cos_TxF)
        return torch.stack(turned, dim=-1).flatten(-2).to(x_BxHxTxK.dtype)
