"""Places on GPUs: how many runs share one is a setting, and no launcher has to know of it."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PATIENCE = 0.2  # seconds between two looks for a free place


@contextlib.contextmanager
def place(folder: Path, gpus: int, slots: int) -> Iterator[int]:
    """Waits for a place on a GPU of this machine, and holds it; a process that dies gives its place back.

    Args:
        folder: of the lock files, the same for all processes that share the GPUs.
        gpus: how many there are.
        slots: runs that share one.

    Yields:
        The number of the GPU. First places are taken before second ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    gpu, lock = _first_free(
        [(gpu, folder / f"gpu-{gpu}-slot-{slot}.lock") for slot in range(slots) for gpu in range(gpus)]
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
