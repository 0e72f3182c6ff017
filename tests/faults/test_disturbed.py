"""A study under kills, full disks, damage and edits: its tables come out as those of an undisturbed one, byte for byte.

`make faults` kills a run twenty times, and tries each kind of damage on each file; `make faults KILLS=4` does fewer.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ablations.study.ledger import read
from tests import disturbed
from tests.conftest import unavailable
from tests.disturbed import Outcome, begun, below, outcome, repro, said, start, train, until
from tests.repository import bits

KILLS = int(os.environ.get("KILLS", "4"))
FULL = KILLS >= 20
DISKS = ("checkpoint", "history", "provenance", "record") if FULL else ("checkpoint", "record")
FILES = (".work/runs/*/last.ckpt", "results/*/*/*/seed-0/run.json", "data/tokens/tokens.npy", "data/tokens/meta.json")
DAMAGES = list(itertools.product(FILES, ("truncated", "flipped")))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with all that goes before training."""
    root = disturbed.repository(tmp_path_factory.mktemp("template") / "project")
    repro(root, "plan", "measure")  # which is all the same to what is done to runs
    return root


@pytest.fixture(scope="module")
def calm(template: Path) -> Outcome:
    """What comes of it undisturbed."""
    root = template.with_name("calm")
    shutil.copytree(template, root, symlinks=True)
    repro(root)
    found = outcome(root)
    assert len(bits(root / "results")) == 2 * 4 and any("small.csv" in name for name in found)
    return found


@pytest.fixture
def study(template: Path, calm: Outcome, tmp_path: Path) -> Path:
    """A repository of the test's own, to be disturbed."""
    root = tmp_path / "project"
    shutil.copytree(template, root, symlinks=True)
    return root


