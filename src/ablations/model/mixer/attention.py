"""Self-attention with one head or several (chapter, sections E, F and L; Vaswani et al. 2017, section 3.2)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.model.mixer.softmax import weights
from ablations.model.past import Past, start_of
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
        kv_heads: heads of keys and values, each shared by as many query heads (grouped-query attention, Ainslie et al.
            2023; one: multi-query, Shazeer 2019); None for as many as `heads`.

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
        kv_heads: int | None = None,
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
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            raise ValueError(f"kv_heads: {kv_heads} does not divide the {heads} heads; allowed: {divisors}")
        if project is False and heads * d_k != width:
            raise ValueError(f"project: false needs heads x d_k = width, got {heads} x {d_k}, {width}; allowed: true")
        self.heads, self.kv_heads, self.d_k, self.causal, self.dropout = heads, kv_heads, d_k, causal, dropout
        self.scale = 1 / math.sqrt(d_k) if scaled else 1.0
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * d_k, bias=bias)
        has_output = heads * d_k != width if project is None else project
        self.output = nn.Linear(heads * d_k, width) if has_output else nn.Identity()

    def forward(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> Tensor:
        """Output BxTxD. The position encoding may turn queries and keys, or add a bias to the scores.

        With a `past`, the T positions at hand come after those it keeps, and are added to it.
        """
        q_BxHxTxK, k_BxGxSxK, v_BxGxSxK = self._heads(x_BxTxD, position, past)
        T, S = q_BxHxTxK.shape[2], k_BxGxSxK.shape[2]
        bias_HxTxS = position.bias(self.heads, T, S, x_BxTxD.device)
        mask = None
        if bias_HxTxS is not None:
            mask = bias_HxTxS.masked_fill(~self.visible(T, S, x_BxTxD.device), -math.inf).to(q_BxHxTxK.dtype)
        elif not self.kernel_masks(T, S):
            mask = self.visible(T, S, x_BxTxD.device)
        z_BxHxTxK = F.scaled_dot_product_attention(
            q_BxHxTxK,
            k_BxGxSxK,
            v_BxGxSxK,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and mask is None,
            scale=self.scale,
            enable_gqa=self.kv_heads != self.heads,
        )
        return self._join(z_BxHxTxK)

    def written_out(self, x_BxTxD: Tensor, position: Position) -> Tensor:
        """The same function, with every weight in plain sight. No dropout."""
        q_BxHxTxK, k_BxGxTxK, v_BxGxTxK = self._heads(x_BxTxD, position)
        return self._join(weights(*self._scores(q_BxHxTxK, k_BxGxTxK, position)) @ self._shared(v_BxGxTxK))

    def scores(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """What enters the softmax, BxHxTxT, before masking, and which entries are visible, TxT."""
        q_BxHxTxK, k_BxGxTxK, _ = self._heads(x_BxTxD, position)
        return self._scores(q_BxHxTxK, k_BxGxTxK, position)

    def visible(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Which keys each query sees, TxS. The T queries stand at the last of the S keys' positions."""
        all_TxS = torch.ones(queries, keys, dtype=torch.bool, device=device)
        return all_TxS.tril(keys - queries) if self.causal else all_TxS

    def kernel_masks(self, queries: int, keys: int) -> bool:
        """Whether `is_causal` says all that `visible` does."""
        return queries == keys or not self.causal

    def projected(self, x_BxTxD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries BxHxTxK, keys and values BxGxTxK, before any position encoding."""
        B, T, _ = x_BxTxD.shape
        qkv_BxHGGxTxK = self.qkv(x_BxTxD).view(B, T, -1, self.d_k).transpose(1, 2)
        q_BxHxTxK, k_BxGxTxK, v_BxGxTxK = qkv_BxHGGxTxK.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return q_BxHxTxK, k_BxGxTxK, v_BxGxTxK

    def _heads(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q_BxHxTxK, k_BxGxTxK, v_BxGxTxK = self.projected(x_BxTxD)
        start = start_of(past)
        q_BxHxTxK, k_BxGxTxK = position.rotate(q_BxHxTxK, start), position.rotate(k_BxGxTxK, start)
        if past is None:
            return q_BxHxTxK, k_BxGxTxK, v_BxGxTxK
        return q_BxHxTxK, past.append("k", k_BxGxTxK), past.append("v", v_BxGxTxK)

    def _scores(self, q_BxHxTxK: Tensor, k_BxGxTxK: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        scores_BxHxTxT = q_BxHxTxK @ self._shared(k_BxGxTxK).transpose(-2, -1) * self.scale
        T = q_BxHxTxK.shape[2]
        bias_HxTxT = position.bias(self.heads, T, T, q_BxHxTxK.device)
        if bias_HxTxT is not None:
            scores_BxHxTxT = scores_BxHxTxT + bias_HxTxT
        return scores_BxHxTxT, self.visible(T, T, q_BxHxTxK.device)

    def _shared(self, x_BxGxTxK: Tensor) -> Tensor:
        """Each head of keys or values once for each query head that reads it, BxHxTxK."""
        readers = self.heads // self.kv_heads
        return x_BxGxTxK if readers == 1 else x_BxGxTxK.repeat_interleave(readers, dim=1)

    def _join(self, z_BxHxTxK: Tensor) -> Tensor:
        out_BxTxD: Tensor = self.output(z_BxHxTxK.transpose(1, 2).flatten(2))
        return out_BxTxD
