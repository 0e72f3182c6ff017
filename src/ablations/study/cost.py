"""How much work runs are, and how long this machine takes for it."""

import json
import math
import os
import time
from collections.abc import Iterable

from ablations.settings import ROOT
from ablations.study.fingerprint import Config
from ablations.study.keep import keep

RATE = ROOT / ".work" / "rate.json"
EVALUATED = 100_000  # tokens, about: the held-out text and as much of the training text
OVERHEAD = 1.0  # seconds of a run besides its steps and its evaluation
EFFICIENCY = 0.5  # of a training step, against bare matrix products; only until a first run has been timed


def cost(config: Config, weights: int) -> float:
    """Floating-point operations of a run in units of 10^9: six per weight and trained token, two per evaluated one."""
    trained = float(config["steps"] * config["data"]["batch"] * config["data"].get("window", 1))
    return weights * (6.0 * trained + 2.0 * EVALUATED) / 1e9


def seconds(costs: Iterable[float], speed: float) -> float:
    """How long runs of these costs take side by side, one worker per core, each at `speed`."""
    costs = list(costs)
    return sum(cost / speed + OVERHEAD for cost in costs) / max(1, min(len(costs), cores()))


def cores() -> int:
    """Cores that this process may use: as many runs go on side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rate() -> float:
    """What one worker does per second here, in units of 10^9 operations: as last seen, or guessed."""
    try:
        known = float(json.loads(RATE.read_text())["rate"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = 0.0
    return known if 0 < known < math.inf else _guess()


def remember(seen: float) -> None:
    """Keeps a rate that was seen over real runs."""
    keep(RATE, {"rate": seen})


def _guess() -> float:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.ones(4096, 128), torch.ones(128, 1024)
    products = 0
    began = time.perf_counter()
    while time.perf_counter() - began < 0.2:
        a @ b
        products += 1
    taken = time.perf_counter() - began
    torch.set_num_threads(threads)
    return EFFICIENCY * products * 2 * 4096 * 128 * 1024 / 1e9 / taken
