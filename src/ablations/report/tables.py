"""Stage `tables`: the chapter's tables as CSV, Markdown and LaTeX, ours beside the chapter's."""

import shutil
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import yaml

from ablations.report import modern, studies
from ablations.report.maps import attention_tables
from ablations.report.measured import measured_tables
from ablations.report.results import budget_of, load_plan, load_runs
from ablations.report.table import Table, by_section, section_of
from ablations.report.write import write
from ablations.settings import CONF, ROOT, InputError, command, one_line

LEGEND = """# Tables
A figure is the mean over the seeds, [its 95 % interval], (the chapter's). `p holm` is of a paired t test of the
difference beside it, adjusted for the rows of the table; the noise floor is how far runs lie apart that differ by the
seed alone. A to L are the sections of the first chapter, M is the second. A `note` says what is missing.
"""
Builder = Callable[[dict[str, Any], pd.DataFrame, dict[str, Any]], list[Table]]


BUILDERS: dict[str, Builder] = {
    "scale": studies.scale,
    "position": studies.over_window,
    "coreference": studies.coreference,
    "precision": studies.precision,
    "modern_length": studies.over_window,
    "modern_experts": modern.experts,
    "modern_stability": modern.stability,
    "stacks": modern.stacks,
}


def study_tables(study: dict[str, Any], runs: pd.DataFrame, chapter: dict[str, Any]) -> list[Table]:
    """The tables of one study; a study that asks for nothing else gets perplexities per variant."""
    return BUILDERS.get(study["name"], studies.perplexities)(study, runs, chapter)


def build(plan: dict[str, Any], runs: pd.DataFrame, budget: str, chapter: dict[str, Any]) -> list[Table]:
    """All tables of a budget: those of its studies, then those of its measurements, by section."""
    tables: list[Table] = []
    for name, study in plan.items():
        mine = runs[runs["study"] == name]
        tables += study_tables(study["study"], mine, chapter)
        if name == "coreference":
            tables += attention_tables(mine, chapter)
    tables += measured_tables(ROOT / "measurements" / budget, chapter)
    return sorted(tables, key=lambda table: by_section(section_of(table.caption)))


def load_chapter() -> dict[str, Any]:
    """The chapter's figures.

    Raises:
        InputError: a file that is no mapping of mappings.
    """
    try:
        chapter = yaml.safe_load((CONF / "chapter.yaml").read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"conf/chapter.yaml: cannot be read ({one_line(error)}); allowed: YAML") from error
    if not isinstance(chapter, dict) or not all(isinstance(value, dict) for value in chapter.values()):
        raise InputError("conf/chapter.yaml: no mapping of mappings; allowed: figures by table, row and column")
    return chapter


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.report.tables [budget=NAME]` writes `reports/<budget>/tables/`, all of it anew."""
    budget = budget_of(arguments)
    plan = load_plan(budget)
    tables = build(plan, load_runs(plan, ROOT / "results"), budget, load_chapter())
    folder = ROOT / "reports" / budget / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    texts = [write(table, budget, folder) for table in tables]
    (folder / "README.md").write_text("\n".join([LEGEND, *texts]))
    print(f"{len(texts)} tables in {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
