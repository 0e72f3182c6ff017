"""Differences, their p values, and how many seeds would decide."""

import math

import numpy as np
import pytest
from scipy import stats

from ablations.report.statistics import holm, mean, p_value, paired, seeds_needed


def test_pairs_are_those_of_the_seeds_that_both_have() -> None:
    assert paired({0: 5.0, 1: 7.0, 3: 1.0}, {1: 4.0, 0: 1.0, 2: 9.0}) == [4.0, 3.0]


def test_p_is_that_of_the_librarys_paired_test() -> None:
    one, other = [3.0, 4.0, 8.0, 5.5], [2.0, 4.5, 6.0, 4.0]
    differences = [a - b for a, b in zip(one, other)]
    assert p_value(differences) == pytest.approx(stats.ttest_rel(one, other).pvalue)
    assert math.isnan(p_value([1.0])) and p_value([0.0, 0.0]) == 1 and p_value([2.0, 2.0]) == 0


def test_holm_is_the_papers_loop() -> None:
    """Sorted, times how many are left, never less than the one before (Holm 1979); checked on a textbook's example."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = rng.random(6).tolist()
        order = sorted(range(6), key=lambda i: p_values[i])
        expected, running = [0.0] * 6, 0.0
        for rank, i in enumerate(order):
            running = max(running, min(1.0, (6 - rank) * p_values[i]))
            expected[i] = running
        assert holm(p_values) == pytest.approx(expected)
    assert math.isnan(holm([math.nan, 0.02])[0]) and holm([math.nan, 0.02])[1] == pytest.approx(0.02)


@pytest.mark.parametrize(("centre", "spread", "bound"), [(1.0, 1.0, 0.0), (0.3, 1.0, 0.0), (5.0, 0.1, 4.9)])
def test_as_many_seeds_as_are_said_to_decide_do(centre: float, spread: float, bound: float) -> None:
    """So many values of that mean and spread have an interval on one side of the bound, one fewer does not."""
    needed = seeds_needed(centre, spread, bound, math.inf, most=1000)

    def low(n: int) -> float:
        unit = np.linspace(-1, 1, n)
        unit = (unit - unit.mean()) / unit.std(ddof=1)
        return mean((centre + spread * unit).tolist()).low

    assert low(needed) > bound and (needed == 2 or low(needed - 1) <= bound)
