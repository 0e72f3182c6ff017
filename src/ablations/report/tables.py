"""Stage `tables`: the chapter's tables from the ledger, as CSV, Markdown and LaTeX, ours beside the chapter's."""

import shutil
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import yaml

from ablations.report.results import MISSING, STALE, load_history, load_plan, load_runs
from ablations.report.statistics import Mean, log_mean, mean
from ablations.report.write import Table, write
from ablations.settings import CONF, ROOT, InputError, command

Builder = Callable[[str, dict[str, Any], pd.DataFrame, dict[str, Any]], Table]
COLLAPSE = "collapse"
PROBES = ("score_std", "entropy", "saturated")


def build(plan: dict[str, Any], runs: pd.DataFrame, chapter: dict[str, Any]) -> list[Table]:
    """One table per study, and `collapse`, which looks inside the heads of `scale`."""
    tables = []
    for name, study in plan.items():
        mine = runs[runs["study"] == name]
        builders = {"scale": scale}
        tables.append(builders.get(name, perplexities)(name, study["study"], mine, chapter))
        if name == "scale":
            tables.append(collapse(name, study["study"], mine, chapter))
    return tables


def perplexities(name: str, study: dict[str, Any], runs: pd.DataFrame, chapter: dict[str, Any]) -> Table:
    """Perplexity per variant, held out and on the training text, in the order of the study's rows."""
    rows = []
    for variant, group in runs.groupby("variant", sort=False):
        row: dict[str, Any] = {"row": study.get("rows", {}).get(variant, variant), "variant": variant}
        for metric in ("heldout_perplexity", "train_perplexity"):
            row |= cell(metric, group, chapter.get(metric, {}).get(name, {}).get(variant))
        row["parameters"] = _first(group, "parameters")
        rows.append(row | {"note": note(group)})
    return Table(name, _caption(study), pd.DataFrame(rows))


def scale(name: str, study: dict[str, Any], runs: pd.DataFrame, chapter: dict[str, Any]) -> Table:
    """Perplexity with and without the division, and what it gains, per head width. Gains are paired by seed."""
    rows = []
    labels = study.get("rows", {})
    divided = [v for v in runs["variant"].unique() if v.endswith("_divided")]
    for variant in divided:
        stem = variant.removesuffix("_divided")
        groups = {side: runs[runs["variant"] == f"{stem}_{side}"] for side in ("divided", "undivided")}
        row: dict[str, Any] = {"row": str(labels.get(variant, stem)).removesuffix(", divided"), "variant": stem}
        for side, group in groups.items():
            row |= _columns(side, log_mean(values(group, "heldout_perplexity")), None)
        pairs = [by_seed(group, "heldout_perplexity") for group in groups.values()]
        gains = [pairs[1][seed] - pairs[0][seed] for seed in pairs[0] if seed in pairs[1]]
        row |= _columns("gain", mean(gains), chapter.get("division_gain", {}).get(stem))
        rows.append(row | {"note": note(pd.concat(groups.values()))})
    return Table(name, _caption(study), pd.DataFrame(rows))


def collapse(name: str, study: dict[str, Any], runs: pd.DataFrame, chapter: dict[str, Any]) -> Table:
    """Inside the heads: score std, entropy and share of rows above 0.99, at the start and the end of training."""
    rows = []
    for variant, group in runs.groupby("variant", sort=False):
        row: dict[str, Any] = {"row": study.get("rows", {}).get(variant, variant), "variant": variant}
        known = chapter.get(COLLAPSE, {}).get(variant, {})
        histories = [load_history(folder) for folder in group.loc[group["state"] == "done", "folder"]]
        for probe in PROBES:
            for when, at in (("start", 0), ("end", -1)):
                found = [h[f"block1/{probe}"].dropna().iloc[at] for h in histories if f"block1/{probe}" in h]
                row |= _columns(f"{probe}_{when}", mean(found), known.get(f"{probe}_{when}"))
        rows.append(row | {"note": note(group)})
    return Table(
        COLLAPSE, "E. What happens inside the heads: scores and attention at the start and the end", pd.DataFrame(rows)
    )


def cell(metric: str, group: pd.DataFrame, known: float | None) -> dict[str, Any]:
    """The columns of one perplexity: mean over the seeds that are done, n, interval, the chapter's figure."""
    return _columns(metric, log_mean(values(group, metric)), known)


def values(group: pd.DataFrame, metric: str) -> list[float]:
    """The metric of the runs that are done, or were by older code; a bad run has no number to average."""
    return list(by_seed(group, metric).values())


def by_seed(group: pd.DataFrame, metric: str) -> dict[int, float]:
    """The same by seed."""
    if metric not in group:
        return {}
    good = group[group["state"].isin(("done", STALE)) & group[metric].notna()]
    return dict(zip(good["seed"], good[metric].astype(float), strict=True))


def note(group: pd.DataFrame) -> str:
    """What is not as it should be: `2 of 3 diverged`, `1 of 1 not run`, `1 of 1 by older code`."""
    words = {"diverged": "diverged", "failed": "failed", MISSING: "not run", STALE: "by older code"}
    counts = group["state"].value_counts()
    return ", ".join(f"{counts[state]} of {len(group)} {word}" for state, word in words.items() if state in counts)


def _columns(name: str, found: Mean, known: float | None) -> dict[str, Any]:
    own = {name: found.mean, f"{name}_n": found.n, f"{name}_low": found.low, f"{name}_high": found.high}
    return own | {f"{name}_chapter": float("nan") if known is None else known}


def _first(group: pd.DataFrame, column: str) -> int | None:
    known = group[column].dropna().tolist() if column in group else []
    return int(known[0]) if known else None


def _caption(study: dict[str, Any]) -> str:
    section = f"{study['section']}. " if study.get("section") else ""
    return f"{section}{study.get('question', study.get('name', ''))}"


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.report.tables [budget=NAME]` writes `reports/<budget>/tables/`."""
    budget = "chapter"
    for argument in arguments:
        key, _, budget = argument.partition("=")
        if key != "budget":
            raise InputError(f"{argument}: not known; allowed: budget=NAME")
    plan = load_plan(budget)
    runs = load_runs(plan, ROOT / "results")
    chapter = yaml.safe_load((CONF / "chapter.yaml").read_text())
    folder = ROOT / "reports" / budget / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    texts = [write(table, budget, folder) for table in build(plan, runs, chapter)]
    (folder / "README.md").write_text("\n".join(texts))
    print(f"{len(texts)} tables in {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
