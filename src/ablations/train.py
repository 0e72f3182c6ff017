"""`python -m ablations.train key=value ...` trains one run; with `-m`, a Hydra multirun over comma-separated values."""

import argparse
import contextlib
import errno
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser

from ablations.data.prepare import prepare
from ablations.settings import CONF, ROOT, InputError, command
from ablations.study import cluster, compose
from ablations.study.board import GOOD, Place, Progress, Watch, broken, places, told
from ablations.study.check import check
from ablations.study.compose import Run
from ablations.study.cost import cost
from ablations.study.job import handle_signals, job, mirror_again, stopped
from ablations.study.keep import keep
from ablations.study.ledger import FINISHED, Ledger
from ablations.study.memory import let_workers_be_replaced
from ablations.study.mirror import mode

TASK = hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(job)
LOOKS = ("cfg", "info", "shell_completion", "hydra_help", "help")  # flags that show something and train nothing


@command
def main(arguments: list[str]) -> int:
    """Checks all runs first, then hands over to Hydra. Exit code: 0, 1 for failed runs, 2 for bad input."""
    parsed = _parsed(arguments)
    if any(getattr(parsed, flag) for flag in LOOKS):
        TASK()
        return 0
    handle_signals()
    mode()
    prepare()
    runs = _checked(parsed.overrides, parsed.multirun)
    ledger = Ledger(ROOT / runs[0][0].config["runtime"]["results"])
    for field in ("results", "work"):
        _writable(f"runtime.{field}", ROOT / runs[0][0].config["runtime"][field])
    accept = runs[0][0].config["runtime"]["accept_diverged"]
    states = {run.name: ledger.status(run) for run, _ in runs}
    mirror_again([run for run, _ in runs if states[run.name] in FINISHED])
    if set(states.values()) <= set(FINISHED):
        print(f"nothing to train: {len(runs)} of {len(runs)} runs are finished", file=sys.stderr)
        return told([{"name": name, "state": state} for name, state in states.items()], list(states), accept)
    board = ROOT / ".work" / "board" / f"{os.getpid()}-{time.time_ns()}"
    os.environ["ABLATIONS_BOARD"] = str(board)
    costs, finished = _scope(runs, states, ledger)
    for number, (run, _) in enumerate(runs):
        if (state := states[run.name]) in FINISHED:  # so that no launcher hands it out
            place = {"name": run.name, "state": "kept" if state == "done" else state, "message": "trained before"}
            keep(board / str(number) / "status.json", place | {"seconds": 0.0})
    with Watch(board, costs, finished):
        code = _launch()
        while code is None and broken(board):
            code = _launch()
    ended = places(board)
    judged = told(ended, list(states), accept) or _edited([run for run, _ in runs], ended, ledger)
    shutil.rmtree(board, ignore_errors=True)
    return code or judged


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line as Hydra reads it; raises InputError for what is not taken, before anything is composed."""
    parser = get_args_parser()
    parser.error = _refused  # type: ignore[method-assign]
    parsed = parser.parse_args(arguments)
    for flag in ("config_name", "config_path", "config_dir", "experimental_rerun"):
        if getattr(parsed, flag):
            raise InputError(f"--{flag.replace('_', '-')}: not taken; allowed: key=value over conf/config.yaml")
    asked = [flag for flag in ("run", "multirun", *LOOKS) if getattr(parsed, flag)]
    if len(asked) > 1:
        raise InputError(f"--{asked[0]} and --{asked[1]}: not together; allowed: one of them")
    compose.parse(parsed.overrides)
    if asked and asked[0] in ("cfg", "info", "help"):
        with compose.hydra():
            compose.settings(parsed.overrides)
    return parsed


def _refused(message: str) -> NoReturn:
    raise InputError(f"{message}; allowed: key=value, -m, --cfg job")


def _edited(runs: list[Run], ended: list[Place], ledger: Ledger) -> int:
    """Names runs that came to a good end as something else than what was asked for at the start. Exit code 1 then."""
    trained = {place["name"] for place in ended if place["state"] in GOOD}
    edited = [run.name for run in runs if run.name in trained and ledger.status(run) not in FINISHED]
    for name in edited:
        print(f"edited: {name}: its config or code changed meanwhile; the next start trains it anew", file=sys.stderr)
    return 1 if edited else 0


def _launch() -> int | None:
    """Hydra's launcher over all jobs; those that have ended end again at once. None where a worker was killed, and its
    pool with it: another launch goes on from the checkpoints of what was under way.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else it prints what is to be told here
    let_workers_be_replaced()
    try:
        TASK()
    except SystemExit as stop:
        return stopped() or (stop.code if isinstance(stop.code, int) else 1)
    except BrokenExecutor:
        print("warning: a worker was killed; what was under way goes on from its last checkpoint", file=sys.stderr)
        return None
    return 0


def _checked(overrides: list[str], multirun: bool) -> list[tuple[Run, float]]:
    """All runs that the command stands for, with their costs; raises InputError before any is trained."""
    named: dict[str, Run] = {}
    with compose.hydra():
        jobs = compose.expand(overrides) if multirun else [overrides]
        of_hydra = compose.settings([*jobs[0], *(o for o in overrides if o.startswith("hydra"))]).hydra
        launcher = of_hydra.runtime.choices["hydra/launcher"] if multirun else ""
        cluster.ready(launcher)
        runs = []
        known: dict[tuple[str, ...], tuple[Run, float]] = {}
        progress = Progress(len(jobs), "runs")
        for number, overrides_of_job in enumerate(jobs):
            progress(number)
            others, seed = compose.seed_of(overrides_of_job)
            if seed is not None and others in known:
                run, amount = known[others]
                runs.append((compose.with_seed(run, seed), amount))
            else:
                run = compose.composed(overrides_of_job)
                known[others] = run, cost(run.config, check(run.config, here=launcher not in cluster.NEEDS))
                runs.append(known[others])
            if named.setdefault(run.name, run).fingerprint != run.fingerprint:
                allowed = "one of the two at a time, since both would have this name"
                raise InputError(f"{' '.join(overrides_of_job)}: {run.name} is another run already; allowed: {allowed}")
    return runs


def _writable(field: str, folder: Path) -> None:
    """Tries it, since permissions alone do not tell."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return  # the run fails by itself, and what is finished stays
        reason = f"{folder} cannot be written ({error.strerror})"
        raise InputError(f"{field}: {reason}; allowed: a folder with write permission") from error


def _scope(runs: list[tuple[Run, float]], states: dict[str, str], ledger: Ledger) -> tuple[dict[str, float], set[str]]:
    """What the progress counts: these runs or, as a stage of DVC, all that are planned at their budget."""
    costs = {run.name: amount for run, amount in runs}
    finished = {name for name, state in states.items() if state in FINISHED}
    if "DVC_STAGE" in os.environ:
        elsewhere = ledger.finished()
        for file in sorted((ROOT / "plans" / runs[0][0].budget).glob("*.json")):
            with contextlib.suppress(ValueError, LookupError, TypeError):  # damaged: the plan stage makes it anew
                for planned in json.loads(file.read_text())["runs"]:
                    name = f"{planned['study']}/{planned['variant']} seed {planned['seed']}"
                    if name not in costs:
                        costs[name] = planned["cost"]
                        finished |= {name} if planned["fingerprint"] in elsewhere else set()
    return costs, finished


if __name__ == "__main__":
    sys.exit(main())
