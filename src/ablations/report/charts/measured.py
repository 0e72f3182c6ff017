"""Charts of what needs no training, and of the attention maps."""

import altair as alt
import pandas as pd

from ablations.report.charts.draw import COLOURS, Chart, chart_of, lines, rounded
from ablations.report.table import Table, number
from ablations.report.write import BESIDES


def measured_charts(tables: dict[str, Table]) -> list[Chart]:
    """Gradients per block before training, time and memory against the length, attention maps."""
    found: list[Chart | None] = []
    if "gradient_profile" in tables:
        found.append(_gradients(tables["gradient_profile"]))
    if "cost" in tables:
        found += [
            _cost(tables["cost"], figure, title) for figure, title in (("ms", "milliseconds"), ("peak_mb", "peak MB"))
        ]
    if "attention_map" in tables:
        found.append(_map(tables["attention_map"]))
    return [chart for chart in found if chart is not None]


def _gradients(table: Table) -> Chart | None:
    labels = {"pre_qkv": "pre-norm", "post_qkv": "post-norm"}
    data = pd.DataFrame(
        [
            {"block": i, "placement": label, "norm": r[name], "low": r[f"{name}_low"], "high": r[f"{name}_high"]}
            for i, r in enumerate(table.frame.to_dict("records"), start=1)
            for name, label in labels.items()
        ]
    )
    title = "Gradient norm of W_q, W_k, W_v per block before training, twelve blocks"
    return lines("gradients_per_block", {"section": "H"}, title, data, "placement", "norm", x="block", points=True)


def _cost(table: Table, figure: str, unit: str) -> Chart | None:
    names = {f"written_out_{figure}": "written out", f"fused_{figure}": "fused kernel"}
    if figure == "ms":
        names["projections_ms"] = "projections alone"
    data = pd.DataFrame(
        [
            {
                "n": int(r["variant"].removeprefix("n_")),
                "attention": label,
                "cost": pd.to_numeric(r[name], errors="coerce"),
            }
            for r in table.frame.to_dict("records")
            for name, label in names.items()
        ]
    )
    title = f"Cost of one attention layer against the length of the text: {unit}"
    return lines(
        f"cost_{figure}",
        {"section": "J"},
        title,
        data,
        "attention",
        "cost",
        x="n",
        log_x=True,
        log_y=True,
        points=True,
        unit=unit,
    )


def _map(table: Table) -> Chart:
    columns = [str(c) for c in table.frame if str(c).startswith("block") and not str(c).endswith(BESIDES)]
    long = table.frame.melt(id_vars=["row"], value_vars=columns, var_name="where", value_name="weight")
    long["where"] = long["where"].str.replace("block", "block ").str.replace("_", ", ")
    wheres = list(dict.fromkeys(long["where"]))
    base = alt.Chart(rounded(long)).encode(
        x=alt.X("row:N", sort=None, title=None, axis=alt.Axis(labelAngle=-50, labelLimit=120)),
        y=alt.Y("where:N", sort=None, title=None),
    )
    cells = base.mark_rect().encode(
        color=alt.Color("weight:Q", scale=alt.Scale(domain=[0, 1], range=["#f2f2f2", COLOURS[0]]), title="weight"),
        tooltip=["row", "where", "weight"],
    )
    long = long.sort_values("weight", kind="stable")
    most = [long[long["where"] == where].iloc[-1] for where in wheres]
    text = "; ".join(f"{row['where']}: most on {row['row']} ({number(float(row['weight']))})" for row in most)
    title = 'Attention where the referent must be named: "… too tired" and "… too wet", mean over heads'
    return chart_of("attention_map", {"section": "K"}, title, text, cells, 40 * len(columns))
