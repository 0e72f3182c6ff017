"""How long runs take on this machine: a few real steps of each kind of run, timed once and kept."""

import hashlib
import heapq
import itertools
import json
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import joblib
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ablations.settings import ROOT
from ablations.study.compose import Run
from ablations.study.cost import EVALUATED, OVERHEAD, cores
from ablations.study.fingerprint import Config
from ablations.study.keep import keep
from ablations.study.memory import keep_freed_memory, let_workers_be_replaced

KEPT = ROOT / ".work" / "calibration.json"
SECONDS, STEPS = 0.6, 2  # of timed steps per kind of run, at least
START = 8.0  # seconds of a study besides its runs: composing and checking them, starting workers
NO_MATTER = ("seed", "steps", "optimizer", "schedule", "probe", "divergence", "study", "budget", "lengths", "logger")


def estimate(runs: Sequence[Run]) -> float:
    """Seconds until the last of the runs ends here: study after study, as many runs side by side as there are cores.

    Kinds of run that were not timed yet are timed first: about a minute for all the studies.
    """
    speeds = _calibrated(runs)
    whole = 0.0
    for _, of_study in itertools.groupby(runs, key=lambda run: run.study):
        free = [START] * cores()
        for run in of_study:
            step = speeds[kind(run.config)]
            heapq.heapreplace(free, free[0] + OVERHEAD + step * (run.config["steps"] + _evaluation(run.config)))
        whole += max(free)
    return whole


def kind(config: Config) -> str:
    """What two runs share whose steps take equally long."""
    kept = {name: value for name, value in config.items() if name not in NO_MATTER}
    kept["runtime"] = {name: config["runtime"][name] for name in ("accelerator", "threads")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def step_seconds(config: Config) -> float:
    """Median time of a training step of a run, after one that is not counted."""
    import torch

    from ablations.training.build import build_data, build_model
    from ablations.training.module import Training
    from ablations.training.run import autocast

    keep_freed_memory()
    torch.set_num_threads(config["runtime"]["threads"])
    device = torch.device("cuda" if config["runtime"]["accelerator"] == "gpu" else "cpu")
    data = build_data(config)
    model = build_model(config, data.vocabulary).to(device).train()
    optimizer = Training(model, data, config["optimizer"], 0, 0).configure_optimizers()
    taken: list[float] = []
    while len(taken) <= STEPS or sum(taken[1:]) < SECONDS:
        began = time.perf_counter()
        x_BxT, y_BxT = (tokens.to(device) for tokens in data.batch(len(taken)))
        optimizer.zero_grad()
        with autocast(config):
            loss = model.loss(x_BxT, y_BxT)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()
        taken.append(time.perf_counter() - began)
    return float(median(taken[1:]))


def _evaluation(config: Config) -> float:
    """Evaluating at the end, in training steps: forward alone is a third of one."""
    tokens: int = config["data"]["batch"] * config["data"].get("window", 1)
    return EVALUATED / tokens / 3


def _calibrated(runs: Sequence[Run]) -> dict[str, float]:
    speeds = _kept()
    unknown = {kind(run.config): run.config for run in runs if kind(run.config) not in speeds}
    if unknown:
        speeds |= _timed(unknown)
        keep(KEPT, {"machine": _machine(), "step_seconds": speeds})
    return speeds


def _timed(configs: dict[str, Config]) -> dict[str, float]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    found: dict[str, float] = {}
    let_workers_be_replaced()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("timing a few steps of each kind of run, once", total=len(configs))
        if not console.is_terminal:
            console.print(f"timing a few steps of each kind of run ({len(configs)}), once: about a minute")
        pool = joblib.Parallel(n_jobs=cores(), return_as="generator")
        for name, seconds in zip(configs, pool(joblib.delayed(step_seconds)(config) for config in configs.values())):
            found[name] = seconds
            progress.advance(task)
            if not console.is_terminal and len(found) % 10 == 0:
                console.print(f"timed {len(found)} of {len(configs)}")
    return found


def _machine() -> str:
    from importlib.metadata import version

    from ablations.study.provenance import processor_model

    return f"{processor_model()}, {cores()} cores, torch {version('torch')}"


def _kept() -> dict[str, float]:
    try:
        kept: dict[str, Any] = json.loads(KEPT.read_text())
        return {str(k): float(v) for k, v in kept["step_seconds"].items()} if kept["machine"] == _machine() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
