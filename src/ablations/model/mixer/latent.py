"""Multi-head latent attention, MLA (DeepSeek-AI 2024, section 2.1)."""

import math

import torch
from torch import Tensor, nn

from ablations.model.mixer.attention import Attention
from ablations.model.past import Past, start_of
from ablations.model.position.base import Position


class LatentAttention(Attention):
    """Keys and values of all heads come from one small vector per position, which is all that a past has to keep.

    A position encoding that turns queries and keys cannot pass through the small vector; so each query has a part of
    its own for it, and all heads share one more key.

    Args:
        width: of its input and output.
        heads: how many, side by side.
        latent: width of the small vector.
        turned: width of the part that the position encoding turns.
        dropout: on the weights, after the softmax.
    """

    def __init__(self, width: int, heads: int, latent: int, turned: int, dropout: float = 0.0) -> None:
        super().__init__(width, heads=heads, project=True, dropout=dropout)
        for name, value in (("latent", latent), ("turned", turned)):
            if value < 1:
                raise ValueError(f"{name}: {value}; allowed: at least 1")
        del self.qkv
        self.turned = turned
        self.query = nn.Linear(width, heads * (self.d_k + turned), bias=False)
        self.compress = nn.Linear(width, latent, bias=False)
        self.norm = nn.RMSNorm(latent)
        self.expand = nn.Linear(latent, 2 * heads * self.d_k, bias=False)
        self.shared_key = nn.Linear(width, turned, bias=False)
        self.scale = 1 / math.sqrt(self.d_k + turned)

    def _heads(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> tuple[Tensor, Tensor, Tensor]:
        start = start_of(past)
        B, T, _ = x_BxTxD.shape
        q_BxHxTxQ = self.query(x_BxTxD).view(B, T, self.heads, -1).transpose(1, 2)
        plain, turned = q_BxHxTxQ.split([self.d_k, self.turned], dim=-1)
        q_BxHxTxQ = torch.cat((plain, position.rotate(turned, start)), dim=-1)
        latent_BxSxL = self.norm(self.compress(x_BxTxD))
        shared_Bx1xSxR = position.rotate(self.shared_key(x_BxTxD)[:, None], start)
        if past is not None:
            latent_BxSxL = past.append("latent", latent_BxSxL)
            shared_Bx1xSxR = past.append("shared_key", shared_Bx1xSxR)
        S = latent_BxSxL.shape[1]
        kv_BxSx2HxK = self.expand(latent_BxSxL).view(B, S, 2 * self.heads, self.d_k)
        k_BxHxSxK, v_BxHxSxK = kv_BxSx2HxK.transpose(1, 2).chunk(2, dim=1)
        k_BxHxSxQ = torch.cat((k_BxHxSxK, shared_Bx1xSxR.expand(-1, self.heads, -1, -1)), dim=-1)
        return q_BxHxTxQ, k_BxHxSxQ, v_BxHxSxK
