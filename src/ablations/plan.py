"""`python -m ablations.plan [study=NAME] [budget=NAME] [seeds=N] [format=json] [time=no] [out=FOLDER]`: what would be
trained, and how long that takes here. The first time a few steps of each kind of run are timed, unless `time=no`.

Stage `plan` of DVC writes one sorted JSON file per study into `out`: every run with its overrides and its identity.
The stage that trains a study depends on its file alone, so an edit that changes no run trains nothing.
"""

import json
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ablations.data.prepare import prepare
from ablations.measure.catalogue import MEASUREMENTS
from ablations.settings import ROOT, SEEDS, InputError, command, folder_name, options, parameters
from ablations.study import compose
from ablations.study.board import duration
from ablations.study.compose import Run
from ablations.study.fingerprint import measurement_fingerprint
from ablations.study.ledger import FINISHED, Ledger
from ablations.study.planned import as_plan, planned

OPTIONS = ("study=NAME", "budget=NAME", "seeds=N", "format=table|json", "time=yes|no", "out=FOLDER")


@command
def main(arguments: list[str]) -> None:
    """Prints the plan, or writes it."""
    given = _given(arguments)
    prepare()
    runs = planned(_seeds(given), given["budget"])
    if "out" in given:
        folder = ROOT / given["out"]
        _write(runs, folder)
        _write_measurements(given["budget"], folder / "measure")
        return
    ledger = Ledger(ROOT / "results")
    rows = [
        {name: getattr(run, name) for name in ("study", "variant", "seed", "fingerprint")}
        | {"status": ledger.status(run)}
        for run, _ in runs
    ]
    to_train: dict[str, Run] = {}
    elsewhere = ledger.finished()
    for (run, _), row in zip(runs, rows, strict=True):
        if row["status"] not in FINISHED and row["fingerprint"] not in elsewhere:
            to_train.setdefault(run.fingerprint, run)  # the first study that has it trains it
    ahead = _seconds(list(to_train.values())) if given["time"] == "yes" else None
    if given["format"] == "json":
        print(json.dumps({"runs": rows, "seconds": None if ahead is None else round(ahead, 1)}, indent=1))
        return
    table = Table("study", "variant", "seed", "status", "identity", box=None, header_style="bold")
    for row in rows:
        table.add_row(row["study"], row["variant"], str(row["seed"]), row["status"], row["fingerprint"])
    console = Console(highlight=False)
    console.print(table)
    own = {row["fingerprint"] for row in rows if row["status"] not in FINISHED}
    shared = len(rows) - len({row["fingerprint"] for row in rows}) + len(own & elsewhere)
    here = f", about {duration(ahead)} here" if ahead else ""
    left = f"{len(to_train)} to train{here}" if to_train else "none to train"
    console.print(f"{len(rows)} runs, {shared} of them the same as another; {left}")


def _seconds(runs: list[Run]) -> float:
    from ablations.study.calibrate import estimate

    return estimate(runs) if runs else 0.0


def _write(runs: list[tuple[Run, float]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for study, content in as_plan(runs).items():
        (folder / f"{study}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _write_measurements(budget: str, folder: Path) -> None:
    """One file per measurement with its identity, so that a stage is run again when its code changes, not its looks."""
    folder.mkdir(exist_ok=True)
    with compose.hydra():
        for name, (module, variants, data) in MEASUREMENTS.items():
            runs = [compose.composed([f"variant={v}", f"budget={budget}"]).fingerprint for v in variants]
            identity = {"name": name, "fingerprint": measurement_fingerprint(module, runs, data)}
            (folder / f"{name}.json").write_text(json.dumps(identity, indent=1, sort_keys=True) + "\n")


def _given(arguments: list[str]) -> dict[str, str]:
    given = options(arguments, *OPTIONS, budget="chapter", format="table", time="yes")
    seeds = given.get("seeds", "1")
    if not (re.fullmatch("[1-9][0-9]{0,5}", seeds) and int(seeds) <= SEEDS):
        raise InputError(f"seeds: {seeds}; allowed: a whole number from 1 to {SEEDS}")
    if "out" in given and (ROOT / given["out"]).is_file():
        raise InputError(f"out: {given['out']}; allowed: a folder")
    folder_name("budget", given["budget"])
    return given


def _seeds(given: dict[str, str]) -> dict[str, int]:
    """Runs per variant of each study asked for: as `params.yaml` says, or as the option does."""
    params = parameters([])
    names = [given["study"]] if "study" in given else list(params.studies)
    least = params.studies if given["budget"] == "chapter" else {}
    return {name: int(given.get("seeds") or max(params.seeds, least.get(name, 1))) for name in names}


if __name__ == "__main__":
    sys.exit(main())
