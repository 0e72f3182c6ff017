"""Stage `report`: `reports/<budget>/index.html`, one file that asks no network, and its charts as PNG and SVG."""

import json
import math
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import vl_convert

from ablations.report.charts.draw import Chart
from ablations.report.charts.measured import measured_charts
from ablations.report.charts.trained import study_charts
from ablations.report.claims.judge import claims, told
from ablations.report.claims.verdict import Claim, reasons
from ablations.report.origins import origins
from ablations.report.results import budget_of, load_plan, load_runs
from ablations.report.statistics import log_mean
from ablations.report.studies import PERPLEXITY, values
from ablations.report.table import SECTIONS, Table, by_section, number, section_of
from ablations.report.tables import build, load_chapter
from ablations.report.write import readable, reading
from ablations.settings import ROOT, command

SCALE = 2  # of PNGs, for slides


def deliver(
    folder: Path,
    budget: str,
    plan: dict[str, Any],
    runs: pd.DataFrame,
    tables: list[Table],
    found: list[Claim],
) -> None:
    """Writes the page, its charts, and the few numbers that `dvc metrics` shows.

    Args:
        folder: to write into.
        budget: of the runs.
        plan: the studies by name, each with `study`, its file's text.
        runs: one row per run, as `load_runs` gives them.
        tables: all that are to be shown, those of the studies among them.
        found: the claims, judged; none for a study of one's own.
    """
    by_name = {table.name: table for table in tables}
    charts = measured_charts(by_name)
    for name, study in plan.items():
        charts += study_charts(study["study"], runs[runs["study"] == name], by_name)
    text = _template().render(
        budget=budget,
        counts=_counts(runs, found),
        sections=_sections(tables, charts, found, budget),
        claims=[_claim(claim) for claim in found],
        provenance=origins(runs),
        runtime=vl_convert.javascript_bundle(),  # type: ignore[call-arg]
        specs=_script_safe({chart.name: _fluid(chart.spec) for chart in charts}),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(text)
    metrics = json.dumps(_metrics(plan, runs, found), indent=1, sort_keys=True, allow_nan=False)
    (folder / "metrics.json").write_text(metrics + "\n")
    draw(charts, folder / "figures")
    print(f"{folder.relative_to(ROOT)}/index.html, {len(charts)} charts in {folder.relative_to(ROOT)}/figures")


def draw(charts: list[Chart], folder: Path) -> None:
    """Writes each chart as `<name>.png` and `<name>.svg`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for chart in charts:
        svg = vl_convert.vegalite_to_svg(chart.spec | {"background": "white"})
        (folder / f"{chart.name}.svg").write_text(svg)
        (folder / f"{chart.name}.png").write_bytes(vl_convert.svg_to_png(svg, scale=SCALE))


def _metrics(plan: dict[str, Any], runs: pd.DataFrame, found: list[Claim]) -> dict[str, Any]:
    """Mean held-out perplexity by study and variant, and how many claims came out how."""
    shown: dict[str, Any] = {"claims": dict(Counter(claim.verdict for claim in found))}
    for study in plan:
        mine = runs[runs["study"] == study]
        means = {name: log_mean(values(group, PERPLEXITY)).mean for name, group in mine.groupby("variant", sort=False)}
        shown[study] = {str(name): round(mean, 4) for name, mean in means.items() if math.isfinite(mean)}
    return {name: content for name, content in shown.items() if content}


def _template() -> jinja2.Template:
    text = Path(__file__).with_suffix(".html").read_text()
    return jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined).from_string(text)


def _sections(tables: list[Table], charts: list[Chart], found: list[Claim], budget: str) -> list[dict[str, Any]]:
    of = {table.name: section_of(table.caption) for table in tables}
    letters = sorted({*of.values(), *(c.section for c in charts), *(c.section for c in found)}, key=by_section)
    return [
        {
            "letter": letter,
            "id": f"section-{letter or 'other'}",
            "name": SECTIONS.get(letter, "Further studies"),
            "tables": [_table(table, budget) for table in tables if of[table.name] == letter],
            "claims": [_claim(claim) for claim in found if claim.section == letter],
            "charts": [chart for chart in charts if chart.section == letter],
        }
        for letter in letters
    ]


def _table(table: Table, budget: str) -> dict[str, Any]:
    shown = readable(table.frame)
    told_of = reading(table.frame, budget).removeprefix("— ")
    return {"caption": table.caption, "reading": told_of, "remark": table.remark, "columns": list(shown)} | {
        "rows": shown.to_numpy().tolist()
    }


def _claim(claim: Claim) -> dict[str, Any]:
    stated = number(claim.stated) if isinstance(claim.stated, int | float) else str(claim.stated or "")
    return {
        "id": claim.id,
        "claim": claim.claim,
        "ours": [told(part) for part in claim.parts],
        "stated": stated,
        "verdict": claim.verdict,
        "why": reasons(claim),
    }


def _counts(runs: pd.DataFrame, found: list[Claim]) -> str:
    verdicts = Counter(claim.verdict for claim in found)
    states = Counter(runs["state"])
    told_of = ", ".join(f"{n} {verdict.lower()}" for verdict, n in verdicts.most_common())
    done = f"{states['done']} of {len(runs)} runs are done."
    return f"{done} Of {len(found)} claims, {told_of}." if found else done


def _fluid(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification as wide as its column, in the colours of the page."""
    text = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    config = {"background": "transparent", "axis": text, "legend": text, "view": {"stroke": None}}
    fit = {"type": "fit-x", "contains": "padding"}
    return spec | {"width": "container", "autosize": fit, "config": spec.get("config", {}) | config}


def _script_safe(value: Any) -> str:
    """JSON that no closing tag can end."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "").replace("\u2029", "")


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.report.page [budget=NAME]`."""
    budget = budget_of(arguments)
    plan = load_plan(budget)
    runs = load_runs(plan, ROOT / "results")
    tables = build(plan, runs, budget, load_chapter())
    deliver(ROOT / "reports" / budget, budget, plan, runs, tables, claims(budget))


if __name__ == "__main__":
    sys.exit(main())
