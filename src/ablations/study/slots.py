"""Places on GPUs: how many runs share one is a setting, and no launcher has to know of it."""

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PATIENCE = 0.2  # seconds between two looks for a free place


def visible(count: int) -> list[str]:
    """Names of the `count` GPUs that torch sees, in its order: the same for all processes of this machine, also where
    a scheduler shows each job its own alone and calls all of them 0.
    """
    for variable in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        names = os.environ.get(variable, "").split(",")
        if len(names) == count and all(names):
            return names
    return [str(number) for number in range(count)]


@contextlib.contextmanager
def place(folder: Path, gpus: list[str], slots: int) -> Iterator[int]:
    """Waits for a place on a GPU of this machine, and holds it; a process that dies gives its place back.

    Args:
        folder: of the lock files, which machines may share: each has one of its own in it.
        gpus: their names.
        slots: runs that share one.

    Yields:
        The number of the GPU, as torch counts. First places are taken before second ones.
    """
    folder = folder / platform.node()
    folder.mkdir(parents=True, exist_ok=True)
    gpu, lock = _first_free(
        [(number, folder / f"gpu-{name}-slot-{slot}.lock") for slot in range(slots) for number, name in enumerate(gpus)]
    )
    try:
        yield gpu
    finally:
        lock.release()


def _first_free(places: list[tuple[int, Path]]) -> tuple[int, FileLock]:
    while True:
        for gpu, file in places:
            lock = FileLock(file)
            with contextlib.suppress(Timeout):
                lock.acquire(blocking=False)
                return gpu, lock
        time.sleep(PATIENCE)
