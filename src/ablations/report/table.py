"""A table as its builders make it: rows of labelled cells, each number with its doubt and the chapter's beside it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ablations.report.statistics import Mean

# The chapter's sections, and M, the second chapter.
SECTIONS = {
    "A": "Averages",
    "B": "One average, three ways",
    "C": "Variance of a dot product",
    "D": "Large scores in softmax",
    "E": "Dividing by sqrt(d_k)",
    "F": "The ladder",
    "G": "Where the parameters sit",
    "H": "Norm placement and warmup",
    "I": "Position beyond the window",
    "J": "The cost of n²",
    "K": "What a head looks at",
    "L": "The library's attention",
    "M": "Inside the transformer",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns `row` (a label), `variant` (a key), then figures. A mean is followed by its `_n`, `_low` and `_high`
    columns, and the chapter's figure, where it has one for any row, by `_chapter`. `remark` is said below the table.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    remark: str = ""


def mean_cell(name: str, found: Mean, known: float | None = None) -> dict[str, Any]:
    """The columns of a mean, with the chapter's figure or an empty place for it."""
    own = {name: found.mean, f"{name}_n": found.n, f"{name}_low": found.low, f"{name}_high": found.high}
    return own | {f"{name}_chapter": math.nan if known is None else known}


def caption_of(study: Mapping[str, Any]) -> str:
    """`F. What does each piece of the block bring?`"""
    section = f"{study['section']}. " if study.get("section") else ""
    return f"{section}{study.get('question', study.get('name', ''))}"


def section_of(caption: str) -> str:
    """The letter that `caption_of` put before a caption; empty for a study of one's own."""
    letter, dot, _ = caption.partition(". ")
    return letter if dot and letter in SECTIONS else ""


def by_section(letter: str) -> str:
    """What sections are sorted by: studies of one's own come last."""
    return letter or "~"


def label_of(study: Mapping[str, Any], variant: str) -> str:
    """A variant's label in its study's file, else its name."""
    return str((study.get("rows") or {}).get(variant, variant))


def number(value: Any) -> str:
    """Two decimals, or three significant digits below one; whole numbers in full; empty for what is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
