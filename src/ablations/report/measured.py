"""Tables of what needs no training, from the JSON that `measure` writes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.report.statistics import mean
from ablations.report.table import Table, mean_cell
from ablations.settings import InputError


def measured_tables(folder: Path, chapter: dict[str, Any]) -> list[Table]:
    """One table per result in the folder, the chapter's figures beside ours."""
    return [_table(result, chapter.get(result["name"], {})) for result in _results(folder)]


def measured_rows(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The same results by table and row key, as they were measured."""
    found = _results(folder)
    return {r["name"]: {row["variant"]: row for row in r["rows"] if "variant" in row} for r in found}


def _results(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")):
        try:
            found += json.loads(file.read_text())
        except (ValueError, TypeError) as error:
            raise InputError(f"{file}: damaged; allowed: remove it, and `dvc repro` measures anew") from error
    return found


def _table(result: dict[str, Any], known: dict[str, Any]) -> Table:
    stated = {column for figures in known.values() for column in figures}
    rows = []
    for found in result["rows"]:
        theirs = known.get(found["variant"], {}) if "variant" in found else {}
        row: dict[str, Any] = {}
        for column, value in found.items():
            if isinstance(value, list):
                row |= mean_cell(column, mean(value), theirs.get(column))
            else:
                row[column] = value
                if column in stated:
                    row[f"{column}_chapter"] = theirs.get(column)
        rows.append(row)
    return Table(result["name"], result["caption"], pd.DataFrame(rows))
