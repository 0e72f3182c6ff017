"""`make audit`, against an advisory service of this test's own: clean, a finding, an exception, no answer."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT

Flaws = dict[str, Any]


@pytest.fixture
def service() -> Iterator[tuple[str, Flaws]]:
    """The address of a service that answers as OSV does, and what it knows, by package."""
    flaws: Flaws = {}

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = json.dumps(flaws.get(asked["package"]["name"], {})).encode()
            self.send_response(flaws.get("status", 200))
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query", flaws
    server.shutdown()


def flaw(package: str, name: str, *aliases: str) -> Flaws:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}]
    affected = [{"package": {"name": package, "ecosystem": "PyPI"}, "ranges": ranges}]
    return {"vulns": [{"id": name, "aliases": list(aliases), "summary": "bad", "affected": affected}]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "requirements.lock").write_text("# exact\ndiskcache==5.6.3\ntorch==2.13.0\n")
    (tmp_path / "requirements-clusters.lock").write_text("ray==2.60.0\n")
    (tmp_path / "audit.toml").write_text((PROJECT / "audit.toml").read_text())
    return tmp_path


def audit(root: Path, url: str, **more: str) -> tuple[int, str]:
    environment = os.environ | {"OSV_URL": url, "ABLATIONS_ROOT": str(root)} | more
    environment["PATH"] = more.get("PATH", f"{Path(sys.executable).parent}:{environment['PATH']}")
    command = [sys.executable, "-m", "tests.audit"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_an_exception_passes_and_a_finding_fails(root: Path, service: tuple[str, Flaws]) -> None:
    url, flaws = service
    flaws["diskcache"] = flaw("diskcache", "GHSA-w8v5-vhqr-4h9v", "CVE-2025-69872")
    assert audit(root, url) == (
        0,
        "audited: 3 packages; excepted, with reasons in audit.toml: CVE-2025-69872\n",
    )
    flaws["ray"] = flaw("ray", "GHSA-x", "CVE-2099-1")
    assert audit(root, url) == (1, "ray 2.60.0: CVE-2099-1, GHSA-x; fixed in 99.1\n")
    flaws["ray"] = flaw("ray", "CVE-2025-69872")  # an exception is one package's
    assert audit(root, url) == (1, "ray 2.60.0: CVE-2025-69872; fixed in 99.1\n")


def test_an_exception_that_is_not_needed_is_told(root: Path, service: tuple[str, Flaws]) -> None:
    code, told = audit(root, service[0])
    assert code == 0 and told.startswith("audit.toml: CVE-2025-69872 is not found any more")


def test_no_answer_is_no_pass(root: Path, service: tuple[str, Flaws]) -> None:
    said = (3, "not audited: the advisory service does not answer\n")
    assert audit(root, "http://127.0.0.1:9/") == said
    assert audit(root, "http://nowhere.invalid/") == said
    service[1]["status"] = 503
    assert audit(root, service[0]) == said


def test_what_was_skipped_was_not_audited(root: Path, tmp_path: Path) -> None:
    """As where a package index has no advisories: pip-audit then finds nothing in nothing."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "pip-audit"
    for packages, many in (([{"name": "torch", "skip_reason": "not found"}], "1"), ([], "all")):
        fake.write_text(f"#!/bin/sh\necho '{json.dumps({'dependencies': packages})}'\n")
        fake.chmod(0o755)
        code, told = audit(root, "", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
        assert code == 3 and told.endswith(f"not audited: {many} packages, unknown to the advisory service\n")


def test_an_audit_that_cannot_be_run_fails(root: Path, service: tuple[str, Flaws]) -> None:
    assert audit(root, service[0], PATH="/nowhere")[0] == 2
    (root / "requirements.lock").write_text("torch>=2\n")
    code, told = audit(root, service[0])
    assert code == 2 and told.startswith("audit: ")
    (root / "audit.toml").write_text('[[exception]]\nid = "CVE-1"\npackage = "torch"\n')
    code, told = audit(root, service[0])
    assert code == 2 and "allowed: an id, a package and a reason" in told
