"""Means with their doubt."""

import math
from collections.abc import Sequence
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
