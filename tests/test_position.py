"""Position encodings against closed forms and their papers."""

import math

import pytest
import torch

from ablations.model.position.alibi import ALiBi, slopes
from ablations.model.position.learned import Learned
from ablations.model.position.rotary import Rotary
from ablations.model.position.sinusoidal import Sinusoidal


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(4)
    q, k = torch.randn(16), torch.randn(16)
    turned_q, turned_k = (Rotary(16).rotate(v.expand(1, 1, 30, 16))[0, 0] for v in (q, k))
    scores_TxT = turned_q @ turned_k.T
    for distance in range(-29, 30):
        diagonal = scores_TxT.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert scores_TxT.std() > 0.1
    torch.testing.assert_close(scores_TxT[0, 0], q @ k)


def test_rotary_is_a_complex_product() -> None:
    torch.manual_seed(5)
    x = torch.randn(1, 1, 9, 8)
    rate = 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    turn = torch.polar(torch.ones(9, 4), torch.arange(9)[:, None] * rate)
    expected = torch.view_as_real(torch.view_as_complex(x.view(1, 1, 9, 4, 2)) * turn).flatten(-2)
    torch.testing.assert_close(Rotary(8).rotate(x), expected)


def test_alibi_slopes_are_the_papers() -> None:
    assert slopes(8) == [2.0**-i for i in range(1, 9)]
    assert slopes(16) == [2 ** (-i / 2) for i in range(1, 17)]
    assert slopes(1) == [2.0**-8]
    assert slopes(12) == [2.0**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]
    bias = ALiBi(8).bias(8, 5, 5, torch.device("cpu"))
    assert bias[0, 4].tolist() == [-2.0, -1.5, -1.0, -0.5, 0.0]


def test_sinusoids_are_the_closed_form() -> None:
    waves = Sinusoidal(10).embed(torch.zeros(1, 40, 10))[0]
    for t in (0, 1, 7, 39):
        for i in range(5):
            angle = t / 10000 ** (2 * i / 10)
            assert waves[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert waves[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_learned_positions_past_the_table_are_untrained_rows() -> None:
    table = Learned(64, length=16)
    rows = table.embed(torch.zeros(1, 400, 64))[0]
    assert torch.equal(rows[:16], table.table.weight)
    assert rows[16:].std().item() == pytest.approx(1, abs=0.02)
    assert torch.equal(rows, table.embed(torch.zeros(1, 400, 64))[0])
