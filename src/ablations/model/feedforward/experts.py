"""Mixture of experts (Shazeer et al. 2017; top-k as in Jiang et al. 2024; balance as in Fedus et al. 2022, eq. 4)."""

import torch
from torch import Tensor, nn

from ablations.model.feedforward.gelu import FeedForward


class Experts(nn.Module):
    """A router sends each token to `chosen` of the experts, whose outputs it weighs by a softmax over those.

    `auxiliary_loss` is, after each forward, the load-balancing loss: experts x the sum over them of the share of tokens
    x the mean router probability; 1 when both are even. `statistics` are the share of tokens per expert, its entropy.

    Args:
        width: of its input and output.
        experts: E, how many.
        chosen: k, experts per token.
        inner: inner width of each as a multiple of `width`; at 4 / k as many parameters are active as in a dense one.
    """

    def __init__(self, width: int, experts: int = 8, chosen: int = 2, inner: float = 2.0) -> None:
        super().__init__()
        if experts < 1:
            raise ValueError(f"experts: {experts}; allowed: at least 1")
        if not 1 <= chosen <= experts:
            raise ValueError(f"chosen: {chosen}; allowed: 1 to {experts}, as many as there are experts")
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(width, inner) for _ in range(experts))
        self.auxiliary_loss: Tensor | None = None
        self.statistics: dict[str, Tensor] = {}

    def forward(self, x_BxTxD: Tensor) -> Tensor:
        x_NxD = x_BxTxD.flatten(0, -2)
        logits_NxE = self.router(x_NxD)
        top_Nxk, which_Nxk = logits_NxE.topk(self.chosen, dim=-1)
        weights_Nxk = top_Nxk.softmax(dim=-1)
        out_NxD = torch.zeros_like(x_NxD)
        for number, expert in enumerate(self.experts):
            rows, places = (which_Nxk == number).nonzero(as_tuple=True)
            if len(rows):
                weighed = expert(x_NxD[rows]) * weights_Nxk[rows, places, None]
                out_NxD = out_NxD.index_add(0, rows, weighed.to(out_NxD.dtype))
        self._balance(logits_NxE, which_Nxk)
        return out_NxD.view_as(x_BxTxD)

    def _balance(self, logits_NxE: Tensor, which_Nxk: Tensor) -> None:
        experts = logits_NxE.shape[-1]
        share_E = torch.bincount(which_Nxk.flatten(), minlength=experts) / which_Nxk.numel()
        self.auxiliary_loss = experts * (share_E * logits_NxE.float().softmax(dim=-1).mean(dim=0)).sum()
        self.statistics = {"load_entropy": torch.special.entr(share_E).sum()}
        self.statistics |= {f"load_{number}": share for number, share in enumerate(share_E, start=1)}
