"""What a measurement gives: a name, a caption, and rows of a table."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Result:
    """A table that needs no training. Rows have `row`, a label, and `variant`, a key by which the chapter's figures
    are found; the other columns are numbers, lists of one number per
    seed, or words where a number cannot be had.
    """

    name: str
    caption: str
    rows: list[dict[str, Any]]
