"""The project as a git repository of its own, about a short text; and what its ledger has."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.conftest import PROJECT, TEXT


def copied(root: Path) -> None:
    """Sources, configs and stages into a new folder, with a short text as `mine.txt` and one measurement alone."""
    root.mkdir(parents=True)
    for name in ("src", "conf", ".dvc"):
        ignored = shutil.ignore_patterns("__pycache__", "cache", "tmp")
        shutil.copytree(PROJECT / name, root / name, ignore=ignored)
    for name in ("params.yaml", "dvc.yaml", "Makefile", ".gitignore", ".dvcignore"):
        shutil.copy(PROJECT / name, root / name)
    stages, cut = re.subn(r"foreach: \[(\w+),.*\]", r"foreach: [\1]", (root / "dvc.yaml").read_text())
    assert cut == 1
    (root / "dvc.yaml").write_text(stages)
    (root / "mine.txt").write_text(TEXT)


def git(root: Path, *arguments: str) -> None:
    """git, as someone with a name."""
    identity = ["-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    subprocess.run(["git", *identity, "-C", str(root), *arguments], check=True)


def committed(root: Path, message: str = "all") -> None:
    """All that is in a folder, put into its repository, which is made where there is none."""
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def bits(folder: Path) -> dict[str, bytes]:
    """Of a ledger, or a part of it, what is a function of the runs' identities."""
    files = [file for file in sorted(folder.rglob("*")) if file.name in ("run.json", "history.csv")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if ".part" not in file.parts}
