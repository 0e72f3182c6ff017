"""What the tests share: small models, and projects of their own in temporary folders."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from ablations.data import corpus, tokenizer
from ablations.settings import TINYSHAKESPEARE

PROJECT = Path(__file__).parents[1]
torch.set_num_threads(1)  # tests go side by side
TEXT = "the old king spoke to the young king , and the young king spoke of the old days . " * 400


@pytest.fixture(scope="session")
def small_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokens of a short text, as stage `tokenize` writes them."""
    folder = tmp_path_factory.mktemp("tokens") / "tokens"
    tokenizer.write(TEXT, 300, folder)
    return folder


@pytest.fixture(scope="session")
def longer_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a text whose held-out part fills the longest window of any study."""
    folder = tmp_path_factory.mktemp("longer") / "tokens"
    tokenizer.write(2 * TEXT, 300, folder)
    return folder


@pytest.fixture(scope="session")
def shakespeare() -> str:
    """The chapter's corpus."""
    file = PROJECT / "data" / "corpus.txt"
    data = file.read_bytes() if file.exists() else corpus.obtain(TINYSHAKESPEARE, None)[0]
    return data.decode()


def params_for_a_text() -> str:
    """`params.yaml` with `mine.txt` for a corpus, and few tokens."""
    params = (PROJECT / "params.yaml").read_text()
    for field, value in {"path": "mine.txt", "sha256": "null", "vocabulary": "300"}.items():
        params, found = re.subn(rf"(?m)^  {field}: .*$", f"  {field}: {value}", params)
        assert found == 1
    return params


@pytest.fixture
def project(tmp_path: Path, longer_tokens: Path) -> Path:
    """A copy of the project's sources and configs, with a short text for data and nothing trained."""
    root = tmp_path / "project"
    for name in ("src", "conf"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", "Makefile"):
        shutil.copy(PROJECT / name, root / name)
    (root / "params.yaml").write_text(params_for_a_text())
    (root / "mine.txt").write_text(2 * TEXT)
    shutil.copytree(longer_tokens, root / "data" / "tokens")
    (root / "data" / "corpus.txt").write_text(2 * TEXT)
    return root


SMALL = ("steps=12", "model.width=16", "data.window=16", "data.batch=4", "probe.every=5", "budget=quick")


def unavailable(why: str) -> NoReturn:
    """Skips; where all is said to be installed, as in CI, fails."""
    if os.environ.get("ABLATIONS_TEST_ALL"):
        pytest.fail(why)
    pytest.skip(why)


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(project: Path) -> Command:
    """Runs `python -m <module> <arguments>` of the copied project and returns what came out."""

    def call(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=project,
            env=environment_of(project, **environment),
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call


def environment_of(project: Path, **more: str) -> dict[str, str]:
    """The environment in which the copied project's code is the one that runs, and no make stands above it."""
    foreign = ("WANDB", "DVC", "ABLATIONS", "MAKE", "MFLAGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"PYTHONPATH": str(project / "src"), "WANDB_MODE": "disabled", "LAUNCHER": "basic"} | more


def launched(project: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A training command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ablations.train", *arguments],
        cwd=project,
        env=environment_of(project, **environment),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def started(
    project: Path, *arguments: str, runs: int = 1, within: float = 60, **environment: str
) -> subprocess.Popen[str]:
    """The same, once so many of its runs are past their first checkpoints."""
    process = launched(project, *arguments, **environment)
    deadline = time.monotonic() + within
    while len(list((project / ".work" / "runs").glob("*/last.ckpt"))) < runs:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    return process


def add_mixer(project: Path, name: str, code: str) -> None:
    """A new mixer is one file in `model/` and one in `conf/`; its class is called as its file."""
    (project / f"src/ablations/model/mixer/{name}.py").write_text(code)
    target = f"ablations.model.mixer.{name}.{name.capitalize()}"
    (project / f"conf/model/mixer/{name}.yaml").write_text(f"_target_: {target}\n")


def records(project: Path) -> dict[str, dict[str, Any]]:
    """All records of the ledger by their folder."""
    files = sorted((project / "results").rglob("run.json"))
    return {str(file.parent.relative_to(project / "results")): json.loads(file.read_text()) for file in files}
