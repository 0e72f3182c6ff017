"""Charts of trained runs: a study's rows, its training curves, what the instruments read."""

import altair as alt
import pandas as pd

from ablations.report.charts.draw import COLOURS, ROW, Chart, Study, chart_of, lines, rounded
from ablations.report.results import COUNTED, TRAINED, load_history
from ablations.report.studies import PERPLEXITY, further
from ablations.report.table import Table, label_of, number
from ablations.study.ledger import read

ACCURACY = {"coreference": "accuracy_vocabulary", "stacks": "accuracy"}  # studies that are not judged by perplexity
PROBES = {
    "score_std": "standard deviation of the scores",
    "entropy": "attention entropy, nats",
    "saturated": "share of rows with a weight above 0.99",
    "gradient_norm": "gradient norm",
}


def study_charts(study: Study, runs: pd.DataFrame, tables: dict[str, Table]) -> list[Chart]:
    """What a study's runs show: its rows with intervals, its training curves, and what the instruments read."""
    found = [rows_with_intervals(study, tables), *training_curves(study, runs)]
    if study["name"] == "scale":
        found.append(over_width(tables["scale"]))
    found.append(over_window(study, runs, tables[study["name"]]))
    return [chart for chart in found if chart is not None]


def rows_with_intervals(study: Study, tables: dict[str, Table]) -> Chart | None:
    """The main figure of each row, its interval, and the chapter's."""
    frame = tables[study["name"]].frame
    metric = ACCURACY.get(study["name"], PERPLEXITY)
    if f"{metric}_n" not in frame or frame[metric].notna().sum() == 0:
        return None
    renamed = {metric: "ours", f"{metric}_low": "low", f"{metric}_high": "high", f"{metric}_chapter": "chapter"}
    data = rounded(frame.rename(columns=renamed)[["row", "ours", "low", "high", "chapter"]])
    what = metric.replace("heldout", "held-out").replace("_", " ")
    spread = frame[metric].max() / max(frame[metric].min(), 1e-9)
    scale = alt.Scale(type="log") if spread > 3 and metric == PERPLEXITY else alt.Scale(zero=False)
    row = alt.Y("row:N", sort=None, title=None, axis=None)
    base = alt.Chart(data).encode(y=row)
    interval = base.mark_rule(strokeWidth=3, color=COLOURS[0]).encode(
        x=alt.X("low:Q", scale=scale, title=what), x2="high:Q"
    )
    ours = base.mark_point(filled=True, size=80, color=COLOURS[0], opacity=1).encode(
        x=alt.X("ours:Q", scale=scale, title=what), tooltip=["row", "ours", "low", "high", "chapter"]
    )
    theirs = base.mark_point(shape="diamond", size=90, color=COLOURS[1], strokeWidth=2).encode(
        x=alt.X("chapter:Q", scale=scale, title=what)
    )
    labels = base.mark_text(align="left", dy=-13, fontSize=12).encode(x=alt.value(2), text="row")
    layers = [labels, *([interval] if data["low"].notna().any() else []), ours]
    layers += [theirs] if data["chapter"].notna().any() else []
    title = f"{study['name']}: {what}; dots are ours with 95 % intervals over seeds"
    title += ", diamonds the chapter's" if data["chapter"].notna().any() else ""
    text = "; ".join(f"{r.row}: {number(r.ours)}" for r in data.itertuples() if number(r.ours))
    return chart_of(f"{study['name']}_rows", study, title, text, alt.layer(*layers), ROW * len(data))


def training_curves(study: Study, runs: pd.DataFrame) -> list[Chart]:
    """Training loss and, where there is attention, what happens in it, over the steps; means over seeds."""
    long = _histories(study, runs)
    if long.empty:
        return []
    found = [
        lines(
            f"{study['name']}_training",
            study,
            f"{study['name']}: training loss, nats",
            long[long["what"] == "train_loss"],
            "variant",
            "training loss",
        )
    ]
    blocks = sorted({int(block) for block in long["block"].dropna()})
    for probe, words in PROBES.items():
        mine = long[(long["what"] == probe) & long["block"].notna()]
        if mine["value"].nunique() < 2:
            continue
        if len(blocks) <= 2:
            mine = mine.assign(
                line=mine["variant"] + (" — block " + mine["block"].astype(int).astype(str) if len(blocks) > 1 else "")
            )
            found.append(lines(f"{study['name']}_{probe}", study, f"{study['name']}: {words}", mine, "line", words))
            continue
        for variant, group in mine.groupby("variant", sort=False):
            shown = group[group["block"].isin([blocks[0], blocks[len(blocks) // 2], blocks[-1]])]
            shown = shown.assign(line="block " + shown["block"].astype(int).astype(str))
            name = f"{study['name']}_{probe}_{variant}"
            found.append(lines(name, study, f"{study['name']}, {variant}: {words}", shown, "line", words))
    return [chart for chart in found if chart is not None]


def over_width(table: Table) -> Chart | None:
    """Perplexity against the head's width, divided and not (section E), at the short budget."""
    rows = table.frame[table.frame["variant"].str.startswith("short_")]
    data = pd.DataFrame(
        [
            {
                "d_k": int(r["variant"].removeprefix("short_")),
                "scores": side,
                "perplexity": r[side],
                "low": r[f"{side}_low"],
                "high": r[f"{side}_high"],
            }
            for r in rows.to_dict("records")
            for side in ("divided", "undivided")
        ]
    )
    title = "Held-out perplexity against the width of the head, scores divided by sqrt(d_k) and not"
    return lines(
        "perplexity_over_width", {"section": "E"}, title, data, "scores", "perplexity", x="d_k", log_x=True, points=True
    )


def over_window(study: Study, runs: pd.DataFrame, table: Table) -> Chart | None:
    """Perplexity against the window the text is read in, per row, where it was read beyond the trained one."""
    records = filter(None, map(read, runs.loc[runs["state"].isin(COUNTED), "folder"]))
    if not (windows := further(table.frame)) or not (record := next(records, None)):
        return None
    trained = int(record["config"]["data"]["window"])
    data = pd.DataFrame(
        [
            {
                "window": window,
                "variant": r["row"],
                "perplexity": r[column],
                "low": r[f"{column}_low"],
                "high": r[f"{column}_high"],
            }
            for r in table.frame.to_dict("records")
            for column, window in {PERPLEXITY: trained, **windows}.items()
        ]
    )
    title = f"{study['name']}: held-out perplexity against the window, trained at {trained}"
    name = f"{study['name']}_over_window"
    return lines(name, study, title, data, "variant", "perplexity", x="window", log_x=True, points=True)


def _histories(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per variant, step, figure and block: the mean over its seeds."""
    parts = []
    for run in runs[runs["state"].isin(TRAINED)].to_dict("records"):
        history = load_history(run["folder"])
        columns = [c for c in history if c == "train_loss" or str(c).partition("/")[2] in PROBES]
        long = history.melt(id_vars=["step"], value_vars=columns).dropna()
        parts.append(long.assign(variant=label_of(study, run["variant"])))
    if not parts:
        return pd.DataFrame()
    long = pd.concat(parts)
    long["block"] = pd.to_numeric(long["variable"].str.extract(r"block(\d+)/")[0])
    long["what"] = long["variable"].str.replace(r"block\d+/", "", regex=True)
    keys = ["variant", "what", "block", "step"]
    return long.groupby(keys, sort=False, dropna=False)["value"].mean().reset_index()
