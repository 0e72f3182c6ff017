"""The loss that never holds all scores, against PyTorch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ablations.model import loss
from ablations.model.loss import IGNORED, linear_cross_entropy

Parts = tuple[Tensor, Tensor, Tensor, Tensor]


def parts(scale: float = 1.0) -> Parts:
    """300 rows of 24, over 70 classes; float64 would hide nothing."""
    torch.manual_seed(0)
    x, weight, bias = torch.randn(300, 24) * scale, torch.randn(70, 24), torch.randn(70)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), torch.randint(70, (300,))


def gradients(value: Tensor, given: Parts) -> list[Tensor]:
    return list(torch.autograd.grad(value * 3.0, given[:3]))


@pytest.mark.parametrize("held", [1, 70 * 64, 2**19])  # a row at a time, chunks with a shorter last one, all at once
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_value_and_gradients_are_the_librarys(held: int, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "HELD", held)
    given = parts(scale)
    ours, theirs = linear_cross_entropy(*given), F.cross_entropy(F.linear(*given[:3]), given[3])
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(gradients(ours, given), gradients(theirs, given)):
        torch.testing.assert_close(mine, other, atol=1e-5 * scale, rtol=1e-4)


def test_targets_to_ignore_do_not_count() -> None:
    given = parts()
    given[3][::3] = IGNORED
    ours, theirs = linear_cross_entropy(*given), F.cross_entropy(F.linear(*given[:3]), given[3])
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(gradients(ours, given), gradients(theirs, given)):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def test_under_autocast_it_is_the_librarys_under_autocast() -> None:
    """The products in bfloat16, the rest in float32: equal but for where the library rounds the scores' gradient."""
    given = parts()
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = linear_cross_entropy(*given), F.cross_entropy(F.linear(*given[:3]), given[3])
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
    for mine, other in zip(gradients(ours, given), gradients(theirs, given)):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, other, atol=2e-3 * other.abs().max().item() * 4, rtol=0.02)


def test_scores_that_are_no_numbers_make_a_loss_that_is_none() -> None:
    x, weight, bias, targets = parts()
    with torch.no_grad():
        x[7, 3] = float("inf")
    assert not linear_cross_entropy(x, weight, bias, targets).isfinite()
