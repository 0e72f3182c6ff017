"""`ablations.train` and `ablations.plan` as people call them: real processes, real Hydra, real wandb files."""

import csv
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Command, add_mixer, environment_of, records
from tests.repository import bits

GRID = ("-m", "model.mixer.d_k=4,8", "model.norm.placement=pre,post")


def test_one_run(run: Command, project: Path) -> None:
    found = run("ablations.train", *SMALL)
    assert found.returncode == 0, found.stderr
    ((folder, record),) = records(project).items()
    assert re.fullmatch(r"quick/sweep/steps-12_width-16_window-16_batch-4_every-5-\w{10}/seed-0", folder)
    assert record["status"] == "done" and record["metrics"]["heldout_perplexity"] > 1
    with (project / "results" / folder / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["0", "5", "10", "12"]
    assert {"train_loss", "gradient_norm", "block1/entropy", "block1/head4/score_std"} <= set(rows[0])
    made = json.loads((project / "results" / folder / "provenance.json").read_text())
    assert made["threads"] == 1 and made["packages"]["torch"].startswith("2.") and made["processor"]
    *progress, last = found.stderr.splitlines()
    assert re.fullmatch(r"done +sweep/\S+ seed 0  perplexity [\d.]+  \(\d+ s\)", last), found.stderr
    assert all(line.startswith("0/1 runs, about ") for line in progress)  # a slow machine has time for some
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
    found = []
    for launcher in ("joblib", "basic"):
        assert run("ablations.train", *GRID, *SMALL, LAUNCHER=launcher).returncode == 0
        found.append(bits(project / "results"))
        shutil.rmtree(project / "results")
    assert len(found[0]) == 8 and found[0] == found[1]


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
    add_mixer(project, "broken", BROKEN_MIXER)
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


MEDDLING_MIXER = '''
"""Damages the tokens' meta data in its first training step."""
from pathlib import Path

from torch import nn


class Meddling(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x, position):
        if x.requires_grad:
            (Path(__file__).parents[4] / "data/tokens/meta.json").write_text("{")
        return x
'''


def test_what_is_edited_while_a_sweep_goes_on_ends_no_sweep(run: Command, project: Path) -> None:
    add_mixer(project, "meddling", MEDDLING_MIXER)
    found = run("ablations.train", "-m", "model/mixer=meddling", "seed=0,1,2", *SMALL)
    assert found.returncode == 1 and "Traceback" not in found.stderr, found.stderr
    assert [record["status"] for record in records(project).values()] == ["done"]
    told = [line for line in found.stderr.splitlines() if line.startswith("error:")]
    assert len(told) == 2 and all("data.tokens" in line and "meta.json cannot be read" in line for line in told)
    assert found.stderr.count("not run:") == 2


HUNGRY_MIXER = '''
"""Asks for more memory than there is in its first training step."""
import torch
from torch import nn


class Hungry(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x, position):
        return x + torch.empty(2**45) if x.requires_grad else x
'''


def test_a_run_that_finds_no_memory_is_told_in_one_line(run: Command, project: Path) -> None:
    """An empty `LAUNCHER` is none."""
    add_mixer(project, "hungry", HUNGRY_MIXER)
    found = run("ablations.train", "-m", "model/mixer=hungry", *SMALL, LAUNCHER="")
    assert found.returncode == 1 and "Traceback" not in found.stderr, found.stderr
    told = [line for line in found.stderr.splitlines() if line.startswith("failed:")]
    assert len(told) == 1 and told[0].endswith(": out of memory; allowed: a smaller data.batch, data.window or model")


def test_a_diverged_run_is_a_result_where_it_is_accepted(run: Command) -> None:
    wild = (*SMALL, "optimizer.lr=1e6")
    found = run("ablations.train", *wild, "runtime.accept_diverged=true")
    assert found.returncode == 0 and "diverged" in found.stderr
    again = run("ablations.train", *wild, "runtime.accept_diverged=true")
    assert again.returncode == 0 and again.stderr == "nothing to train: 1 of 1 runs are finished\n"
    strict = run("ablations.train", *wild)
    assert strict.returncode == 1 and strict.stderr.splitlines()[1].startswith("diverged: sweep/")


def test_the_same_run_under_another_name_is_not_trained_again(run: Command, project: Path) -> None:
    (project / "conf/budget/quick.yaml").write_text(
        "# @package _global_\nbudget: quick\nlengths: {long: 6, probe: 3}\n"
    )
    found = run("ablations.train", "-m", "variant=ladder/layer_norm,depth/one_block", "budget=quick")
    assert found.returncode == 0 and "the same run as ladder/layer_norm seed 0" in found.stderr
    one, two = records(project).values()
    differing = {key for key in one if one[key] != two[key]}
    assert differing == {"study", "variant", "digest"}
    shutil.rmtree(project / "results/quick/depth")
    made = project / "results/quick/ladder/layer_norm/seed-0/provenance.json"
    made.write_text("{")  # the record is whole without it
    found = run("ablations.train", "variant=depth/one_block", "budget=quick")
    assert found.returncode == 0 and "the same run as ladder/layer_norm seed 0" in found.stderr
    copy = project / "results/quick/depth/one_block/seed-0/provenance.json"
    assert json.loads(copy.read_text())["made"] is None


def test_wandb_is_offline_online_or_disabled(run: Command, project: Path) -> None:
    found = run("ablations.train", *SMALL, WANDB_MODE="nonsense")
    assert found.returncode == 2 and found.stderr == "error: WANDB_MODE: nonsense; allowed: offline, online, disabled\n"
    assert not (project / "results").exists()


def test_without_a_home_it_is_as_quiet(run: Command, project: Path) -> None:
    found = run("ablations.train", *SMALL, WANDB_MODE="offline", HOME="/proc")
    assert found.returncode == 0 and list(project.glob("wandb/offline-run-*"))
    assert all(re.match(r"done |0/1 runs, ", line) for line in found.stderr.splitlines()), found.stderr


def test_ctrl_c_while_libraries_are_imported_ends_without_a_word(project: Path) -> None:
    slow = project / "slow" / "hydra.py"  # in place of the library
    slow.parent.mkdir()
    slow.write_text("import sys, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "ablations.train"],
        env=environment_of(project, PYTHONPATH=f"{slow.parent}:{project / 'src'}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which tests in the background ignore
    )
    assert process.stdout and process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "") and process.returncode == -signal.SIGINT


def test_a_closed_output_is_no_bug(project: Path) -> None:
    words = [sys.executable, "-m", "ablations.plan", "study=depth", "time=no"]
    closed = subprocess.run(
        ["sh", "-c", f"{shlex.join(words)} >&-"], env=environment_of(project), capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_plan_shows_what_would_be_trained(run: Command) -> None:
    found = json.loads(run("ablations.plan", "study=depth", "budget=quick", "seeds=2", "format=json").stdout)
    assert [(r["study"], r["variant"], r["seed"], r["status"]) for r in found["runs"]] == [
        ("depth", v, s, "todo") for v in ("one_block", "two_blocks") for s in (0, 1)
    ]
    assert found["seconds"] > 0 and all(re.fullmatch(r"[0-9a-f]{16}", r["fingerprint"]) for r in found["runs"])
    table = run("ablations.plan", "study=depth", "budget=quick", "time=no").stdout
    assert "two_blocks" in table and "2 runs, 0 of them the same as another; 2 to train" in table


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study=nope"], "study: nope; allowed: averages,"),
        (["budget=nope"], "budget: nope is not known; allowed: chapter, quick"),
        (["seeds=0"], "seeds: 0; allowed: a whole number from 1"),
        (["format=xml"], "format: xml; allowed: table, json"),
        (["out="], "out: empty; allowed: FOLDER"),
        (["seeds=²"], "seeds: ²; allowed: a whole number from 1"),
        (["colour=red"], "colour=red: not known; allowed: study=NAME, budget=NAME, seeds=N, format=table|json"),
    ],
)
def test_plan_refuses_in_one_line(run: Command, arguments: list[str], says: str) -> None:
    found = run("ablations.plan", *arguments)
    assert found.returncode == 2 and says in found.stderr and len(found.stderr.splitlines()) == 1


