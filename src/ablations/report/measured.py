"""Tables of what needs no training, from the JSON that `measure` writes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.report.statistics import mean
from ablations.report.table import Table, mean_cell


def measured_tables(folder: Path, chapter: dict[str, Any]) -> list[Table]:
    """One table per result in the folder, the chapter's figures beside ours."""
    results = [result for file in sorted(folder.glob("*.json")) for result in json.loads(file.read_text())]
    return [_table(result, chapter.get(result["name"], {})) for result in results]


def measured_rows(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The same results by table and row key, as they were measured."""
    results = [result for file in sorted(folder.glob("*.json")) for result in json.loads(file.read_text())]
    return {r["name"]: {row["variant"]: row for row in r["rows"] if "variant" in row} for r in results}


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
