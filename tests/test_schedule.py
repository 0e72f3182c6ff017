"""Places on GPUs, plans that are kept, and how long a study takes."""

import dataclasses
import json
import multiprocessing
import platform
import time
from pathlib import Path
from typing import Any

import pytest

from ablations.study import calibrate, planned
from ablations.study.compose import Run
from ablations.study.cost import EVALUATED
from ablations.study.slots import place, visible
from tests.conftest import Command


def hold(folder: Path, gpus: list[str], slots: int, log: Any, seconds: float) -> None:
    with place(folder, gpus, slots) as gpu:
        log.put(("begin", gpu))
        time.sleep(seconds)
        log.put(("end", gpu))


def test_a_gpu_takes_as_many_runs_as_it_has_slots_and_no_more(tmp_path: Path) -> None:
    """Seven processes, two GPUs of two places each: at most two at once on each, and all get their turn."""
    context = multiprocessing.get_context("fork")
    log: Any = context.Queue()
    processes = [context.Process(target=hold, args=(tmp_path, ["4", "6"], 2, log, 0.5)) for _ in range(7)]
    for process in processes:
        process.start()
    events = [log.get(timeout=30) for _ in range(14)]
    for process in processes:
        process.join()
    running, most = {0: 0, 1: 0}, {0: 0, 1: 0}
    for what, gpu in events:
        running[gpu] += 1 if what == "begin" else -1
        most[gpu] = max(most[gpu], running[gpu])
    assert most == {0: 2, 1: 2}
    assert {gpu for what, gpu in events[:2] if what == "begin"} == {0, 1}, "an empty GPU is taken before a second place"


def test_a_process_that_is_killed_gives_its_place_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log: Any = context.Queue()
    process = context.Process(target=hold, args=(tmp_path, ["0"], 1, log, 60))
    process.start()
    assert log.get(timeout=30) == ("begin", 0)
    process.kill()
    process.join()
    with place(tmp_path, ["0"], 1) as gpu:
        assert gpu == 0


def test_gpus_have_the_names_that_all_processes_of_a_machine_know_them_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of Slurm's on one machine each see a single GPU, which torch calls 0."""
    for variable in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    assert visible(2) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert visible(1) == ["0"]
    monkeypatch.setenv("SLURM_JOB_GPUS", "5")
    assert visible(1) == ["5"]
    assert visible(4) == ["0", "1", "2", "3"], "a list of another length is not about what torch sees"


def test_machines_that_share_a_folder_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(tmp_path, ["0"], 1):
        monkeypatch.setattr(platform, "node", lambda: "another")
        with place(tmp_path, ["0"], 1) as gpu:
            assert gpu == 0


def test_a_plan_is_kept_until_something_changes(run: Command, project: Path) -> None:
    def identities() -> dict[str, str]:
        found = run("ablations.plan", "format=json", "study=ladder", "time=no")
        assert found.returncode == 0, found.stderr
        return {row["variant"]: row["fingerprint"] for row in json.loads(found.stdout)["runs"]}

    first = identities()
    (kept,) = (project / ".work" / "plan").glob("*.json")
    written = kept.stat().st_mtime_ns
    assert identities() == first and kept.stat().st_mtime_ns == written
    variant = project / "conf" / "variant" / "ladder" / "four_heads.yaml"
    variant.write_text(variant.read_text() + "optimizer: {lr: 0.5}\n")
    second = identities()
    assert {name for name in first if first[name] != second[name]} == {"four_heads"}
    kept.write_text(kept.read_text()[:100])
    assert identities() == second


def test_seeds_are_those_of_the_study_or_of_all(run: Command, project: Path) -> None:
    params = (project / "params.yaml").read_text().partition("studies:")[0] + "studies: {depth: 1, precision: 3}\n"

    def seeds(text: str, *options: str) -> dict[str, int]:
        (project / "params.yaml").write_text(text)
        found = run("ablations.plan", "format=json", "time=no", *options)
        assert found.returncode == 0, found.stderr
        rows = json.loads(found.stdout)["runs"]
        return {name: len({row["seed"] for row in rows if row["study"] == name}) for name in ("depth", "precision")}

    assert seeds(params) == {"depth": 1, "precision": 3}
    assert seeds(params.replace("seeds: 1", "seeds: 5")) == {"depth": 5, "precision": 5}
    assert seeds(params, "seeds=2") == {"depth": 2, "precision": 2}
    assert seeds(params, "budget=quick") == {"depth": 1, "precision": 1}, "at the chapter's budget alone"


def a_run(steps: int, width: int = 8) -> Run:
    config = {
        "steps": steps,
        "seed": 0,
        "data": {"batch": 10, "window": 100},
        "model": {"width": width},
        "runtime": {"accelerator": "cpu", "threads": 1, "slots": 1},
    }
    return Run("a", "b", 0, "quick", "f", config)


def test_the_estimate_is_the_end_of_the_last_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three runs over two cores, the third where the first core is free again; kinds are timed once, studies wait."""
    timed: list[str] = []

    def timing(configs: dict[str, Any]) -> dict[str, float]:
        timed.extend(configs)
        return dict.fromkeys(configs, 0.5)

    monkeypatch.setattr(calibrate, "KEPT", tmp_path / "calibration.json")
    monkeypatch.setattr(calibrate, "cores", lambda: 2)
    monkeypatch.setattr(calibrate, "_timed", timing)
    monkeypatch.setattr(calibrate, "START", 3.0)
    one = calibrate.OVERHEAD + 0.5 * (100 + EVALUATED / 1000 / 3)
    two = calibrate.OVERHEAD + 0.5 * (400 + EVALUATED / 1000 / 3)
    runs = [a_run(100), a_run(400), a_run(100)]
    assert calibrate.estimate(runs) == pytest.approx(3 + max(two, 2 * one))
    assert calibrate.estimate(runs) == pytest.approx(3 + max(two, 2 * one)) and len(timed) == 1
    another = dataclasses.replace(runs[0], study="another")
    assert calibrate.estimate([*runs, another]) == pytest.approx(3 + max(two, 2 * one) + 3 + one)
    calibrate.estimate([a_run(100, width=16)])
    assert len(timed) == 2
    (tmp_path / "calibration.json").write_text("no JSON")
    calibrate.estimate(runs)
    assert len(timed) == 3


def test_a_step_that_is_timed_is_a_real_one(small_tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ablations.study import compose

    monkeypatch.setattr(calibrate, "SECONDS", 0.01)
    with compose.hydra():
        small, large = (
            compose.composed([f"runtime.tokens={small_tokens}", f"model.width={width}", "data.window=64"]).config
            for width in (16, 256)
        )
    assert 0 < calibrate.step_seconds(small) < calibrate.step_seconds(large)
    assert calibrate.kind(small) != calibrate.kind(large)
    assert calibrate.kind(small) == calibrate.kind(small | {"seed": 3, "steps": 7})


def test_a_plan_that_cannot_be_kept_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(planned, "KEPT", tmp_path / "file" / "plan")
    assert len(planned.planned({"depth": 2}, "quick")) == 4
