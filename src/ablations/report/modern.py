"""Tables of the second chapter's studies that show more than perplexity."""

from typing import Any

import pandas as pd

from ablations.report.results import COUNTED, TRAINED, load_history, reading
from ablations.report.statistics import log_mean, mean
from ablations.report.studies import PERPLEXITY, Chapter, Study, per_variant
from ablations.report.table import Table, mean_cell
from ablations.study.ledger import read


def stacks(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Share of held-out sequences, and of symbols, that come out right."""
    return [per_variant(study, runs, chapter, dict.fromkeys(("accuracy", "accuracy_symbols"), mean))]


def experts(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Perplexity, how evenly the experts are used at the end of training, and the parameters that a token passes."""
    table = per_variant(study, runs, chapter, {PERPLEXITY: log_mean})
    rows = []
    for variant in table.frame["variant"]:
        group = runs[(runs["variant"] == variant) & runs["state"].isin(COUNTED)]
        rows.append(_at_end(group, "load_entropy") | {"active_parameters": _active(group)})
    return [_with(table, rows)]


def stability(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Perplexity, and what has become of attention by the end, also where a run diverged."""
    table = per_variant(study, runs, chapter, {PERPLEXITY: log_mean})
    rows = []
    for variant in table.frame["variant"]:
        group = runs[(runs["variant"] == variant) & runs["state"].isin(TRAINED)]
        rows.append(_at_end(group, "entropy", "saturated", "score_std"))
    return [_with(table, rows)]


def _with(table: Table, rows: list[dict[str, Any]]) -> Table:
    before, after = table.frame.drop(columns=["parameters", "note"]), table.frame[["parameters", "note"]]
    return Table(table.name, table.caption, pd.concat([before, pd.DataFrame(rows), after], axis=1), table.remark)


def _at_end(group: pd.DataFrame, *probes: str) -> dict[str, Any]:
    """The last readings of probes in the first block, means over seeds."""
    histories = [load_history(folder) for folder in group["folder"]]
    cells: dict[str, Any] = {}
    for probe in probes:
        found = [value for history in histories for value in reading(history, f"block1/{probe}", -1)]
        cells |= mean_cell(f"{probe}_end", mean(found))
    return cells


def _active(group: pd.DataFrame) -> int | None:
    """Parameters less those of the experts that a token is not sent to."""
    record = read(group["folder"].iloc[0]) if len(group) else None
    if record is None:
        return None
    model: dict[str, Any] = record["config"]["model"]
    whole: int = record["metrics"]["parameters"]
    network = model["feedforward"]
    if "experts" not in network:
        return whole
    width, inner = int(model["width"]), round(model["width"] * network["inner"])
    idle = int(model["blocks"]) * int(network["experts"] - network["chosen"])
    active: int = whole - idle * (2 * width * inner + inner + width)
    return active
