"""The figures that need no training step: what a run costs besides its steps, and what the commands around it cost."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from ablations.settings import ROOT

RUNS = 5


def timed(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def run_fixed() -> list[float]:
    """Seconds of one more run of one step in a warm worker, less its step and its evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ablations.bench.fixed", folder, str(RUNS)]
        told = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True).stdout
    return [float(line) for line in told.split()]


def plan_seconds() -> list[float]:
    """`python -m ablations.plan` for all studies, composed before."""
    plan = [sys.executable, "-m", "ablations.plan", "time=no"]
    return [timed(lambda: _quietly(plan, ROOT)) for _ in range(4)][1:]


def noop_repro() -> list[float]:
    """`dvc repro` of all stages in a copy of the project where each is up to date."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        _quietly(["git", "clone", "--quiet", str(ROOT), str(copy)], ROOT)
        for name in ("data/corpus.txt", "data/tokens"):
            _copy(ROOT / name, copy / name)
        _quietly([sys.executable, "-m", "ablations.plan", "out=plans/chapter"], copy)
        for name in _outputs(copy):
            path = copy / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("[]") if path.suffix else path.mkdir()
        _quietly(["dvc", "commit", "--force", "--quiet"], copy)
        return [timed(lambda: _quietly(["dvc", "repro"], copy)) for _ in range(3)]


def report_seconds(runs: int) -> float:
    """Tables, claims and page from a ledger of so many runs of one study."""
    with tempfile.TemporaryDirectory() as folder:
        return float(_quietly([sys.executable, "-m", "ablations.bench.growth", folder, str(runs)], ROOT))


def tokenizer_ratio() -> list[float]:
    """Our training of the tokenizer against the library's trainer, in turn, on the same text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from ablations.data import tokenizer

    text = (ROOT / "data" / "corpus.txt").read_text()

    def library() -> None:
        other = Tokenizer(models.BPE())
        other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=1024, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        )
        other.train_from_iterator([text], trainer)

    return [timed(lambda: tokenizer.train(text, 1024)) / timed(library) for _ in range(3)]


def _outputs(copy: Path) -> list[str]:
    """What the stages of a copy of the project make, relative to it."""
    return [str(name) for name in json.loads(_quietly([sys.executable, "-c", _LIST_OUTPUTS], copy))]


_LIST_OUTPUTS = """
import json
from dvc.repo import Repo
repo = Repo()
outs = [out for stage in repo.index.stages for out in stage.outs]
print(json.dumps([str(out.fs_path).removeprefix(repo.root_dir + "/") for out in outs]))
"""


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, target)


def environment(root: Path = ROOT) -> dict[str, str]:
    """That in which a project's own code runs, each run with one launcher and wandb offline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DVC", "ABLATIONS"))}
    return kept | {"PYTHONPATH": str(root / "src"), "WANDB_MODE": "offline", "LAUNCHER": "basic"}


def _quietly(command: list[str], cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, env=environment(cwd), capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stdout[-400:]} {ended.stderr[-800:]}")
    return ended.stdout


def middle(values: list[float]) -> float:
    """Their median."""
    return float(median(values))
