"""How much work runs are, and how long this machine takes for it."""

import json
import os
import time
from pathlib import Path
from typing import Any

from ablations.settings import ROOT

Config = dict[str, Any]

RATE = ROOT / ".work" / "rate.json"
EVALUATED = 100_000  # tokens, about: the held-out text and as much of the training text
EFFICIENCY = 0.5  # of a training step, against bare matrix products; only until a first run has been timed


def cost(config: Config, weights: int) -> float:
    """Floating-point operations of a run in units of 10^9: six per weight and trained token, two per evaluated one."""
    trained = float(config["steps"] * config["data"]["batch"] * config["data"].get("window", 1))
    return weights * (6.0 * trained + 2.0 * EVALUATED) / 1e9


def rate() -> float:
    """What this machine does per second over all its cores, in units of 10^9 operations: as last seen, or guessed."""
    try:
        return float(json.loads(RATE.read_text())["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return _guess()


def remember(seen: float) -> None:
    """Keeps a rate that was seen over real runs."""
    try:
        RATE.parent.mkdir(parents=True, exist_ok=True)
        part = Path(f"{RATE}.{os.getpid()}")
        part.write_text(json.dumps({"rate": seen}))
        os.replace(part, RATE)
    except OSError:
        return  # an estimate less, nothing more


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
    seconds = time.perf_counter() - began
    torch.set_num_threads(threads)
    return EFFICIENCY * products * 2 * 4096 * 128 * 1024 / 1e9 / seconds * len(os.sched_getaffinity(0))