def test_plan_deletes_nothing(run: Command, project: Path) -> None:
    (project / "mine").mkdir()
    (project / "mine" / "precious.json").write_text("{}")
    assert run("ablations.plan", "study=depth", "out=mine").returncode == 0
    assert (project / "mine" / "precious.json").exists() and (project / "mine" / "depth.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runtime.results=/proc/x"], "runtime.results: /proc/x cannot be written"),
        (["runtime.work=/proc/x"], "runtime.work: /proc/x cannot be written"),
        (["hydra.run.dir=/tmp/x"], "hydra.run.dir=/tmp/x: not taken"),
        (["hydra/launcher=nope"], "hydra/launcher: nope is not known; allowed: basic, joblib"),
        (["-m", "hydra/launcher=nope", "seed=0,1"], "hydra/launcher: nope is not known; allowed: basic, joblib"),
        (["--config-name", "nope"], "--config-name"),
        (["seed=0,1"], "seed: 0,1 is several values; allowed: one, or a run of each by -m, or a list as [a,b]"),
        (["runtime.accelerator=gpu"], "runtime.accelerator: gpu; allowed: cpu, since torch finds no GPU here"),
    ],
)
def test_what_cannot_be_done_here_is_told_before_training(
    run: Command, project: Path, arguments: list[str], says: str
) -> None:
    found = run("ablations.train", *arguments, *SMALL)
    assert found.returncode == 2 and says in found.stderr and len(found.stderr.splitlines()) == 1, found.stderr
    assert records(project) == {}


def test_a_broken_variant_is_found_at_plan_time(run: Command, project: Path) -> None:
    (project / "conf/variant/depth/odd.yaml").write_text(
        "# @package _global_\ndefaults: [/study/depth, _self_]\nmodel: {mixer: {heads: 3}}\n"
    )
    found = run("ablations.plan", "budget=quick")
    assert found.returncode == 2 and "depth/odd: model.mixer.heads: 3 does not divide the width 128" in found.stderr
    sweep = run("ablations.train", "-m", "+variant/depth=glob(*)", "budget=quick")
    assert sweep.returncode == 2 and "model.mixer.heads: 3" in sweep.stderr and records(project) == {}
