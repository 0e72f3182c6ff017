"""Means with their doubt."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


class Mean(NamedTuple):
    """A mean over n seeds with its 95 % interval; the bounds are NaN where n is 1, since one run shows no spread."""

    mean: float
    n: int
    low: float
    high: float


def mean(values: Sequence[float]) -> Mean:
    """Student's t interval of a mean. No values: NaN and n = 0."""
    n = len(values)
    if n == 0:
        return Mean(math.nan, 0, math.nan, math.nan)
    centre = float(np.mean(values))
    if n == 1:
        return Mean(centre, 1, math.nan, math.nan)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) / math.sqrt(n))
    return Mean(centre, n, centre - half, centre + half)


def log_mean(values: Sequence[float]) -> Mean:
    """The same in the log, as perplexities are averaged: the geometric mean, its interval around it by a factor."""
    inner = mean([math.log(value) for value in values])
    return Mean(math.exp(inner.mean), inner.n, math.exp(inner.low), math.exp(inner.high))


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Differences `one` - `other` of the seeds that both have: what seeds share falls out of them."""
    return [one[seed] - other[seed] for seed in one if seed in other]


def p_value(differences: Sequence[float]) -> float:
    """Two-sided p of a paired t test that there is no difference; NaN from fewer than two seeds."""
    if len(differences) < 2:
        return math.nan
    spread = float(np.std(differences, ddof=1))
    centre = float(np.mean(differences))
    if spread == 0:
        return 0.0 if centre else 1.0
    t = abs(centre) / spread * math.sqrt(len(differences))
    return float(2 * stats.t.sf(t, len(differences) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment for several comparisons (Holm 1979): each may be held against the usual level. NaNs stay."""
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[i] = largest
    return adjusted


def seeds_needed(centre: float, spread: float, low: float, high: float, most: int) -> int:
    """Seeds after which an interval of this spread around this centre would lie on one side of the nearer bound; `most`
    stands for as many or more.
    """
    distance = min(abs(centre - bound) for bound in (low, high))
    for n in range(2, most):
        if stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * spread / math.sqrt(n) < distance:
            return n
    return most
