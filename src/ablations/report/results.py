"""What the plan asks for and what the ledger has: one row per run."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.settings import ROOT, InputError, folder_name, options
from ablations.study.ledger import read

MISSING = "not run"
STALE = "older code"
BY_HAND = "allowed: one written by `python -m ablations.plan budget={0} out=plans/{0}`"
PLANNED = ("study", "variant", "seed", "fingerprint", "folder")  # what a plan says of each run
COUNTED = ("done", STALE)  # states whose numbers are averaged
TRAINED = (*COUNTED, "diverged")  # states of runs that have a history


def budget_of(arguments: list[str]) -> str:
    """The budget that a report's command is given, `budget=NAME`; the chapter's where it is given none.

    Raises:
        InputError: another argument, or no name of a folder.
    """
    return folder_name("budget", options(arguments, "budget=NAME", budget="chapter")["budget"])


def load_plan(budget: str) -> dict[str, Any]:
    """The studies planned at a budget, by name, each with `study` (its file's text) and `runs`.

    Raises:
        InputError: no plan at that budget.
    """
    files = sorted((ROOT / "plans" / budget).glob("*.json"))
    if not files:
        raise InputError(f"budget: {budget} has no plan; {BY_HAND.format(budget)}")
    plan: dict[str, Any] = {}
    for file in files:
        try:
            study = plan[file.stem] = json.loads(file.read_text())
            if not isinstance(study["study"], dict) or not all({*PLANNED} <= {*run} for run in study["runs"]):
                raise ValueError("no plan")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"plans/{budget}/{file.name}: no plan; {BY_HAND.format(budget)}") from error
    return plan


def load_runs(plan: dict[str, Any], results: Path) -> pd.DataFrame:
    """One row per planned run: study, variant, seed, state, its metrics, and its folder.

    `state` is the record's status, `not run`, or `older code` where the record is of another identity than planned.
    """
    rows: list[dict[str, Any]] = []
    for study in plan.values():
        for run in study["runs"]:
            folder = results / run["folder"]
            record = read(folder)
            row = {name: run[name] for name in ("study", "variant", "seed")} | {"folder": folder, "state": MISSING}
            if record is not None:
                current = record["fingerprint"] == run["fingerprint"]
                row["state"] = record["status"] if current or record["status"] == "failed" else STALE
                row |= record["metrics"]
            rows.append(row)
    return pd.DataFrame(rows)


def reading(history: pd.DataFrame, column: str, at: int) -> list[float]:
    """The first known value (`at` 0) or the last (-1) of a column of a history; empty where there is none."""
    known = history[column].dropna() if column in history else pd.Series()
    return [float(known.iloc[at])] if len(known) else []


def load_history(folder: Path) -> pd.DataFrame:
    """The history of one run."""
    return pd.read_csv(folder / "history.csv")
