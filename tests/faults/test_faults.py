"""Kills, damage, a full disk, two starts at once: nothing finished is lost, nothing half done is taken for done."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import SMALL, Command, environment_of, records, started
from tests.disturbed import below

LONG = ("steps=1000", *SMALL[1:], "runtime.checkpoint_every=20")


@pytest.fixture
def begun(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A long run in a process group of its own, past its first checkpoint."""
    process = started(project, *LONG)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_killed_run_is_begun_and_goes_on_to_the_same_bits(
    begun: subprocess.Popen[str], run: Command, project: Path, number: int, code: int
) -> None:
    os.killpg(begun.pid, number)
    _, told = begun.communicate(timeout=30)
    assert begun.returncode == code
    assert "Traceback" not in told
    if number != signal.SIGKILL:
        assert told.splitlines()[-1].startswith("stopped: sweep/")
    assert records(project) == {}
    # the same identity, for a length of time that a test can wait: LONG has to be finished
    assert run("ablations.train", *LONG).returncode == 0
    (folder,) = records(project)
    made = json.loads((project / "results" / folder / "provenance.json").read_text())
    assert made["resumed_at_step"] >= 20
    kept = {f.name: f.read_bytes() for f in (project / "results" / folder).iterdir()}
    shutil.rmtree(project / "results")
    assert run("ablations.train", *LONG).returncode == 0
    for name in ("run.json", "history.csv"):
        assert (project / "results" / folder / name).read_bytes() == kept[name]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_a_sweep_ends_it(project: Path, number: int, code: int) -> None:
    """To the command alone, whose workers are then ended: that is not taken for a killed worker."""
    small = [option for option in SMALL if not option.startswith("steps")]
    sweep = ("-m", "hydra.launcher.n_jobs=2", "seed=0,1,2", "steps=20000", *small)
    process = started(project, *sweep, LAUNCHER="joblib")
    os.kill(process.pid, number)
    _, told = process.communicate(timeout=40)
    assert process.returncode == code and "Traceback" not in told, told
    assert "worker was killed" not in told and records(project) == {}


def test_a_killed_command_takes_its_workers_along(run: Command, project: Path) -> None:
    """As the system does where memory is full: to the command alone."""
    sweep = ("-m", "hydra.launcher.n_jobs=2", "seed=0,1", *LONG)
    process = started(project, *sweep, runs=2, LAUNCHER="joblib")
    workers = below(process, "LokyProcess")
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=30)
    assert not psutil.wait_procs(workers, timeout=20)[1] and records(project) == {}
    assert run("ablations.train", *sweep, LAUNCHER="joblib").returncode == 0
    for folder in records(project):
        made = json.loads((project / "results" / folder / "provenance.json").read_text())
        assert made["resumed_at_step"] >= 20


def test_two_starts_of_one_run_at_once_train_it_once(project: Path) -> None:
    """The second waits for the first, and then has nothing to do."""
    start = [sys.executable, "-m", "ablations.train", *SMALL, "steps=200"]
    both = [
        subprocess.Popen(start, cwd=project, env=environment_of(project), stderr=subprocess.PIPE, text=True)
        for _ in "12"
    ]
    told = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert sum(line.startswith("done") for text in told for line in text.splitlines()) == 1, told
    assert len(records(project)) == 1


def test_no_write_permission_is_told_at_once(run: Command, project: Path) -> None:
    (project / "results").mkdir(mode=0o500)
    plainly = (
        [] if os.geteuid() else ["setpriv", "--bounding-set=-dac_override"]
    )  # root may write anywhere, but for this
    found = subprocess.run(
        [*plainly, sys.executable, "-m", "ablations.train", *SMALL],
        cwd=project,
        env=environment_of(project),
        capture_output=True,
        text=True,
    )
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1
    expected = "results cannot be written (Permission denied); allowed: a folder with write permission"
    assert expected in found.stderr
