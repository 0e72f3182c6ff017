"""Where and when a run was made."""

import functools
import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ablations.settings import ROOT

PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "wandb", "numpy", "tokenizers")


@functools.cache
def commit() -> tuple[str | None, bool | None]:
    """The commit, and whether what runs depend on is as committed; None where there is no repository.

    Asked once per process, so a job asks before it trains: the tree may be edited meanwhile.
    """
    try:
        ask = functools.partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
        head = ask(["git", "rev-parse", "HEAD"]).stdout.strip()
        changes = ask(["git", "status", "--porcelain", "--", "src", "conf", "params.yaml"]).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head, not changes


def processor() -> str:
    """The processor's own name, with its instruction set as torch uses it."""
    import torch

    return f"{processor_model()}, {torch.backends.cpu.get_cpu_capability()}"


@functools.cache
def processor_model() -> str:
    """The processor's own name."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    return name


def provenance(config: dict[str, Any], started: datetime, resumed_at: int | None) -> dict[str, Any]:
    """The `provenance.json` of a run that ends now."""
    made_by, clean = commit()
    ended = datetime.now(UTC)
    return {
        "commit": made_by,
        "clean": clean,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {package: importlib.metadata.version(package) for package in PACKAGES},
        "processor": processor(),
        "accelerator": config["runtime"]["accelerator"],
        "threads": config["runtime"]["threads"],
        "started": started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round((ended - started).total_seconds(), 1),
        "resumed_at_step": resumed_at,
    }
