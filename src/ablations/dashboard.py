"""`python -m ablations.dashboard [entity=NAME] [project=NAME] [out=FILE]`: the wandb workspace of all runs, from code.

Each start makes a workspace and prints its address. With `out` its specification is written as JSON instead, which
needs no account.
"""

import importlib
import json
import re
import sys
from typing import Any

import yaml

from ablations.settings import CONF, ROOT, InputError, command, one_line, options
from ablations.study.mirror import require_account
from ablations.study.rules import PROJECT

QUANTITIES = {"entropy": "entropy", "score std": "score_std", "gradient norm": "gradient_norm"}
LINES = 100  # that a panel shows at most; wandb's own limit of 10 is less than one study has variants


@command
def main(arguments: list[str]) -> None:
    """See the module."""
    given = options(arguments, "entity=NAME", "project=NAME", "out=FILE", entity="", project="")
    project = given["project"] or _project()
    for name, value in (("project", project), ("entity", given["entity"] or "default")):
        if not PROJECT.holds(value):
            raise InputError(f"{name}: {value}; allowed: {PROJECT.allowed}")
    if "out" in given:
        file = ROOT / given["out"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(spec(workspace(given["entity"], project)), indent=1) + "\n")
        print(given["out"])
        return
    _library("workspaces")  # what is not installed is told before what is not logged in
    require_account()
    import wandb

    try:
        print(workspace(given["entity"] or str(wandb.Api().default_entity), project).save().url)
    except Exception as error:  # whatever the server makes of an entity or a project
        raise InputError(f"entity={given['entity']} project={project}: {one_line(error)}") from error


def workspace(entity: str, project: str) -> Any:
    """A section each for perplexity, entropy, score std and gradient norm, over runs grouped by study and variant.

    Raises:
        InputError: wandb-workspaces is not installed.
    """
    panels, parts = _library("reports.v2"), _library("workspaces")

    def lines(title: str, **metric: Any) -> Any:
        return panels.LinePlot(title=title, max_runs_to_show=LINES, **metric)

    perplexity = [
        panels.BarPlot(title="held-out perplexity", metrics=["heldout_perplexity"], max_bars_to_show=LINES),
        panels.BarPlot(title="train perplexity", metrics=["train_perplexity"], max_bars_to_show=LINES),
        lines("training loss, log of the perplexity", y=["train_loss"]),
    ]
    sections = [parts.Section(name="perplexity", panels=perplexity, is_open=True)]
    for title, quantity in QUANTITIES.items():
        whole = [lines("gradient norm of the model", y=["gradient_norm"])] if quantity == "gradient_norm" else []
        each = [lines(f"{title}, block {i}", y=[f"block{i}/{quantity}"]) for i in range(1, blocks() + 1)]
        every = lines(f"{title}, all blocks", metric_regex=rf"^block\d+/{quantity}$")
        sections.append(parts.Section(name=f"{title} per block", panels=[*whole, every, *each], is_open=True))
    return parts.Workspace(
        entity=entity,
        project=project,
        name="ablations",
        sections=sections,
        settings=parts.WorkspaceSettings(max_runs=LINES),
        runset_settings=parts.RunsetSettings(groupby=[parts.Metric("Group"), parts.Metric("JobType")]),
    )


def blocks() -> int:
    """The most blocks that a run of the ledger has. Those of later runs, `all blocks` shows."""
    most = 1
    for history in (ROOT / "results").glob("*/*/*/seed-*/history.csv"):
        with history.open(errors="replace") as file:
            most = max([most, *map(int, re.findall(r"\bblock(\d+)/", file.readline()))])
    return most


def _project() -> str:
    file = CONF / "logger" / "wandb.yaml"
    try:
        return str(yaml.safe_load(file.read_text())["project"])
    except (yaml.YAMLError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"conf/logger/wandb.yaml: {one_line(error)}; allowed: a project, as YAML") from error


def spec(built: Any) -> dict[str, Any]:
    """What wandb's server would be sent, but for the panels' ids, which are new each time."""

    def without_ids(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: without_ids(value) for key, value in node.items() if key != "__id__"}
        return [without_ids(item) for item in node] if isinstance(node, list) else node

    # the library has no public way to it, which is one reason for its exact version in the extra
    plain = json.loads(built._to_model().model_dump_json(by_alias=True, exclude_none=True))
    return dict(without_ids(plain))


def _library(part: str) -> Any:
    try:
        return importlib.import_module(f"wandb_workspaces.{part}")
    except ImportError as error:
        raise InputError("wandb-workspaces: not installed; allowed: `pip install --editable '.[dashboard]'`") from error


if __name__ == "__main__":
    sys.exit(main())
