"""The wandb workspace as code: built and validated by wandb's own library, without an account."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Command, environment_of
from tests.test_sync import Server, server

__all__ = ["server"]  # a fixture

interface = pytest.importorskip("wandb_workspaces.workspaces", reason="the extra `dashboard` is not installed")


def sections(spec: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The panels' configs by section."""
    found = spec["spec"]["section"]["panelBankConfig"]["sections"]
    return {section["name"]: [panel["config"] for panel in section["panels"]] for section in found}


def test_the_specification_has_its_sections_over_what_runs_log(run: Command, project: Path) -> None:
    """A run of three blocks has its columns; each panel's metric is one of them, or a pattern of some of them."""
    found = run("ablations.train", *SMALL, "model.blocks=3")
    assert found.returncode == 0, found.stderr
    found = run("ablations.dashboard", "entity=reader", "project=mine", "out=made/spec.json", HOME=str(project))
    assert found.returncode == 0 and found.stdout == "made/spec.json\n", found.stderr
    text = (project / "made" / "spec.json").read_text()
    assert "__id__" not in text
    spec = json.loads(text)
    assert (spec["entity"], spec["project"]) == ("reader", "mine")
    (runs,) = spec["spec"]["section"]["runSets"]
    assert runs["grouping"] == [{"section": "run", "name": "group"}, {"section": "run", "name": "jobType"}]

    found_sections = sections(spec)
    per_block = {"entropy": "entropy", "score std": "score_std", "gradient norm": "gradient_norm"}
    assert list(found_sections) == ["perplexity", *(f"{title} per block" for title in per_block)]
    (history,) = (project / "results").rglob("history.csv")
    (record,) = (project / "results").rglob("run.json")
    logged = [*history.read_text().splitlines()[0].split(","), *json.loads(record.read_text())["metrics"]]
    metrics = [panel.get("metrics", []) for panels in found_sections.values() for panel in panels]
    assert {metric for those in metrics for metric in those} <= set(logged)
    assert found_sections["perplexity"][0]["metrics"] == ["heldout_perplexity"]
    for title, name in per_block.items():
        panels = found_sections[f"{title} per block"]
        (pattern,) = [panel["metricRegex"] for panel in panels if "metricRegex" in panel]
        blocks = [f"block{i}/{name}" for i in (1, 2, 3)]
        assert [column for column in logged if re.search(pattern, column)] == blocks
        assert re.search(pattern, f"block12/{name}") and not re.search(pattern, f"block1/head1/{name}")
        assert [[block] for block in blocks] == [panel["metrics"] for panel in panels if panel["metrics"]][-3:]


def test_the_library_reads_the_specification_back() -> None:
    """Its models take the whole of it, and make the same workspace of it again."""
    from wandb_workspaces.workspaces import internal

    from ablations.dashboard import spec, workspace

    made = spec(workspace("reader", "mine"))
    view = internal.View.model_validate(made)
    assert spec(interface.Workspace._from_model(view))["spec"]["section"]["panelBankConfig"]["sections"]
    assert sections(spec(interface.Workspace._from_model(view))) == sections(made)
    with pytest.raises(ValueError, match="unexpected"):
        interface.RunsetSettings(group_by=["Group"])


def test_with_an_account_it_is_pushed_and_its_address_printed(run: Command, server: Server) -> None:
    found = run("ablations.dashboard", "project=mine", **server.account)
    assert found.returncode == 0 and found.stderr == "", found.stderr
    assert found.stdout == f"{server.url}/reader/mine?nw=view\n"
    (view,) = server.views
    assert view["entityName"] == "reader" and "metricRegex" in view["spec"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "wandb: no account is logged in; allowed: `wandb login` once"),
        (("into=x",), "into=x: not known; allowed: entity=NAME, project=NAME, out=FILE"),
        (("out=",), "out: empty; allowed: FILE"),
        (("out=spec.json", "project=a/b"), "project: a/b; allowed: a name of at most 128 characters"),
        (("out=spec.json", "entity=\udcff"), "entity: "),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    run: Command, project: Path, arguments: tuple[str, ...], words: str
) -> None:
    found = run("ablations.dashboard", *arguments, HOME=str(project))
    assert found.returncode == 2 and found.stderr.startswith(f"error: {words}") and found.stdout == ""
    assert len(found.stderr.splitlines()) == 1


def test_damaged_files_are_no_bug(run: Command, project: Path) -> None:
    history = project / "results/quick/sweep/mine/seed-0/history.csv"
    history.parent.mkdir(parents=True)
    history.write_bytes(b"step,block3/entropy,\xff\n")
    assert run("ablations.dashboard", "out=spec.json").returncode == 0
    assert "entropy, block 3" in (project / "spec.json").read_text()
    for text in ("wandb: true\n", "{"):
        (project / "conf/logger/wandb.yaml").write_text(text)
        found = run("ablations.dashboard", "out=spec.json")
        assert found.returncode == 2 and found.stderr.startswith("error: conf/logger/wandb.yaml: "), found.stderr
        assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [(), ("out=spec.json",)])
def test_without_the_extra_it_says_how_to_install_it(project: Path, arguments: tuple[str, ...]) -> None:
    without = "import sys, runpy; sys.modules['wandb_workspaces'] = None; sys.argv[1:] = {}; "
    code = without.format(list(arguments)) + "runpy.run_module('ablations.dashboard', run_name='__main__')"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment_of(project), capture_output=True, text=True
    )
    assert found.returncode == 2, found.stderr
    assert found.stderr == "error: wandb-workspaces: not installed; allowed: `pip install --editable '.[dashboard]'`\n"
    assert not (project / "spec.json").exists()