def test_kills_at_random_moments(study: Path, calm: Outcome) -> None:
    """Each record is whole at each of them, and none is lost or changed by a later one."""
    moments = random.Random(0)
    before: Outcome = {}
    for _ in range(KILLS):
        process = train(study, LAUNCHER="basic")
        until(lambda p=process: p.poll() is not None or bool(below(p, "")) or begun(study), process)
        time.sleep(moments.uniform(0, 6))
        disturbed.kill_all(process)
        for run in (study / "results").glob("chapter/*/*/seed-*"):
            assert read(run) is not None, f"{run} is half there"
        now = bits(study / "results")
        assert before.items() <= now.items()
        before = now
        if len(now) == 2 * 4:
            shutil.rmtree(study / "results")
            before = {}
    repro(study)
    assert outcome(study) == calm


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dvc_is_stopped(study: Path, calm: Outcome, number: int) -> None:
    """Ctrl-C goes to all that the terminal started; a plain `kill` to DVC alone, whose stage goes on without it."""
    process = start(study, "dvc", "repro", "tables")
    until(lambda: begun(study), process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (study / "reports/chapter/tables").exists()
    repro(study)
    assert outcome(study) == calm


def test_a_worker_is_killed(study: Path, calm: Outcome) -> None:
    process = start(study, "dvc", "repro", "tables")
    until(lambda: begun(study) and bool(below(process, "LokyProcess")), process)
    below(process, "LokyProcess")[0].kill()
    assert "a worker was killed" in said(process)
    assert outcome(study) == calm


def test_wandb_core_is_killed(study: Path, calm: Outcome) -> None:
    process = start(study, "dvc", "repro", "tables", WANDB_MODE="offline")
    until(lambda: begun(study) and bool(below(process, "wandb-core")), process)
    for service in below(process, "wandb-core"):
        service.kill()
    told = said(process)
    assert "Traceback" not in told
    assert outcome(study) == calm


@pytest.mark.parametrize("what", DISKS)
def test_the_disk_is_full(study: Path, calm: Outcome, what: str) -> None:
    """While a checkpoint is written; and while each of a run's three files in the ledger is."""
    page = 4096
    folder = study / (".work/runs" if what == "checkpoint" else "results")
    try:
        with disturbed.mounted(folder, "size=4m"):
            process = train(study, LAUNCHER="basic")
            until(lambda: begun(study), process)
            history = len(next(value for name, value in calm.items() if name.endswith("history.csv")))
            room = {"checkpoint": 0, "history": 0, "provenance": page * -(-history // page)}
            filler = disturbed.fill(folder, room.get(what, room["provenance"] + page))
            told = said(process, 1)
            assert "No space left on device" in told and "Traceback" not in told, told
            failed = (study / "results").glob("chapter/*/*/*/run.json")
            assert {json.loads(file.read_text())["status"] for file in failed} <= {"failed"}
            filler.unlink()
            said(train(study))
            shutil.copytree(study / "results", study / "kept", ignore=shutil.ignore_patterns(".part"))
    except PermissionError as error:
        unavailable(str(error))
    shutil.rmtree(study / "results")
    (study / "kept").rename(study / "results")
    repro(study)
    assert outcome(study) == calm


@pytest.mark.parametrize(("what", "damage"), DAMAGES if FULL else [DAMAGES[0], DAMAGES[3], DAMAGES[5], DAMAGES[7]])
def test_a_file_is_damaged(study: Path, calm: Outcome, what: str, damage: str) -> None:
    process = train(study, LAUNCHER="basic")
    until(lambda: begun(study) and (len(bits(study / "results")) == 4 or "run.json" not in what), process)
    disturbed.kill_all(process)
    for file in study.glob(what):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 8
        file.chmod(0o644)
        file.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    if "tokens" in what:
        assert "data.tokens" in said(train(study), 2)
    told = repro(study)
    assert "tokens" in what or f"set aside as {Path(what).name}.corrupt" in told, told
    assert outcome(study) == calm


def test_two_dvc_repro_at_once(study: Path, calm: Outcome) -> None:
    """One of them may find the other's lock, which it says; then it is the one to start again."""
    both = [start(study, "dvc", "repro", "tables") for _ in range(2)]
    for process in both:
        told = said(process, (0, 255))
        assert process.returncode == 0 or "lock" in told or "is busy" in told, told
    assert 0 in {process.returncode for process in both}
    repro(study)
    assert outcome(study) == calm


def test_the_clock_is_set_back(study: Path, calm: Outcome) -> None:
    """By a day, between a kill and the next start."""
    if shutil.which("faketime") is None:
        unavailable("no faketime here")
    process = train(study, WANDB_MODE="offline")
    until(lambda: begun(study), process)
    disturbed.kill_all(process)
    environment = {"WANDB_MODE": "offline", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "LAUNCHER": "basic"}
    said(start(study, "faketime", "-f", "-1d", "dvc", "repro", "tables", **environment))
    assert outcome(study) == calm


def test_wandb_cannot_write(study: Path, calm: Outcome) -> None:
    try:
        with disturbed.mounted(study / "wandb", "ro"):
            told = repro(study, WANDB_MODE="offline")
    except PermissionError as error:
        unavailable(str(error))
    assert "Traceback" not in told
    assert outcome(study) == calm


@pytest.mark.parametrize(
    ("file", "old", "new", "code"),
    [
        ("conf/variant/small/wide.yaml", "width: 24", "width: 32", 255),
        ("src/ablations/model/block.py", "class Block(", "SCALE = 2\n\n\nclass Block(", 0),
    ],
)
def test_the_study_is_edited_while_it_runs(
    study: Path, calm: Outcome, file: str, old: str, new: str, code: int
) -> None:
    """What ran under the edit is not taken for what it was before, nor the other way round: a config is read for each
    run, and the stage fails; code is what the process has loaded.
    """
    process = start(study, "dvc", "repro", "tables", LAUNCHER="basic")
    until(lambda: len(bits(study / "results")) >= 2, process)
    text = (study / file).read_text()
    assert old in text
    (study / file).write_text(text.replace(old, new))
    told = said(process, code)
    assert (code != 0) == ("edited: small/wide seed 0: its config or code changed meanwhile" in told), told
    (study / file).write_text(text)
    repro(study)
    assert outcome(study) == calm


def test_the_runs_are_not_trained_in_vain(study: Path, calm: Outcome) -> None:
    """That the above compares something: another width comes to other tables."""
    variant = study / "conf/variant/small/wide.yaml"
    variant.write_text(variant.read_text().replace("width: 24", "width: 32"))
    repro(study)
    assert outcome(study).keys() == calm.keys() and outcome(study) != calm
    git = subprocess.run(["git", "status", "--short"], cwd=study, capture_output=True, text=True).stdout
    assert " M conf/variant/small/wide.yaml" in git
