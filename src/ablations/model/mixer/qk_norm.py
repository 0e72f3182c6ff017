"""Attention with normalised queries and keys (Henry et al. 2020; Dehghani et al. 2023, section 2.1)."""

from typing import Any

from torch import Tensor, nn

from ablations.model.mixer.attention import Attention


class QKNorm(Attention):
    """LayerNorm over each head's queries and keys, before any position encoding: scores cannot grow without bound.

    Args:
        width: of its input and output.
        rest: as for `Attention`.
    """

    def __init__(self, width: int, **rest: Any) -> None:
        super().__init__(width, **rest)
        self.query_norm, self.key_norm = nn.LayerNorm(self.d_k), nn.LayerNorm(self.d_k)

    def projected(self, x_BxTxD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q_BxHxTxK, k_BxGxTxK, v_BxGxTxK = super().projected(x_BxTxD)
        return self.query_norm(q_BxHxTxK), self.key_norm(k_BxGxTxK), v_BxGxTxK
