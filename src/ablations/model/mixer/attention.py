"""Self-attention with one head or several (chapter, sections E, F and L; Vaswani et al. 2017, section 3.2)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.model.mixer.softmax import weights
from ablations.model.position.base import Position


class Attention(nn.Module):
    """softmax(q k^T / sqrt(d_k)) v per head, over the present and the past (or over everything).

    `forward` is the fused kernel and never holds the TxT matrix; `written_out` is the same function to read, and
    `scores` is what the probes look at.

    Args:
        width: of its input and output.
        heads: how many, side by side.
        d_k: width of each head's queries, keys and values; None for width / heads.
        scaled: whether scores are divided by sqrt(d_k).
        project: whether W_o (with bias) follows the concatenated heads; None for "where heads x d_k is not width".
        bias: whether W_q, W_k and W_v have a bias.
        causal: whether a position sees itself and its past alone; False lets it see the future, too.
        dropout: on the weights, after the softmax.

    Raises:
        ValueError: a width that the heads do not divide, or sizes that cannot be.
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        d_k: int | None = None,
        scaled: bool = True,
        project: bool | None = None,
        bias: bool = False,
        causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads: {heads}; allowed: at least 1")
        if d_k is None and width % heads:
            divisors = ", ".join(str(n) for n in range(1, width + 1) if width % n == 0)
            raise ValueError(f"heads: {heads} does not divide the width {width}; allowed: {divisors}")
        d_k = width // heads if d_k is None else d_k
        if d_k < 1:
            raise ValueError(f"d_k: {d_k}; allowed: at least 1, or null for width / heads")
        if project is False and heads * d_k != width:
            raise ValueError(f"project: false needs heads x d_k = width, got {heads} x {d_k}, {width}; allowed: true")
        self.heads, self.d_k, self.causal, self.dropout = heads, d_k, causal, dropout
        self.scale = 1 / math.sqrt(d_k) if scaled else 1.0
        self.qkv = nn.Linear(width, 3 * heads * d_k, bias=bias)
        has_output = heads * d_k != width if project is None else project
        self.output = nn.Linear(heads * d_k, width) if has_output else nn.Identity()

    def forward(self, x_BxTxD: Tensor, position: Position) -> Tensor:
        """Output BxTxD. The position encoding may turn queries and keys, or add a bias to the scores."""
        q_BxHxTxK, k_BxHxTxK, v_BxHxTxK = self._heads(x_BxTxD, position)
        T = x_BxTxD.shape[1]
        bias_HxTxT = position.bias(self.heads, T, x_BxTxD.device)
        mask = None
        if bias_HxTxT is not None:
            mask = bias_HxTxT.masked_fill(~self._visible(T, x_BxTxD.device), -math.inf).to(q_BxHxTxK.dtype)
        z_BxHxTxK = F.scaled_dot_product_attention(
            q_BxHxTxK,
            k_BxHxTxK,
            v_BxHxTxK,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and mask is None,
            scale=self.scale,
        )
        return self._join(z_BxHxTxK)

    def written_out(self, x_BxTxD: Tensor, position: Position) -> Tensor:
        """The same function, with every weight in plain sight. No dropout."""
        q_BxHxTxK, k_BxHxTxK, v_BxHxTxK = self._heads(x_BxTxD, position)
        return self._join(weights(*self._scores(q_BxHxTxK, k_BxHxTxK, position)) @ v_BxHxTxK)

    def scores(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """What enters the softmax, BxHxTxT, before masking, and which entries are visible, TxT."""
        q_BxHxTxK, k_BxHxTxK, _ = self._heads(x_BxTxD, position)
        return self._scores(q_BxHxTxK, k_BxHxTxK, position)

    def _heads(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = x_BxTxD.shape
        qkv_3xBxHxTxK = self.qkv(x_BxTxD).view(B, T, 3, self.heads, self.d_k).permute(2, 0, 3, 1, 4)
        q_BxHxTxK, k_BxHxTxK, v_BxHxTxK = qkv_3xBxHxTxK
        return position.rotate(q_BxHxTxK), position.rotate(k_BxHxTxK), v_BxHxTxK

    def _scores(self, q_BxHxTxK: Tensor, k_BxHxTxK: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        scores_BxHxTxT = q_BxHxTxK @ k_BxHxTxK.transpose(-2, -1) * self.scale
        T = q_BxHxTxK.shape[2]
        bias_HxTxT = position.bias(self.heads, T, q_BxHxTxK.device)
        if bias_HxTxT is not None:
            scores_BxHxTxT = scores_BxHxTxT + bias_HxTxT
        return scores_BxHxTxT, self._visible(T, q_BxHxTxK.device)

    def _join(self, z_BxHxTxK: Tensor) -> Tensor:
        out_BxTxD: Tensor = self.output(z_BxHxTxK.transpose(1, 2).flatten(2))
        return out_BxTxD

    def _visible(self, length: int, device: torch.device) -> Tensor:
        all_TxT = torch.ones(length, length, dtype=torch.bool, device=device)
        return all_TxT.tril() if self.causal else all_TxT
