"""A table as CSV for programs, as Markdown and LaTeX for people."""

import dataclasses
import math
from pathlib import Path

import pandas as pd

BESIDES = ("_n", "_low", "_high", "_chapter")


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns `row`, `variant`, means with their `_n`, `_low`, `_high` and `_chapter`, others as they are, `note`."""

    name: str
    caption: str
    frame: pd.DataFrame


def write(table: Table, budget: str, folder: Path) -> str:
    """Writes `<name>.csv`, `.md` and `.tex`; returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    caption = f"{table.caption} {reading(table.frame, budget)}"
    shown = readable(table.frame)
    text = f"**{caption}**\n\n{shown.to_markdown(index=False, disable_numparse=True)}\n"
    latex = shown.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
    table.frame.to_csv(folder / f"{table.name}.csv", index=False)
    (folder / f"{table.name}.md").write_text(text)
    (folder / f"{table.name}.tex").write_text(
        latex.to_latex(
            hrules=True,
            caption=_latex_text(caption),
            label=f"tab:{table.name}",
            position_float="centering",
            column_format="l" + "r" * (len(shown.columns) - 2) + "l",
        )
    )
    return text


def reading(frame: pd.DataFrame, budget: str) -> str:
    """How to read the numbers: their budget, how many runs they are, what stands in brackets."""
    counts = sorted({int(n) for column in frame if str(column).endswith("_n") for n in frame[column]} - {0})
    runs = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}" if counts else "no run yet"
    interval = "; [95 % interval]" if counts and counts[-1] > 1 else "; no interval from one run" if counts else ""
    chapter = any(frame[column].notna().any() for column in frame if str(column).endswith("_chapter"))
    return f"[{budget} budget, {runs}{interval}{'; (the chapter)' if chapter else ''}]"


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that people read: `mean [low, high] (the chapter's)`, empty ones left out."""
    means = [column for column in map(str, frame) if f"{column}_n" in frame]
    hidden = {f"{mean}{suffix}" for mean in means for suffix in BESIDES} | {"variant"}
    shown: dict[str, list[str]] = {}
    for column in map(str, frame):
        if column in means:
            if frame[column].notna().any() or frame[f"{column}_chapter"].notna().any():
                shown[_heading(column)] = [_mean(frame.iloc[i], column) for i in range(len(frame))]
        elif column not in hidden and (column == "row" or frame[column].astype(str).str.strip().any()):
            heading = "" if column == "row" else _heading(column)
            shown[heading] = [_plain(value) for value in frame[column]]
    return pd.DataFrame(shown)


def number(value: float) -> str:
    """Two decimals, or three significant digits below one; empty for what is not known."""
    if value is None or math.isnan(value):
        return ""
    if value == 0:
        return "0"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _mean(row: pd.Series, column: str) -> str:
    text = number(row[column])
    if text and not math.isnan(row[f"{column}_low"]):
        text += f" [{number(row[f'{column}_low'])}, {number(row[f'{column}_high'])}]"
    if not math.isnan(row[f"{column}_chapter"]):
        text += f" ({number(row[f'{column}_chapter'])})"
    return text.strip()


def _plain(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _heading(column: str) -> str:
    return column.replace("heldout", "held-out").replace("_", " ")


def _latex_text(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)
