"""Tables of trained runs: one per study, and what goes on inside the heads."""

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pandas as pd

from ablations.report.results import COUNTED, MISSING, STALE, load_history, reading
from ablations.report.statistics import holm, log_mean, mean, p_value, paired
from ablations.report.table import Table, caption_of, label_of, mean_cell, number

Study = dict[str, Any]
Chapter = dict[str, Any]

TOLERATED = 0.01  # share of its perplexity that a recommendation may cost
PERPLEXITY = "heldout_perplexity"
PROBES = ("score_std", "entropy", "saturated")
CORRECT = ("accuracy", "accuracy_vocabulary", "wrong_noun")


def perplexities(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Perplexity per variant, held out and on the training text, in the order of the study's rows."""
    return [per_variant(study, runs, chapter, dict.fromkeys((PERPLEXITY, "train_perplexity"), log_mean))]


def over_window(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Held-out perplexity at the trained window and at each further one that it was read at."""
    return [per_variant(study, runs, chapter, dict.fromkeys([PERPLEXITY, *further(runs)], log_mean))]


def further(frame: pd.DataFrame) -> dict[str, int]:
    """The columns with a perplexity at another window than the trained one, and the windows, the shortest first."""
    known = frame.dropna(axis=1, how="all")
    found = {str(c): int(m[1]) for c in known if (m := re.fullmatch(rf"{PERPLEXITY}_at_(\d+)", str(c)))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def coreference(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Shares of held-out sentences: right between the two nouns, right over all words, the pair's other noun named."""
    return [per_variant(study, runs, chapter, dict.fromkeys(CORRECT, mean))]


def precision(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Perplexities, and whether bfloat16 may be recommended: no loss of a hundredth within the interval."""
    (table,) = perplexities(study, runs, chapter)
    full, half = (by_seed(runs[runs["variant"] == name], PERPLEXITY) for name in ("fp32", "bf16"))
    loss, _, low, high = mean(paired(half, full))
    bound = TOLERATED * log_mean(list(full.values())).mean
    if math.isnan(high):
        said = "Whether bfloat16 may be recommended is not decided: that takes an interval."
    elif high <= bound:
        said = (
            f"bfloat16 may be recommended: the interval excludes a loss of {bound:.2f}, a hundredth of the perplexity."
        )
    elif low > bound:
        said = f"bfloat16 may not be recommended: it loses more than {bound:.2f}, a hundredth of the perplexity."
    else:
        said = f"Whether bfloat16 may be recommended is not decided: its loss is {loss:.2f}, and up to {high:.2f} fits."
    return [dataclasses.replace(table, remark=f"{table.remark} {said}")]


def scale(study: Study, runs: pd.DataFrame, chapter: Chapter) -> list[Table]:
    """Perplexity with and without the division, and what it gains, per head width; gains are paired by seed."""
    rows = []
    for variant in [name for name in runs["variant"].unique() if name.endswith("_divided")]:
        stem = variant.removesuffix("_divided")
        groups = {side: runs[runs["variant"] == f"{stem}_{side}"] for side in ("divided", "undivided")}
        row: dict[str, Any] = {"row": label_of(study, variant).removesuffix(", divided"), "variant": stem}
        for side, group in groups.items():
            row |= mean_cell(side, log_mean(values(group, PERPLEXITY)))
        divided, undivided = (by_seed(group, PERPLEXITY) for group in groups.values())
        row |= mean_cell("gain", mean(paired(undivided, divided)), chapter.get("division_gain", {}).get(stem))
        rows.append(row | {"note": note(pd.concat(groups.values()))})
    return [Table("scale", caption_of(study), pd.DataFrame(rows)), collapse(study, runs, chapter)]


def collapse(study: Study, runs: pd.DataFrame, chapter: Chapter) -> Table:
    """Inside the heads: score std, entropy and share of rows above 0.99, at the start and the end of training."""
    rows = []
    for variant, group in runs.groupby("variant", sort=False):
        row: dict[str, Any] = {"row": label_of(study, str(variant)), "variant": variant}
        known = chapter.get("collapse", {}).get(variant, {})
        histories = [load_history(folder) for folder in group.loc[group["state"].isin(COUNTED), "folder"]]
        for probe in PROBES:
            for when, at in (("start", 0), ("end", -1)):
                found = [value for history in histories for value in reading(history, f"block1/{probe}", at)]
                row |= mean_cell(f"{probe}_{when}", mean(found), known.get(f"{probe}_{when}"))
        rows.append(row | {"note": note(group)})
    return Table("collapse", "E. Inside the heads, at the start and the end of training", pd.DataFrame(rows))


def values(group: pd.DataFrame, metric: str) -> list[float]:
    """The metric of the runs that are done, or were by older code; a bad run has no number to average."""
    return list(by_seed(group, metric).values())


def by_seed(group: pd.DataFrame, metric: str) -> dict[int, float]:
    """The same by seed."""
    if metric not in group:
        return {}
    good = group[group["state"].isin(COUNTED) & group[metric].notna()]
    return dict(zip(good["seed"], good[metric].astype(float), strict=True))


def note(group: pd.DataFrame) -> str:
    """What is not as it should be: `2 of 3 diverged`, `1 of 1 not run`, `1 of 1 by other code or text`."""
    words = {"diverged": "diverged", "failed": "failed", MISSING: "not run", STALE: "by other code or text"}
    counts = group["state"].value_counts()
    return ", ".join(f"{counts[state]} of {len(group)} {word}" for state, word in words.items() if state in counts)


def per_variant(study: Study, runs: pd.DataFrame, chapter: Chapter, metrics: dict[str, Any]) -> Table:
    """A row per variant: these metrics by their way of averaging, the difference in the first of them, the parameters,
    what is amiss.
    """
    judged_by = next(iter(metrics))
    rows = []
    for variant, group in runs.groupby("variant", sort=False):
        row: dict[str, Any] = {"row": label_of(study, str(variant)), "variant": variant}
        for metric, averaged in metrics.items():
            known = chapter.get(metric, {}).get(study["name"], {}).get(variant)
            row |= mean_cell(metric, averaged(values(group, metric)), known)
        row |= _against(study, runs, str(variant), judged_by)
        counted = group["parameters"].dropna().tolist() if "parameters" in group else []
        row["parameters"] = int(counted[0]) if counted else None
        rows.append(row | {"note": note(group)})
    frame = pd.DataFrame(rows)
    p_values = holm([p_value(paired(*_compared(study, runs, str(variant), judged_by))) for variant in frame["variant"]])
    if any(p == p for p in p_values):
        frame.insert(frame.columns.get_loc("parameters"), "p_holm", p_values)  # type: ignore[arg-type]
    return Table(study["name"], caption_of(study), frame, noise_floor(study, runs, judged_by))


def noise_floor(study: Study, runs: pd.DataFrame, metric: str) -> str:
    """What a difference is to be held against: how far the baseline's own runs lie apart."""
    baseline = str(study.get("baseline", ""))
    if not baseline:
        return ""
    found = values(runs[runs["variant"] == baseline], metric)
    if len(found) < 2:
        why = "one run of the baseline shows no spread" if found else "no run of the baseline is done"
        return f"Noise floor: not known, since {why}."
    words = metric.replace("heldout", "held-out").replace("_", " ")
    return (
        f"Noise floor: {number(float(np.std(found, ddof=1)))}, the standard deviation of {words} over {len(found)} "
        f"seeds of the baseline ({label_of(study, baseline)})."
    )


def _against(study: Study, runs: pd.DataFrame, variant: str, metric: str) -> dict[str, Any]:
    """The metric less that of the baseline or, in a study that adds piece by piece, of the row above."""
    return mean_cell(f"difference_from_{_reference(study)}", mean(paired(*_compared(study, runs, variant, metric))))


def _reference(study: Study) -> str:
    return "row_above" if study.get("compare") == "row_above" else "baseline"


def _compared(study: Study, runs: pd.DataFrame, variant: str, metric: str) -> tuple[dict[int, float], dict[int, float]]:
    """The variant's values by seed, and those of what it is compared with; the latter empty where it is the first."""
    names = [str(name) for name in runs["variant"].unique()]
    other = study.get("baseline")
    if _reference(study) == "row_above":
        other = dict(zip(names[1:], names)).get(variant)
    of = {name: by_seed(runs[runs["variant"] == name], metric) for name in (variant, other)}
    return of[variant], {} if other == variant else of[other]
