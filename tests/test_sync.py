"""All runs to wandb, each once: by `wandb sync` itself, against a server that knows as much of wandb as this needs."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Command, environment_of, started

LONG = ("steps=400", *SMALL[1:], "runtime.checkpoint_every=20")


class Server(ThreadingHTTPServer):
    """Keeps each run's history as wandb's server does: a line that is sent again takes the place of the earlier."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.histories: dict[str, dict[int, dict[str, Any]]] = {}
        self.lines = 0
        self.views: list[dict[str, Any]] = []
        self.refuses = False

        self.url = f"http://127.0.0.1:{self.server_port}"
        self.account = {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": self.url, "WANDB_ERROR_REPORTING": "false"}

    def steps(self, name: str) -> list[int]:
        """The steps of a run's history, line by line."""
        (lines,) = (lines for run, lines in self.histories.items() if name in run)
        return [int(line["step"]) for _, line in sorted(lines.items())]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer({})

    def do_PUT(self) -> None:
        self._body()
        self._answer({})

    def do_POST(self) -> None:
        asked = json.loads(self._body() or b"{}")
        if self.path == "/graphql":
            self._answer(self._data(asked["query"], asked.get("variables") or {}))
            return
        run = self.path.split("/")[-2]
        for name, part in (asked.get("files") or {}).items():
            if name == "wandb-history.jsonl":
                self.server.lines += len(part["content"])
                for i, line in enumerate(part["content"], part["offset"]):
                    self.server.histories.setdefault(run, {})[i] = json.loads(line)
        self._answer({"exitcode": None, "limits": {}})

    def _data(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            if self.server.refuses:
                return {"errors": [{"message": "permission denied"}]}
            project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "reader"}}
            bucket = {"id": "b", "name": variables["name"], "historyLineCount": 0, "project": project}
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.server.url}/{name}"} for name in variables["files"]]
            return {"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}}
        if "upsertView" in query:
            self.server.views.append(variables)
            return {"data": {"upsertView": {"view": {"id": "v", "name": "nw-view-v"}, "inserted": True}}}
        return {"data": {"viewer": {"id": "u", "entity": "reader", "flags": "{}", "teams": {"edges": []}}}}

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body

    def _answer(self, what: dict[str, Any]) -> None:
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def offline(project: Path) -> list[Path]:
    return sorted((project / "wandb").glob("offline-run-*"))


def test_each_run_is_sent_once_and_a_dry_run_tells_which(run: Command, project: Path, server: Server) -> None:
    found = run("ablations.train", "-m", "seed=0,1", *SMALL, WANDB_MODE="offline")
    assert found.returncode == 0, found.stderr
    made = environment_of(project, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    make = ["make", "--assume-old=setup", "sync", "DRY=1"]
    lines = subprocess.run(make, cwd=project, env=made, capture_output=True, text=True).stdout.splitlines()
    assert lines[-1] == "2 to send, 0 not ended yet, 0 sent before"
    assert sorted(line.rpartition(": ")[2] for line in lines[:-1]) == [f"wandb/{f.name}" for f in offline(project)]
    found = subprocess.run([*make[:-1], "DRY=maybe"], cwd=project, env=made, capture_output=True, text=True)
    assert "dry: maybe; allowed: yes, no" in found.stderr and found.returncode == 2 and not found.stdout

    server.refuses = True
    found = run("ablations.sync", **server.account)
    assert found.returncode == 1 and found.stderr.count("not sent: sweep/") == 2 and "Traceback" not in found.stderr
    assert "permission denied" in (project / ".work" / "sync.log").read_text()
    server.refuses = False
    found = run("ablations.sync", **server.account)
    assert found.returncode == 0 and "(2/2)" in found.stdout and not found.stderr, found.stdout + found.stderr
    assert server.steps("-s0-") == server.steps("-s1-") == [0, 5, 10, 12] and server.lines == 8
    found = run("ablations.sync", **server.account)
    assert found.returncode == 0 and found.stdout == "0 to send, 0 not ended yet, 2 sent before\n"
    assert server.lines == 8


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_resumed_run_is_sent_in_one_piece_even_if_a_part_was_sent(
    run: Command, project: Path, server: Server, number: int
) -> None:
    process = started(project, *LONG, WANDB_MODE="offline")
    (part,) = offline(project)
    while next(part.glob("*.wandb")).stat().st_size < 2**14 and process.poll() is None:
        time.sleep(0.02)  # wandb writes once a second
    os.killpg(process.pid, number)
    process.communicate()
    found = run("ablations.sync", **server.account)
    assert found.stdout.startswith("waits until it has ended: sweep/") and found.stdout.count("\n") == 2
    assert found.returncode == 0 and server.lines == 0
    assert run("wandb", "sync", str(part), **server.account, WANDB_MODE="online").returncode == 0
    assert 0 < len(server.steps("-s0-")) < 81
    if number == signal.SIGTERM:  # wandb does not mark a log without an end
        assert list(part.glob("*.synced"))

    assert run("ablations.train", *LONG, WANDB_MODE="offline").returncode == 0
    assert len(offline(project)) == 1 and not part.exists()
    found = run("ablations.sync", **server.account)
    assert found.returncode == 0 and "(1/1)" in found.stdout, found.stdout + found.stderr
    (history,) = (project / "results").rglob("history.csv")
    steps = [int(line.partition(",")[0]) for line in history.read_text().splitlines()[1:]]
    assert server.steps("-s0-") == steps == list(range(0, 401, 5))


def test_a_damaged_log_is_named_and_keeps_no_other_from_being_sent(run: Command, project: Path, server: Server) -> None:
    assert run("ablations.train", "-m", "seed=0,1,2", *SMALL, WANDB_MODE="offline").returncode == 0
    logs = sorted((project / "wandb").glob("*/run-*.wandb"))
    logs[0].write_bytes(b"")
    logs[1].unlink()
    logs[1].mkdir()
    for _ in range(2):
        found = run("ablations.sync", **server.account)
        told = found.stderr.splitlines()
        assert (
            found.returncode == 1 and [line.partition(": ")[0] for line in told] == ["damaged, and not to be sent"] * 2
        )
        assert {line.rpartition(": ")[2] for line in told} == {str(log.relative_to(project)) for log in logs[:2]}
    assert len(server.histories) == 1 and server.lines == 4 and "0 to send" in found.stdout


def test_a_run_killed_between_its_record_and_the_end_of_its_log_is_mirrored_at_the_next_start(
    run: Command, project: Path, server: Server
) -> None:
    assert run("ablations.train", *SMALL, WANDB_MODE="offline").returncode == 0
    (folder,) = offline(project)
    (folder / "whole").unlink()  # as it is then: what else is missing in it, nobody can say
    log = next(folder.glob("run-*.wandb"))
    log.write_bytes(log.read_bytes()[:-500])
    assert run("ablations.train", *SMALL, WANDB_MODE="disabled").returncode == 0  # which keeps wandb out
    assert "0 to send, 1 not ended yet" in run("ablations.sync", "dry=yes").stdout
    found = run("ablations.train", *SMALL, WANDB_MODE="offline")
    assert found.returncode == 0 and "nothing to train" in found.stderr, found.stderr
    found = run("ablations.sync", **server.account)
    assert found.returncode == 0 and "(1/1)" in found.stdout and server.steps("-s0-") == [0, 5, 10, 12]


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ((), {}, "wandb: no account is logged in; allowed: `wandb login` once"),
        ((), {"WANDB_API_KEY": "short"}, "wandb: WANDB_API_KEY invalid"),
        (("dry=1",), {}, "dry: 1; allowed: yes, no"),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    run: Command, project: Path, arguments: tuple[str, ...], environment: dict[str, str], words: str
) -> None:
    folder = project / "wandb" / "offline-run-20260101_000000-quick-norm-pre-s0-0a0000"
    folder.mkdir(parents=True)
    (folder / "whole").touch()
    (folder / "run-quick-norm-pre-s0-0a0000.wandb").write_bytes(b":W&B")
    found = run("ablations.sync", *arguments, HOME=str(project), **environment)
    assert found.returncode == 2 and found.stderr.startswith(f"error: {words}"), found.stderr
    assert len(found.stderr.splitlines()) == 1 and found.stdout == ""
