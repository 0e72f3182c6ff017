"""A Slurm of its own on this machine: controller, one node, and the keys they know each other by, in one folder."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=3
OverTimeLimit=0
SchedulerParameters=sched_interval=1,requeue_setup_env_fail
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """What keeps a Slurm from being started here; None where nothing does."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if absent:
        return f"no {', '.join(absent)} here (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons have to be started by root"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which `sbatch` and the others speak to a Slurm that lives as long as the context."""
    folder.mkdir()
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    controller, node = free_ports(2)
    host = socket.gethostname()
    (folder / "slurm.conf").write_text(CONF.format(host=host, controller=controller, node=node, folder=folder))
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    munge += [f"--{what}-file={folder}/munged.{what}" for what in ("pid", "log", "seed")]
    commands = [munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D"]]
    daemons = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.out").open("w")
            daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            time.sleep(0.5)
        _await_node(environment, folder)
        yield {"SLURM_CONF": environment["SLURM_CONF"], "PATH": environment["PATH"]}
    finally:
        for _ in range(20):  # what a failed test left behind
            subprocess.run(["scancel", "--me"], env=environment, capture_output=True)
            queue = subprocess.run(["squeue", "--noheader"], env=environment, capture_output=True, text=True)
            if not queue.stdout.strip():
                break
            time.sleep(0.5)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=20)


def _await_node(environment: dict[str, str], folder: Path) -> None:
    deadline = time.monotonic() + 30
    said = ""
    while "idle" not in said:
        if time.monotonic() > deadline:
            logs = "\n".join(file.read_text()[-2000:] for file in folder.glob("*.out"))
            raise RuntimeError(f"Slurm does not come up: {said}\n{logs}")
        time.sleep(0.2)
        asked = subprocess.run(["sinfo", "--noheader"], env=environment, capture_output=True, text=True)
        said = asked.stdout + asked.stderr


def free_ports(count: int) -> list[int]:
    """As many ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
