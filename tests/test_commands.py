"""`ablations.train` and `ablations.plan` as people call them: real processes, real Hydra, real wandb files."""

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command, environment_of

SMALL = ("steps=12", "model.width=16", "data.window=16", "data.batch=4", "probe.every=5", "budget=quick")
LONG = ("steps=1000", *SMALL[1:], "runtime.checkpoint_every=20")
GRID = ("-m", "model.mixer.d_k=4,8", "model.norm.placement=pre,post")


def records(project: Path) -> dict[str, dict[str, Any]]:
    """All records of the ledger by their folder."""
    files = sorted((project / "results").rglob("run.json"))
    return {str(file.parent.relative_to(project / "results")): json.loads(file.read_text()) for file in files}


def test_one_run(run: Command, project: Path) -> None:
    found = run("ablations.train", *SMALL)
    assert found.returncode == 0, found.stderr
    ((folder, record),) = records(project).items()
    assert re.fullmatch(r"quick/sweep/steps-12_width-16_window-16_batch-4_every-5-\w{6}/seed-0", folder)
    assert record["status"] == "done" and record["metrics"]["heldout_perplexity"] > 1
    with (project / "results" / folder / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["0", "5", "10", "12"]
    assert {"train_loss", "gradient_norm", "block1/entropy", "block1/head4/score_std"} <= set(rows[0])
    made = json.loads((project / "results" / folder / "provenance.json").read_text())
    assert made["threads"] == 1 and made["packages"]["torch"].startswith("2.") and made["processor"]
    assert re.fullmatch(r"done +sweep/\S+ seed 0  perplexity [\d.]+  \(\d+ s\)\n", found.stderr), found.stderr
    assert found.stdout == ""


def test_a_multirun_and_its_second_start(run: Command, project: Path) -> None:
    """Four runs side by side through joblib; the second time nothing is trained, and it says so."""
    found = run("ablations.train", *GRID, *SMALL, LAUNCHER="joblib")
    assert found.returncode == 0, found.stderr
    first = records(project)
    assert len(first) == 4 and len({record["fingerprint"] for record in first.values()}) == 4
    models = [record["config"]["model"] for record in first.values()]
    swept = {(model["mixer"]["d_k"], model["norm"]["placement"]) for model in models}
    assert swept == {(4, "post"), (4, "pre"), (8, "post"), (8, "pre")}
    times = {file: file.stat().st_mtime_ns for file in (project / "results").rglob("*.json")}
    again = run("ablations.train", *GRID, *SMALL)
    assert again.returncode == 0 and again.stderr == "nothing to train: 4 of 4 runs are finished\n"
    assert times == {file: file.stat().st_mtime_ns for file in (project / "results").rglob("*.json")}


def test_launchers_give_the_same_bits(run: Command, project: Path) -> None:
    files: list[dict[str, bytes]] = []
    for launcher in ("joblib", "basic"):
        assert run("ablations.train", *GRID, *SMALL, LAUNCHER=launcher).returncode == 0
        results = project / "results"
        files.append({str(f): f.read_bytes() for f in results.rglob("*") if f.name in ("run.json", "history.csv")})
        shutil.rmtree(results)
    assert len(files[0]) == 8 and files[0] == files[1]


BROKEN_MIXER = '''
"""Breaks in its first training step, after the probes have looked at it."""
from torch import nn


class Broken(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.calls = 0

    def forward(self, x, position):
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("it broke")
        return x
'''


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_bad_runs_are_told_and_the_rest_goes_on(run: Command, project: Path, launcher: str) -> None:
    """A new mixer is one file in `model/` and one in `conf/`; this one breaks. Another run diverges."""
    (project / "src/ablations/model/mixer/broken.py").write_text(BROKEN_MIXER)
    (project / "conf/model/mixer/broken.yaml").write_text("_target_: ablations.model.mixer.broken.Broken\n")
    found = run("ablations.train", "-m", "model/mixer=broken,head", "optimizer.lr=1e-3,1e6", *SMALL, LAUNCHER=launcher)
    assert found.returncode == 1
    by_status: dict[str, list[dict[str, Any]]] = {}
    for record in records(project).values():
        by_status.setdefault(record["status"], []).append(record)
    assert {status: len(found) for status, found in by_status.items()} == {"failed": 2, "diverged": 1, "done": 1}
    assert by_status["failed"][0]["error"] == "RuntimeError: it broke"
    assert by_status["diverged"][0]["metrics"]["steps"] < 12
    told = [line for line in found.stderr.splitlines() if line.startswith(("failed:", "diverged:"))]
    assert len(told) == 3 and sum("RuntimeError: it broke" in line for line in told) == 2
    failed = next(f for f, r in records(project).items() if r["status"] == "failed")
    made = json.loads((project / "results" / failed / "provenance.json").read_text())
    assert "broken.py" in made["traceback"]


def test_a_diverged_run_is_a_result_where_it_is_accepted(run: Command, project: Path) -> None:
    found = run("ablations.train", *SMALL, "optimizer.lr=1e6", "runtime.accept_diverged=true")
    assert found.returncode == 0 and "diverged" in found.stderr
    again = run("ablations.train", *SMALL, "optimizer.lr=1e6", "runtime.accept_diverged=true")
    assert again.stderr == "nothing to train: 1 of 1 runs are finished\n"


def test_the_same_run_under_another_name_is_not_trained_again(run: Command, project: Path) -> None:
    sized = ("conf/budget/quick.yaml", "conf/data/corpus.yaml")
    (project / sized[0]).write_text("# @package _global_\nbudget: quick\nlengths: {long: 6, probe: 3}\n")
    found = run("ablations.train", "-m", "variant=ladder/layer_norm,depth/one_block", "budget=quick")
    assert found.returncode == 0 and "the same run as ladder/layer_norm seed 0" in found.stderr
    one, two = records(project).values()
    differing = {key for key in one if one[key] != two[key]}
    assert differing == {"study", "variant", "digest"}


@pytest.fixture
def begun(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A long run in a process group of its own, past its first checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ablations.train", *LONG],
        cwd=project,
        env=environment_of(project),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list((project / ".work" / "runs").glob("*/last.ckpt")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
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


def test_a_damaged_checkpoint_and_a_damaged_record_are_set_aside(
    begun: subprocess.Popen[str], run: Command, project: Path
) -> None:
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    (checkpoint,) = (project / ".work" / "runs").glob("*/last.ckpt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-50])
    found = run("ablations.train", *LONG)
    assert found.returncode == 0 and "set aside as last.ckpt.corrupt; trained anew" in found.stderr
    assert checkpoint.with_name("last.ckpt.corrupt").exists()
    (record,) = (project / "results").rglob("run.json")
    record.write_text(record.read_text()[:-20])
    found = run("ablations.train", *LONG)
    assert found.returncode == 0 and "set aside as run.json.corrupt" in found.stderr
    assert len(records(project)) == 1


def test_two_starts_of_one_run_at_once_train_it_once(run: Command, project: Path) -> None:
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
    assert "results cannot be written; allowed: a folder with write permission" in found.stderr


def test_a_full_disk_fails_the_run_and_keeps_what_is_finished(run: Command, project: Path, tmp_path: Path) -> None:
    """A real, small file system: the first run fits, then it is filled to the brim."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        where = (f"runtime.results={small}/results", f"runtime.work={small}/work")
        assert run("ablations.train", *SMALL, *where).returncode == 0
        (finished,) = small.rglob("run.json")
        before = finished.read_bytes()
        with (small / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(b"x" * 4096):
                pass
        found = run("ablations.train", *SMALL, "seed=1", *where)
        assert found.returncode == 1 and "No space left on device" in found.stderr, found.stderr
        assert "Traceback" not in found.stderr
        assert finished.read_bytes() == before and len(list(small.rglob("run.json"))) == 1
        (small / "filler").unlink()
        assert run("ablations.train", *SMALL, "seed=1", *where).returncode == 0
    finally:
        subprocess.run(["umount", str(small)], check=True)


def wandb_records(folder: Path) -> Iterator[Any]:
    """The records of an offline run, read from its log: blocks of 32 KiB, a checksum, length and kind before each."""
    from wandb.proto import wandb_internal_pb2 as protobuf

    (file,) = folder.glob("*.wandb")
    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = data[at + 7 : at + 7 + length]
        at += 7 + length
        whole = part if kind in (1, 2) else whole + part
        if kind in (1, 4):
            record = protobuf.Record()
            record.ParseFromString(whole)
            yield record


def test_wandb_has_each_run_with_its_name_group_config_and_history(run: Command, project: Path) -> None:
    found = run("ablations.train", "-m", "seed=0,1", *SMALL, WANDB_MODE="offline", LAUNCHER="joblib")
    assert found.returncode == 0, found.stderr
    folders = sorted((project / "wandb").iterdir())
    assert len(folders) == 2 and all(re.search(r"-quick-sweep-.*-s[01]-\w{6}$", f.name) for f in folders)
    for seed, folder in enumerate(sorted(folders, key=lambda f: f.name[-8])):
        everything = list(wandb_records(folder))
        begun = next(r.run for r in everything if r.WhichOneof("record_type") == "run")
        config = {item.key: json.loads(item.value_json) for item in begun.config.update}
        assert begun.run_group == "sweep" and begun.job_type.startswith("steps-12") and config["steps"] == 12
        history = [
            {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in r.history.item}
            for r in everything
            if r.WhichOneof("record_type") == "history"
        ]
        assert [row["step"] for row in history] == [0, 5, 10, 12]
        ours = next((project / "results").rglob(f"seed-{seed}/history.csv"))
        with ours.open() as file:
            for row, theirs in zip(csv.DictReader(file), history, strict=True):
                assert {name: float(v) for name, v in row.items() if v} == {n: theirs[n] for n, v in row.items() if v}
        ended = [r.exit.exit_code for r in everything if r.WhichOneof("record_type") == "exit"]
        assert ended == [0]


def test_wandb_that_cannot_write_stops_no_run(run: Command, project: Path) -> None:
    (project / "wandb").write_text("a file where wandb wants a folder")
    found = run("ablations.train", *SMALL, WANDB_MODE="offline")
    assert found.returncode == 0, found.stderr
    assert len(records(project)) == 1 and "Traceback" not in found.stderr


def test_wandb_disabled_writes_nothing(run: Command, project: Path) -> None:
    assert run("ablations.train", *SMALL, WANDB_MODE="disabled").returncode == 0
    assert not (project / "wandb").exists()


def test_plan_shows_what_would_be_trained(run: Command, project: Path) -> None:
    found = json.loads(run("ablations.plan", "study=depth", "budget=quick", "seeds=2", "format=json").stdout)
    assert [(r["study"], r["variant"], r["seed"], r["status"]) for r in found["runs"]] == [
        ("depth", v, s, "todo") for v in ("one_block", "two_blocks") for s in (0, 1)
    ]
    assert found["seconds"] > 0 and all(re.fullmatch(r"[0-9a-f]{16}", r["fingerprint"]) for r in found["runs"])
    table = run("ablations.plan", "study=depth", "budget=quick").stdout
    assert "two_blocks" in table and "2 runs, 0 of them the same as another; 2 to train" in table


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study=nope"], "study: nope; allowed: averages,"),
        (["budget=nope"], "budget: nope is not known; allowed: chapter, quick"),
        (["seeds=0"], "seeds: 0; allowed: a whole number from 1"),
        (["format=xml"], "format: xml; allowed: table, json"),
        (["colour=red"], "colour=red: not known; allowed: study, budget, seeds, format, out"),
    ],
)
def test_plan_refuses_in_one_line(run: Command, arguments: list[str], says: str) -> None:
    found = run("ablations.plan", *arguments)
    assert found.returncode == 2 and says in found.stderr and len(found.stderr.splitlines()) == 1


def test_a_broken_variant_is_found_at_plan_time(run: Command, project: Path) -> None:
    (project / "conf/variant/depth/odd.yaml").write_text(
        "# @package _global_\ndefaults: [/study/depth, _self_]\nmodel: {mixer: {heads: 3}}\n"
    )
    found = run("ablations.plan", "budget=quick")
    assert found.returncode == 2 and "depth/odd: model.mixer.heads: 3 does not divide the width 128" in found.stderr
    sweep = run("ablations.train", "-m", "+variant/depth=glob(*)", "budget=quick")
    assert sweep.returncode == 2 and "model.mixer.heads: 3" in sweep.stderr and records(project) == {}
