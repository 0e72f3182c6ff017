"""Corpus and tokens through a DVC remote, which is a folder: what a lab shares besides git."""

import subprocess
from pathlib import Path

from tests import disturbed
from tests.disturbed import said, start
from tests.repository import committed


def test_a_clone_pulls_what_another_pushed(tmp_path: Path) -> None:
    first = disturbed.repository(tmp_path / "first")
    said(start(first, "dvc", "remote", "add", "--default", "lab", str(tmp_path / "shared")))
    said(start(first, "dvc", "push"))
    committed(first, "tokens, and where they are")
    second = tmp_path / "second"
    subprocess.run(["git", "clone", "--quiet", str(first), str(second)], check=True)
    assert not (second / "data").exists()
    said(start(second, "dvc", "pull", "tokenize", "corpus"))
    for file in ("corpus.txt", "tokens/tokens.npy", "tokens/meta.json", "tokens/tokenizer.json"):
        assert (second / "data" / file).read_bytes() == (first / "data" / file).read_bytes()
    told = said(start(second, "dvc", "repro", "tokenize"))
    assert "Stage 'corpus' didn't change" in told and "Stage 'tokenize' didn't change" in told
