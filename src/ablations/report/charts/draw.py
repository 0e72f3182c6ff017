"""What charts are made of: a chart with its text, lines with intervals, rounding."""

import dataclasses
import math
import re
from typing import Any

import altair as alt
import pandas as pd

from ablations.report.table import number

WIDTH, HEIGHT, ROW = 560, 260, 40  # pixels of a chart by itself; on the page its width is that of its column
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#7F7F7F", "#8B4513", "#6A5ACD", "#2F4F4F"]

Study = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart.

    Args:
        name: of its files.
        section: of the chapter.
        title: what it shows.
        text: the same in words and numbers, for who cannot see it.
        spec: of Vega-Lite.
    """

    name: str
    section: str
    title: str
    text: str
    spec: dict[str, Any]


def lines(
    name: str,
    study: Study,
    title: str,
    data: pd.DataFrame,
    colour: str,
    y: str,
    x: str = "step",
    log_x: bool = False,
    log_y: bool = False,
    points: bool = False,
    unit: str | None = None,
) -> Chart | None:
    """A line per value of a column, each with the intervals that it has; None where no point is known.

    Args:
        name: of the chart's files.
        study: whose section it belongs to.
        title: of the chart.
        data: one row per point; columns `low` and `high`, if any, are drawn as its interval.
        colour: the column that tells the lines apart.
        y: the column of the figure and what its axis is called; where there is no such column, it is `value`.
        x: the column of the other axis.
        log_x: whether that is a logarithmic one.
        log_y: the same of the figure's.
        points: whether each point is marked, too.
        unit: what the figure's axis is called instead.
    """
    value = y if y in data else "value"
    data = data[data[value].notna()]
    if data.empty:
        return None
    order = list(dict.fromkeys(data[colour]))
    kept = [c for c in (x, colour, value, "low", "high") if c in data]
    across: dict[str, Any] = {"scale": alt.Scale(nice=False)}
    if log_x:
        at = sorted(data[x].unique().tolist())
        across = {"scale": alt.Scale(type="log", base=2, nice=False), "axis": alt.Axis(values=at)}
    base = alt.Chart(rounded(data[kept])).encode(
        x=alt.X(f"{x}:Q", title=x, **across),
        color=alt.Color(
            f"{colour}:N",
            sort=order,
            scale=alt.Scale(domain=order, range=COLOURS),
            title=None,
            legend=alt.Legend(orient="bottom", columns=1 if max(map(len, order)) > 30 else 2, labelLimit=320),
        ),
    )
    axis = alt.Y(f"{value}:Q", scale=alt.Scale(type="log") if log_y else alt.Scale(zero=False), title=unit or y)
    lines = base.mark_line(point=points, strokeWidth=1.5 if not points else 2).encode(y=axis, tooltip=kept)
    layers = [lines]
    if "low" in kept and data["low"].notna().any():
        layers.insert(
            0, base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low:Q", title=unit or y), y2="high:Q")
        )
    ends = data.sort_values(x, kind="stable").groupby(colour, sort=False)[value].agg(["first", "last"])
    span = f"from {x} {number(data[x].min().item())} to {number(data[x].max().item())}"
    text = f"{span}: " + "; ".join(
        f"{k}: {number(v['first'])} to {number(v['last'])}" for k, v in ends.to_dict("index").items()
    )
    return chart_of(name, study, title, text, alt.layer(*layers), HEIGHT)


def chart_of(name: str, study: Study, title: str, text: str, chart: Any, height: int) -> Chart:
    """An Altair chart of this height in pixels with its title and its text, named for files."""
    spec: dict[str, Any] = chart.properties(width=WIDTH, height=height).to_dict()
    spec["description"] = f"{title}. {text}"
    name = re.sub(r"[^A-Za-z0-9_]+", "-", name)  # of files, and of an element of the page
    return Chart(name, str(study.get("section") or ""), title, text, spec)


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Four significant digits: what can be seen, in a third of the bytes."""
    return frame.map(lambda v: float(f"{v:.4g}") if isinstance(v, float) and math.isfinite(v) else v)
