"""Launcher `slurm`: hydra-submitit-launcher, which submits the jobs, and what a long sweep needs besides.

Jobs that have ended are not submitted again; one that is lost does not hide the others; the queue is asked rather than
Slurm's accounting, which not every cluster keeps; and a sweep that is stopped takes its jobs out of the queue.
"""

import contextlib
import io
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from ablations.settings import InputError, one_line

with contextlib.suppress(ImportError):  # an extra: without it there is no such launcher, and no warning about it
    from hydra_plugins.hydra_submitit_launcher import submitit_launcher

    ARRAY = 1000  # jobs: what Slurm takes in one array unless it is set up otherwise (MaxArraySize)
    LOOK = 5.0  # seconds between two looks at the queue
    PATIENCE = 15.0  # seconds for a job's result to reach this machine through a shared file system

    class SlurmLauncher(submitit_launcher.SlurmLauncher):
        """One Slurm job per run. Its settings are those of conf/hydra/launcher/slurm.yaml."""

        environment: dict[str, str]

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            """Submits what the board does not know as ended, and waits for all of it.

            Raises:
                InputError: a setting that sbatch refuses.
            """
            from hydra.core.singleton import Singleton

            from ablations.study import cluster

            board = Path(str(self.config.hydra.sweep.dir))
            self.environment = cluster.carried()
            open_jobs = [
                (list(overrides), "hydra.sweep.dir", number, str(number), Singleton.get_state())
                for number, overrides in enumerate(job_overrides, start=initial_job_idx)
                if not cluster.ended(board, number)
            ]
            executor = self._executor()
            jobs: dict[int, Any] = {}
            try:
                for first in range(0, len(open_jobs), ARRAY):
                    part = open_jobs[first : first + ARRAY]
                    jobs |= zip([job[2] for job in part], _submit(executor, self, part))
                for number, job in _gone(jobs).items():
                    cluster.lost(board, number, _last_words(job))
            except BaseException:
                _cancel(jobs)
                raise
            return [JobReturn(_return_value=None, status=JobStatus.COMPLETED) for _ in job_overrides]

        def __call__(self, *arguments: Any) -> Any:
            """What the job runs, on its node."""
            os.environ.update(self.environment)
            return super().__call__(*arguments)

        def _executor(self) -> Any:
            import submitit

            params = dict(self.params)
            folder, timeouts = params.pop("submitit_folder"), params.pop("max_num_timeout")
            executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=timeouts)
            given = {name: value for name, value in params.items() if value is not None}
            try:
                executor.update_parameters(**executor._convert_parameters(given))
            except (ValueError, TypeError) as error:
                raise InputError(f"hydra.launcher: {one_line(error)}") from error
            return executor


def _submit(executor: Any, launcher: Any, jobs: list[Any]) -> list[Any]:
    from submitit.core.utils import FailedJobError

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # which submitit copies what sbatch says to
            submitted: list[Any] = executor.map_array(launcher, *zip(*jobs))
        return submitted
    except FailedJobError as error:
        said = re.split(r"sbatch: (?:error|fatal): ", one_line(error))[-1]
        raise InputError(f"hydra.launcher: sbatch refuses it: {said}; allowed: what this cluster takes") from error


def _gone(jobs: dict[int, Any]) -> dict[int, Any]:
    """Waits until every job has left a result or the queue; those that left the queue alone."""
    left: dict[int, float] = {}  # the queue, and when
    waiting, lost, looked = dict(jobs), {}, 0.0
    while waiting:
        if time.monotonic() - looked > LOOK and (queued := _queue()) is not None:
            looked = time.monotonic()
            left = {number: left.get(number, looked) for number, job in waiting.items() if job.job_id not in queued}
        for number, job in list(waiting.items()):
            with contextlib.suppress(OSError):
                os.utime(job.paths.folder)  # makes a network file system look again
            if job.paths.result_pickle.exists():
                del waiting[number]
            elif number in left and time.monotonic() - left[number] > PATIENCE:
                lost[number] = waiting.pop(number)
        time.sleep(0.5)
    return lost


def _queue() -> set[str] | None:
    """The ids of this user's jobs that wait or run; None where Slurm does not answer at this moment."""
    try:
        ask = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
        return set(subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60).stdout.split())
    except (OSError, subprocess.SubprocessError):
        return None


def _cancel(jobs: dict[int, Any]) -> None:
    """Takes the jobs out of the queue, and gives those that run the time to end by themselves."""
    ids = {job.job_id for job in jobs.values()}
    arrays = {name.split("_")[0] for name in ids}
    if not arrays or subprocess.run(["scancel", *sorted(arrays)], capture_output=True).returncode:
        return
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and (queued := _queue()) is not None and queued & ids:
        time.sleep(0.5)


def _last_words(job: Any) -> str:
    """What Slurm wrote into the log of a job that it ended, as `CANCELLED ... DUE TO TIME LIMIT`."""
    lines = (job.stderr() or "").splitlines()
    said = next((line for line in reversed(lines) if "slurmstepd" in line or "srun" in line), "")
    return f"Slurm's job {job.job_id} ended without a result{': ' + said.strip() if said else ''}"
