"""The corpus: downloaded, rebuilt, or a text of one's own."""

import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablations.data import corpus
from tests.conftest import TEXT, Command

SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def test_the_corpus_is_the_chapters_byte_for_byte(shakespeare: str) -> None:
    assert len(shakespeare) == 1_115_394
    assert hashlib.sha256(shakespeare.encode()).hexdigest() == SHA256
    assert hashlib.sha256(corpus.rebuild()).hexdigest() == SHA256


class Stalls(http.server.BaseHTTPRequestHandler):
    """Promises a file and sends it a byte at a time, too slowly."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(100):
            try:
                self.wfile.write(b"x")
                self.wfile.flush()
            except OSError:
                return
            time.sleep(0.1)

    def log_message(self, *_: object) -> None:
        """Silence."""


class Serves(Stalls):
    """Sends a file at once."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a text")


class CutsOff(Stalls):
    """Promises a file and sends its beginning."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"a text")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.param) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


@pytest.mark.parametrize("server", [Stalls], indirect=True)
def test_a_download_that_does_not_arrive_is_given_up_in_time(server: str) -> None:
    began = time.monotonic()
    assert corpus.download(server, patience=0.5) is None
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("server", [CutsOff], indirect=True)
@pytest.mark.filterwarnings("error")  # which pytest makes of an error in a thread
def test_a_download_that_is_cut_off_is_none(server: str) -> None:
    assert corpus.download(server) is None


@pytest.mark.parametrize("server", [Serves], indirect=True)
def test_a_download_that_arrives_is_taken(server: str) -> None:
    assert corpus.download(server) == b"a text"
    assert corpus.download("http://127.0.0.1:9/") is None and corpus.PATIENCE <= 10


def test_a_wrong_checksum_names_both_sums_and_the_source_and_leaves_no_file(run: Command, project: Path) -> None:
    (project / "other.txt").write_text("another text")
    wanted = ("corpus.path=other.txt", f"corpus.sha256={SHA256}")
    found = run("ablations.data.corpus", *wanted)
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1
    for part in (SHA256, hashlib.sha256(b"another text").hexdigest(), "other.txt"):
        assert part in found.stderr
    assert [file.name for file in (project / "data").glob("corpus*")] == ["corpus.txt"]  # what was there before
    assert (project / "data" / "corpus.txt").read_text() == 2 * TEXT
    (project / "data" / "corpus.txt").unlink()
    assert run("ablations.data.corpus", *wanted).returncode == 2
    assert not list((project / "data").glob("corpus*"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "corpus.path: it.txt is empty; allowed: a UTF-8 text"),
        (b" \n ", "is empty"),
        (b"\xff\xfe\x00a", "corpus.path: it.txt is not UTF-8"),
        (None, "corpus.path: it.txt is no file"),
    ],
)
def test_a_corpus_that_is_none(run: Command, project: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (project / "it.txt").write_bytes(content)
    found = run("ablations.data.corpus", "corpus.path=it.txt", "corpus.sha256=null")
    assert found.returncode == 2 and says in found.stderr and len(found.stderr.splitlines()) == 1
    assert (project / "data" / "corpus.txt").read_text() == 2 * TEXT


def test_errata_occur_once(shakespeare: str) -> None:
    """Each correction has one place; were the text to change, it would not silently apply twice or never."""
    for _, original in corpus.ERRATA:
        assert not original or original in shakespeare
