"""Launcher `ray`: one task per run on the nodes of a Ray cluster, or on this machine where there is none.

Written on Ray itself: hydra-ray-launcher pins a cloudpickle that today's joblib refuses, and ends at the first task
that is lost.
"""

import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from ablations.settings import InputError, one_line

PATIENCE = 10.0  # seconds for a cluster to answer


class RayLauncher(Launcher):
    """Its settings are those of conf/hydra/launcher/ray.yaml.

    Args:
        address: of a cluster; None for the one that RAY_ADDRESS or this machine knows, else one of its own.
        task: what a run needs, as `ray.remote` takes it (`num_cpus`, `num_gpus`, `resources`, `max_retries`).
    """

    def __init__(self, address: str | None, task: Mapping[str, Any]) -> None:
        self.address, self.task = address, task

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra."""
        self.context, self.function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Hands out what the board does not know as ended, and waits for all of it.

        Raises:
            InputError: no cluster at the address.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it tells its makers
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it announces a change to come
        import ray

        from ablations.study import cluster
        from ablations.study.job import handle_signals

        setup_globals()
        board = Path(str(self.config.hydra.sweep.dir))
        _reach(self.address or os.environ.get("RAY_ADDRESS") or "")
        environment = {"env_vars": cluster.carried()}
        try:
            ray.init(self.address, log_to_driver=False, logging_level="error", runtime_env=environment)
        except Exception as error:  # whatever Ray makes of a cluster that wants a token, or of another version
            said = one_line(error).partition(" Note: ")[0]
            raise InputError(f"hydra.launcher.address: {said}; allowed: a cluster that lets this one in") from error
        handle_signals()  # again: Ray has taken SIGTERM
        options: Any = OmegaConf.to_container(OmegaConf.create(dict(self.task)), resolve=True)
        _warn(ray, options)
        remote = ray.remote(**options)(_there)
        waiting: dict[Any, int] = {}
        try:
            for number, overrides in enumerate(job_overrides, start=initial_job_idx):
                if not cluster.ended(board, number):
                    config = self._config(list(overrides), number)
                    waiting[remote.remote(self.context, config, self.function, Singleton.get_state())] = number
            while waiting:
                for done in ray.wait(list(waiting), timeout=1.0)[0]:
                    try:
                        ray.get(done)
                        waiting.pop(done)
                    except ray.exceptions.RayError as error:
                        cluster.lost(board, waiting.pop(done), f"Ray: {type(error).__name__}")
        except BaseException:
            for task in waiting:
                ray.cancel(task)
            if waiting:  # they say how far they have come
                ray.wait(list(waiting), num_returns=len(waiting), timeout=PATIENCE)
            raise
        finally:
            ray.shutdown()
        return [JobReturn(_return_value=None, status=JobStatus.COMPLETED) for _ in job_overrides]

    def _config(self, overrides: list[str], number: int) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(config):
            config.hydra.job.id, config.hydra.job.num = str(number), number
        return config


def _warn(ray: Any, options: Mapping[str, Any]) -> None:
    """Tells where no node has what a run asks for: Ray waits for one that may never come."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    for name, amount in asked.items():
        most = max((node.get(name, 0) for node in nodes), default=0)
        if (amount or 0) > most:
            told = f"hydra.launcher.task asks for {amount} {name}, no node has more than {most:g}"
            print(f"warning: {told}", file=sys.stderr)


def _reach(address: str) -> None:
    """Knocks at an address before Ray does, which tries for minutes."""
    if not (found := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        allowed = "that of a cluster that runs, or null and no RAY_ADDRESS"
        raise InputError(f"hydra.launcher.address: {address} ({one_line(error)}); allowed: {allowed}") from error


def _there(context: HydraContext, config: DictConfig, function: TaskFunction, state: Any) -> None:
    """The task, in a worker of Ray's."""
    setup_globals()
    Singleton.set_state(state)
    run_job(
        hydra_context=context,
        config=config,
        task_function=function,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
