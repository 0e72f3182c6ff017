"""`python -m ablations.bench.fixed FOLDER RUNS`: seconds of each of so many runs of one step in a warm worker, as Hydra
composes and launches them, less the step itself and the evaluation.
"""

import itertools
import os
import sys
import time
from typing import Any

import hydra

from ablations.data.windows import Windows
from ablations.settings import CONF
from ablations.study.job import job

apart = 0.0  # seconds spent in steps and evaluations


def _set_apart(function: Any) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        global apart
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            apart += time.perf_counter() - began

    return counted


def main(folder: str, runs: int) -> None:
    """Prints the seconds of each run but the first, which warms the worker up."""
    import torch

    # Lightning has the optimizer call loss and backward
    for owner, name in ((Windows, "evaluate"), (torch.optim.AdamW, "step")):
        setattr(owner, name, _set_apart(getattr(owner, name)))
    os.environ["ABLATIONS_BOARD"] = f"{folder}/board"
    ends: list[tuple[float, float]] = []

    def counted(config: Any) -> None:
        job(config)
        ends.append((time.perf_counter(), apart))

    sys.argv = ["bench", "-m", f"seed=range(0,{runs + 1})", "steps=1", "variant=ladder/layer_norm", "budget=quick"]
    sys.argv += [f"runtime.results={folder}/results", f"runtime.work={folder}/work"]
    hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(counted)()
    for (before, apart_before), (after, apart_after) in itertools.pairwise(ends):
        print(after - before - (apart_after - apart_before))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
