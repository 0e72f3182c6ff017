"""The notebooks run from top to bottom, quickly, and are kept without outputs."""

import os
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import PROJECT

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))


def test_there_are_two() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["chapter", "own_ablation"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(notebook: Path) -> None:
    cells = nbformat.read(notebook, 4).cells
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_in_under_two_minutes(notebook: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the project with the chapter's ledger and, for what it trains itself, a short text."""
    for name in ("results", "plans", "measurements"):
        shutil.copytree(PROJECT / name / "chapter", project / name / "chapter")
    (project / "notebooks").mkdir()
    copy = shutil.copy(notebook, project / "notebooks")
    for name in [name for name in os.environ if name.startswith("ABLATIONS")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    monkeypatch.setenv("LAUNCHER", "basic")
    read = nbformat.read(copy, 4)
    began = time.monotonic()
    NotebookClient(read, timeout=120, resources={"metadata": {"path": str(project / "notebooks")}}).execute()
    assert time.monotonic() - began < 120
    kinds = {kind for cell in read.cells for out in cell.get("outputs", []) for kind in out.get("data", {})}
    assert "image/png" in kinds and "text/html" in kinds
    assert not (project / "conf" / "variant" / "ladder" / "wide_head.yaml").exists()
