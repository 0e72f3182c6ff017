"""A table as CSV for programs, as Markdown and LaTeX for people."""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.report.table import Table, number

BESIDES = ("_n", "_low", "_high", "_chapter")


def write(table: Table, budget: str, folder: Path) -> str:
    """Writes `<name>.csv`, `.md` and `.tex`; returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = readable(table.frame)
    caption = f"{table.caption} {reading(table.frame, budget)}".strip()
    columns = shown.replace(r"\|", r"\|", regex=True)  # a bar would begin another column
    text = f"**{caption}**\n\n{columns.to_markdown(index=False, disable_numparse=True)}\n"
    text += f"\n{table.remark}\n" if table.remark else ""
    latex = shown.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
    table.frame.to_csv(folder / f"{table.name}.csv", index=False)
    (folder / f"{table.name}.md").write_text(text)
    (folder / f"{table.name}.tex").write_text(
        latex.to_latex(
            hrules=True,
            caption=_latex_text(" ".join(filter(None, (f"{caption}.", table.remark))) if table.remark else caption),
            label=f"tab:{table.name}",
            position_float="centering",
            column_format="l" + "r" * (len(shown.columns) - 1),
        )
    )
    return text


def reading(frame: pd.DataFrame, budget: str) -> str:
    """How to read the numbers: their budget, how many runs they are, what stands in brackets."""
    counts = sorted({int(n) for column in frame if str(column).endswith("_n") for n in frame[column].dropna()} - {0})
    means = any(str(column).endswith("_n") for column in frame)
    runs = [f"{budget} budget"] if means else []
    if len(counts) == 1:
        runs.append(f"n = {counts[0]}")
    elif means:
        runs.append(f"n = {counts[0]} to {counts[-1]}" if counts else "no run yet")
    if counts:
        runs.append("[95 % interval]" if counts[-1] > 1 else "no interval from one run")
    if any(frame[column].notna().any() for column in frame if str(column).endswith("_chapter")):
        runs.append("(the chapter's)")
    return f"— {'; '.join(runs)}" if runs else ""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that people read: `mean [low, high] (the chapter's)`, empty ones left out."""
    columns = list(map(str, frame))
    figures = [column for column in columns if any(f"{column}{suffix}" in columns for suffix in BESIDES)]
    hidden = {f"{figure}{suffix}" for figure in figures for suffix in BESIDES} | {"variant"}
    shown: dict[str, list[str]] = {}
    for column in columns:
        if column in hidden:
            continue
        cells = [_cell(row, column) for row in frame.to_dict("records")]
        if column == "row" or any(cells):
            shown["" if column == "row" else _heading(column)] = cells
    return pd.DataFrame(shown)


def _cell(row: dict[Any, Any], column: str) -> str:
    value = row[column]
    if column.endswith("parameters") and isinstance(value, float) and not math.isnan(value):
        value = int(value)  # a column with an empty place in it is one of floats
    text = number(value)
    if text and number(row.get(f"{column}_low")):
        text += f" [{number(row[f'{column}_low'])}, {number(row[f'{column}_high'])}]"
    if known := number(row.get(f"{column}_chapter")):
        text += f" ({known})"
    return text.strip()


def _heading(column: str) -> str:
    return column.replace("heldout", "held-out").replace("_", " ").replace(" mb", " MB")


def _latex_text(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text).replace("—", "---")
