"""A small study in a repository of its own, what comes of it undisturbed, and ways to disturb it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.conftest import environment_of
from tests.repository import bits, committed, copied

VARIANT = """# @package _global_
defaults: [/study/small, _self_]
model: {{width: {width}}}
data: {{window: 16, batch: 4}}
steps: {steps}
probe: {{every: 50}}
runtime: {{checkpoint_every: 10}}
"""
STUDY = "# @package _global_\nstudy: {name: small, question: How wide, baseline: narrow, rows: {narrow: n, wide: w}}\n"
STEPS = 400
SWEEP = ("-m", "+variant/small=glob(*)", "seed=range(0,2)", "runtime.accept_diverged=true")
Outcome = dict[str, bytes]


def repository(root: Path) -> Path:
    """The project about a short text, with one study of two variants and two seeds; its tokens are made."""
    copied(root)
    (root / "params.yaml").write_text(
        "corpus: {path: mine.txt, sha256: null}\ntokenizer: {vocabulary: 300}\nseeds: 2\nstudies: {small: 2}\n"
    )
    (root / "conf/study/small.yaml").write_text(STUDY)
    (root / "conf/variant/small").mkdir()
    for name, width in (("narrow", 16), ("wide", 24)):
        (root / f"conf/variant/small/{name}.yaml").write_text(VARIANT.format(width=width, steps=STEPS))
    committed(root)
    repro(root, "tokenize")
    return root


def start(root: Path, *command: str, **environment: str) -> subprocess.Popen[str]:
    """A command of the repository's, in a session of its own, as from a terminal."""
    more = environment_of(root, **{"LAUNCHER": "joblib"} | environment)
    more["PATH"] = f"{Path(sys.executable).parent}:{more['PATH']}"
    return subprocess.Popen(
        command, cwd=root, env=more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def said(process: subprocess.Popen[str], code: int | tuple[int, ...] = 0) -> str:
    """What a command says to its end, which has to come with this exit code."""
    told, _ = process.communicate(timeout=300)
    assert process.returncode in (code if isinstance(code, tuple) else (code,)), f"{process.returncode}: {told}"
    return told


def repro(root: Path, *arguments: str, code: int | tuple[int, ...] = 0, **environment: str) -> str:
    """`dvc repro`, to its end."""
    return said(start(root, "dvc", "repro", *(arguments or ("tables",)), **environment), code)


def train(root: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The study by the training command alone."""
    return start(root, sys.executable, "-m", "ablations.train", *(arguments or SWEEP), **environment)


def outcome(root: Path) -> Outcome:
    """The tables, and what of the ledger is a function of the runs' identities; all of it, to the byte."""
    tables = [file for file in (root / "reports/chapter/tables").rglob("*") if file.is_file()]
    return bits(root / "results") | {str(file.relative_to(root)): file.read_bytes() for file in tables}


def until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits for a moment of a command's life."""
    deadline = time.monotonic() + 120
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def begun(root: Path) -> bool:
    """Whether a run is past its first checkpoint."""
    return bool(list((root / ".work" / "runs").glob("*/last.ckpt")))


def below(process: subprocess.Popen[str], words: str) -> list[psutil.Process]:
    """Processes that a command started, directly or not, whose own command has these words."""
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if words in " ".join(child.cmdline()):
                    found.append(child)
    return found


def kill_all(process: subprocess.Popen[str]) -> None:
    """As when the power fails: the command and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own in `folder`.

    Raises:
        PermissionError: none can be mounted here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        raise PermissionError("a file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Takes all room of a file system but for `leave` bytes; the file that does."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        file.write(b"x" * max(0, free.f_bavail * free.f_bsize - leave))
        while not leave and file.write(b"x" * 512):
            pass
    return filler
