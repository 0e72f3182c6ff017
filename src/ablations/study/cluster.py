"""What the launchers of clusters (`hydra_plugins/`) share: what a job takes along, and what the board knows of it."""

import importlib.util
import os
import shutil
from pathlib import Path

from ablations.settings import InputError, one_line
from ablations.study.board import ENDED, read
from ablations.study.keep import keep

# No secret is among them: Ray writes what it carries into its logs. A node finds an account where wandb does.
CARRIED = ("ABLATIONS_BOARD", "ABLATIONS_ROOT", "PYTHONPATH", "WANDB_MODE", "WANDB_SILENT")
NEEDS = {"slurm": ("hydra_plugins.hydra_submitit_launcher", "sbatch"), "ray": ("ray", None)}


def ready(launcher: str) -> None:
    """Looks whether a launcher can do anything here.

    Raises:
        InputError: its package is not installed, or its scheduler is not here.
    """
    package, program = NEEDS.get(launcher, (None, None))
    if package and importlib.util.find_spec(package) is None:
        raise InputError(f"hydra/launcher: {launcher}; allowed: basic, joblib, and this one after `make clusters`")
    if program and shutil.which(program) is None:
        raise InputError(f"hydra/launcher: {launcher}; allowed: basic, joblib, since there is no `{program}` here")


def carried() -> dict[str, str]:
    """The variables that a job needs, whatever the cluster hands on by itself."""
    return {name: os.environ[name] for name in CARRIED if name in os.environ}


def ended(board: Path, number: int) -> bool:
    """Whether a job has nothing left to do."""
    place = read(board / str(number) / "status.json")
    return place is not None and place["state"] in ENDED


def lost(board: Path, number: int, message: str) -> None:
    """Tells of a job that the scheduler ended, unless it has told its own end."""
    file = board / str(number) / "status.json"
    place = read(file)
    if place is not None and place["state"] not in ENDED:
        told = message if len(message) < 200 else f"{message[:200]}..."
        keep(file, place | {"state": "lost", "message": f"{one_line(Exception(told))}; the next start goes on"})
