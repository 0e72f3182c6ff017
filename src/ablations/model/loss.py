"""Cross-entropy of an output layer, without ever holding all its scores."""

from typing import Any

import torch
from torch import Tensor

IGNORED = -100  # a target that does not count
HELD = 2**19  # scores held at a time on a processor: 2 MB, what its cache takes


class _LinearCrossEntropy(torch.autograd.Function):
    """Scores, loss and gradients chunk by chunk, while the chunk's scores are in the cache."""

    @staticmethod
    def forward(ctx: Any, x_NxD: Tensor, weight_VxD: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
        device = x_NxD.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x_NxD.dtype
        with torch.autocast(device, enabled=False):
            x_NxD, weight, bias = (tensor.to(dtype) for tensor in (x_NxD, weight_VxD, bias_V))
            rows = max(1, HELD // len(weight)) if device == "cpu" else len(x_NxD)
            share = 1 / len(x_NxD)
            loss = weight_VxD.new_zeros(())
            dx_NxD = torch.empty_like(x_NxD)
            dweight, dbias = torch.zeros_like(weight_VxD), torch.zeros_like(bias_V)
            for x_CxD, y_C, dx_CxD in zip(*(torch.split(t, rows) for t in (x_NxD, targets_N, dx_NxD))):
                y_Cx1 = y_C[:, None]
                scores_CxV = torch.addmm(bias, x_CxD, weight.t()).float()
                asked_Cx1 = scores_CxV.gather(1, y_Cx1)
                largest_Cx1 = scores_CxV.amax(dim=1, keepdim=True)
                exp_CxV = scores_CxV.sub_(largest_Cx1).exp_()
                sum_Cx1 = exp_CxV.sum(dim=1, keepdim=True)
                loss += (sum_Cx1.log() + largest_Cx1 - asked_Cx1).sum() * share
                gradient_CxV = exp_CxV.mul_(share / sum_Cx1)
                gradient_CxV.scatter_add_(1, y_Cx1, torch.full_like(asked_Cx1, -share))
                dbias += gradient_CxV.sum(dim=0)
                gradient = gradient_CxV.to(dtype)
                torch.mm(gradient, weight, out=dx_CxD)
                dweight += gradient.t() @ x_CxD
        ctx.save_for_backward(dx_NxD, dweight, dbias)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        dx_NxD, dweight, dbias = ctx.saved_tensors
        return dx_NxD * gradients[0], dweight * gradients[0], dbias * gradients[0], None


def linear_cross_entropy(x_NxD: Tensor, weight_VxD: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
    """Mean cross-entropy in nats of `softmax(x W^T + b)`, as `F.cross_entropy` gives it; first derivatives only.

    Under autocast the products are in its type, and softmax and sums in float32.

    Args:
        x_NxD: what the output layer gets.
        weight_VxD: of the output layer.
        bias_V: of the output layer.
        targets_N: the right classes; those at `IGNORED` do not count.
    """
    counted_N = targets_N != IGNORED
    if not counted_N.all():
        x_NxD, targets_N = x_NxD[counted_N], targets_N[counted_N]
    loss: Tensor = _LinearCrossEntropy.apply(x_NxD, weight_VxD, bias_V, targets_N)  # type: ignore[no-untyped-call]
    return loss
