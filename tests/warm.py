"""Commands of a copied project in forks of one process, and how a refusal has to look."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import environment_of

# Starting Python anew for each would take minutes: a process that has everything imported forks one per case.
SERVER = """
import importlib, json, os, signal, sys, tempfile, time
import ablations.train, ablations.plan, ablations.generate, ablations.account, torch
import ablations.report.page, ablations.report.tables, ablations.report.sweep, ablations.report.claims.__main__
for line in sys.stdin:
    asked = json.loads(line)
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace")
        sys.argv = ["ablations", *asked["arguments"]]
        code = 1
        try:
            code = importlib.import_module(asked["module"]).main()
        except SystemExit as stop:
            code = stop.code
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.perf_counter() - began > 30:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)
    told = {"code": os.waitstatus_to_exitcode(ended[1]), "seconds": time.perf_counter() - began}
    for name, file in (("out", out), ("err", err)):
        file.seek(0)
        told[name] = file.read().decode(errors="replace")
    print(json.dumps(told), flush=True)
"""


class Warm:
    """The commands of a copied project, each in a fork of a process that has imported them.

    Args:
        project: the copy.
        environment: further variables.
    """

    def __init__(self, project: Path, **environment: str) -> None:
        self.project = project
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        env = environment_of(project, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", **environment)
        self.process = subprocess.Popen([sys.executable, "-c", SERVER], cwd=project, env=env, text=True, **pipes)

    def __call__(self, module: str, *arguments: str) -> dict[str, Any]:
        """What came of a command: `code`, `out`, `err`, `seconds`."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"module": module, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def written(project: Path) -> dict[str, bytes]:
    """All that a training could have written or overwritten."""
    folders = ("results", ".work/runs", "wandb", "data", "reports", "plans", "outputs", "multirun", "x")
    files = (file for folder in folders for file in (project / folder).rglob("*"))
    return {str(file): file.read_bytes() if file.is_file() else b"" for file in files}


def refused(told: dict[str, Any], names: str = "") -> str:
    """What is amiss with how something was refused, whose line has to have `names` in it; empty where nothing is."""
    lines = told["err"].splitlines()
    if told["code"] != 2 or told["out"] or len(lines) != 1 or not lines[0].startswith("error: "):
        return "no single line with exit code 2"
    if told["seconds"] > 5:
        return "too slow"
    if len(lines[0]) >= 400 or not lines[0].isprintable():
        return "no line to read"
    if names not in lines[0]:
        return "does not name the field"
    return "" if "; allowed: " in lines[0] else "does not say what is allowed"
