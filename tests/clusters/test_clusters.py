"""More than one machine: a real Slurm and a real Ray cluster of two nodes, against joblib's ledger."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import slurm
from tests.conftest import SMALL, Command, launched, records, started, unavailable
from tests.repository import bits

GRID = ("-m", "model.mixer.d_k=4,8", "model.norm.placement=pre,post", *SMALL)
LONG = ("-m", "seed=0,1,2", "steps=800", *SMALL[1:], "runtime.checkpoint_every=20")
Environment = dict[str, str]


@pytest.fixture(scope="module")
def slurm_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """What a command needs to use launcher `slurm`."""
    if (why := slurm.missing()) is not None:
        unavailable(why)
    with slurm.cluster(tmp_path_factory.mktemp("slurm") / "cluster") as environment:
        yield environment | {"LAUNCHER": "slurm"}


def by_joblib(run: Command, project: Path, *arguments: str) -> dict[str, bytes]:
    """The same by joblib, from nothing."""
    for folder in ("results", ".work"):
        shutil.rmtree(project / folder)
    assert run("ablations.train", *arguments, LAUNCHER="joblib").returncode == 0
    return bits(project / "results")


def test_slurm_gives_the_ledger_of_joblib(run: Command, project: Path, slurm_here: Environment) -> None:
    launcher = project / "src/hydra_plugins/ablations_slurm.py"
    launcher.write_text(launcher.read_text().replace("ARRAY = 1000", "ARRAY = 3"))  # two arrays for four runs
    found = run("ablations.train", *GRID, **slurm_here)
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("done ") == 4 and found.stdout == "", found.stdout + found.stderr
    by_slurm = bits(project / "results")
    assert len(by_slurm) == 8 and by_slurm == by_joblib(run, project, *GRID)


def test_jobs_that_are_killed_are_told_and_go_on_at_the_next_start(
    run: Command, project: Path, slurm_here: Environment
) -> None:
    """One at once, as when a node's memory is full; one as `scancel` does it. The third is finished all the same."""
    process = begun(project, slurm_here)
    for process_of_job in processes("python -u -m submitit", SLURM_ARRAY_TASK_ID="0"):
        if not process_of_job.name().startswith("srun"):
            process_of_job.kill()
    subprocess.run(["scancel", job_of(slurm_here, 1)], env=os.environ | slurm_here, check=True)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 1 and "Traceback" not in told, told
    lost, stopped = sorted(line for line in told.splitlines() if line.startswith(("lost: ", "stopped: ")))
    assert "seed 0: Slurm's job" in lost and "the next start goes on" in lost
    assert "seed 1: stopped; the next start goes on" in stopped
    assert [record["seed"] for record in records(project).values()] == [2]
    found = run("ablations.train", *LONG, **slurm_here)
    assert found.returncode == 0, found.stderr
    assert "seed 2  trained before" in found.stderr  # and is not submitted again
    assert resumed(project, 0) >= 20 and resumed(project, 1) >= 20 and resumed(project, 2) == 0
    assert bits(project / "results") == by_joblib(run, project, *LONG)


@pytest.mark.parametrize("how", ["scancel --signal=USR2", "scontrol requeue"])
def test_a_job_whose_time_is_up_goes_on_by_itself(
    run: Command, project: Path, slurm_here: Environment, how: str
) -> None:
    """The signal that Slurm sends before the end of a job's time; and what it does to give the node to another."""
    process = begun(project, slurm_here)
    job, environment = job_of(slurm_here, 0), os.environ | slurm_here
    subprocess.run([*how.split(), job], env=environment, check=True)
    reason = ["squeue", "--noheader", "--format=%r", "--jobs", job]
    while subprocess.run(reason, env=environment, capture_output=True).stdout.strip() != b"BeginTime":
        assert process.poll() is None
        time.sleep(0.2)
    # Slurm lets two minutes pass before it starts a job again
    subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], env=environment, check=True)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in told, told
    assert resumed(project, 0) >= 20
    assert bits(project / "results") == by_joblib(run, project, *LONG)


def test_stopping_the_command_empties_the_queue(project: Path, slurm_here: Environment) -> None:
    process = begun(project, slurm_here)
    process.terminate()
    _, told = process.communicate(timeout=120)
    assert process.returncode == 143 and "Traceback" not in told, told
    queue = subprocess.run(["squeue", "--noheader"], env=os.environ | slurm_here, capture_output=True, text=True)
    assert queue.stdout == "" and queue.returncode == 0
    assert records(project) == {}


def test_what_slurm_refuses_is_one_line(run: Command, project: Path, slurm_here: Environment) -> None:
    for option, says in (("partition=nope", "invalid partition"), ("timeout_min=soon", "time")):
        found = run("ablations.train", *GRID, f"hydra.launcher.{option}", **slurm_here)
        assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr
        assert "error: hydra.launcher: sbatch refuses it: " in found.stderr and says in found.stderr.lower()
    assert records(project) == {}


def begun(project: Path, environment: Environment) -> subprocess.Popen[str]:
    """A sweep of three long runs, two of them past their first checkpoints."""
    return started(project, *LONG, runs=2, within=180, **environment)


def processes(words: str, **variables: str) -> list[psutil.Process]:
    """Those whose command has these words, and whose environment these variables."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if words in " ".join(process.cmdline()) and variables.items() <= process.environ().items():
                found.append(process)
    return found


def job_of(environment: Environment, number: int) -> str:
    """The id of a Slurm job, by its place in the array."""
    ask = ["squeue", "--array", "--noheader", "--format=%i"]
    ids = subprocess.run(ask, env=os.environ | environment, capture_output=True, text=True).stdout.split()
    return next(name for name in ids if name.endswith(f"_{number}"))


def resumed(project: Path, seed: int) -> int:
    """The step that a run went on from."""
    (file,) = (project / "results").rglob(f"seed-{seed}/provenance.json")
    return int(json.loads(file.read_text())["resumed_at_step"] or 0)


@pytest.mark.parametrize("launcher", ["slurm", "ray"])
def test_a_launcher_that_is_not_installed_is_told(run: Command, project: Path, launcher: str) -> None:
    """Its package is an extra: here one that hides it stands before it."""
    cluster = project / "src/ablations/study/cluster.py"
    cluster.write_text(cluster.read_text().replace('"ray", None', '"no_ray", None').replace("hydra_submitit", "no"))
    found = run("ablations.train", *GRID, LAUNCHER=launcher)
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr
    assert f"hydra/launcher: {launcher}; allowed: basic, joblib" in found.stderr
    assert "make clusters" in found.stderr and records(project) == {}


def test_a_cluster_that_does_not_answer_is_told(run: Command) -> None:
    if importlib.util.find_spec("ray") is None:
        unavailable("ray is not installed here (`make clusters`)")
    found = run("ablations.train", *GRID, LAUNCHER="ray", RAY_ADDRESS="127.0.0.1:9")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr
    assert found.stderr.startswith("error: hydra.launcher.address: 127.0.0.1:9 ") and "; allowed: " in found.stderr


@pytest.fixture(scope="module")
def ray_here() -> Iterator[Environment]:
    """A cluster of two nodes on this machine, one core each."""
    if importlib.util.find_spec("ray") is None:
        unavailable("ray is not installed here (`make clusters`)")
    ray = [str(Path(sys.executable).with_name("ray"))]
    alone = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}  # a token that a home has is not ours to use
    environment = os.environ | alone
    node = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
    (port,) = slurm.free_ports(1)
    try:
        for which in (["--head", f"--port={port}", "--include-dashboard=false"], [f"--address=127.0.0.1:{port}"]):
            subprocess.run([*ray, "start", *which, *node], env=environment, check=True, capture_output=True)
        yield alone | {"LAUNCHER": "ray", "RAY_ADDRESS": f"127.0.0.1:{port}"}
    finally:
        subprocess.run([*ray, "stop", "--force"], env=environment, capture_output=True)


def test_ray_gives_the_ledger_of_joblib_though_a_worker_is_killed(
    run: Command, project: Path, ray_here: Environment
) -> None:
    process = begun(project, ray_here)
    (_, worker) = workers = processes("ray::_there")
    assert len({p.ppid() for p in workers}) == 2  # on two nodes
    worker.kill()
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in told, told
    assert {resumed(project, seed) >= 20 for seed in (0, 1)} == {True, False}
    assert bits(project / "results") == by_joblib(run, project, *LONG)


def test_stopping_the_command_stops_rays_tasks(project: Path, ray_here: Environment) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = begun(project, ray_here)
        process.send_signal(number)
        _, told = process.communicate(timeout=120)
        assert process.returncode == code and "Traceback" not in told and "SIGTERM received" not in told, told
        assert sum(line.startswith("stopped: ") for line in told.splitlines()) == 2, told
        assert records(project) == {}
        for checkpoint in (project / ".work" / "runs").glob("*/last.ckpt"):
            checkpoint.unlink()


def test_what_no_node_has_is_told(project: Path, ray_here: Environment) -> None:
    process = launched(project, *GRID, "hydra.launcher.task.num_cpus=64", **ray_here)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line == "warning: hydra.launcher.task asks for 64 CPU, no node has more than 1\n"
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 143
