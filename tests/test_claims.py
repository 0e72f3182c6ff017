"""Claims: what a predicate can say, what it is judged by, and that the file can do nothing else."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from ablations.report.claims.judge import told, turned
from ablations.report.claims.quantity import Source, Values, quantity
from ablations.report.claims.verdict import INCONCLUSIVE, NOT_SUPPORTED, SUPPORTED, judge, judged, plain
from ablations.settings import InputError
from ablations.study.variants import variants
from tests.conftest import PROJECT, Command

CLAIMS = yaml.safe_load((PROJECT / "conf" / "claims.yaml").read_text())


def source(tmp_path: Path, **variants: list[float | str]) -> Source:
    """A study `s` whose variants have these perplexities by seed; a word is the state of a run without one."""
    rows = []
    for variant, values in variants.items():
        for seed, value in enumerate(values):
            folder = tmp_path / variant / str(seed)
            folder.mkdir(parents=True)
            (folder / "history.csv").write_text(f"step,block1/entropy\n0,2.0\n5,{seed + 0.5}\n9,\n")
            row: dict[str, Any] = {"study": "s", "variant": variant, "seed": seed, "folder": folder, "parameters": 7}
            known = isinstance(value, float)
            rows.append(row | {"state": "done" if known else value, "heldout_perplexity": value if known else math.nan})
    measured = {"t": {"r": {"exact": 0.25, "seeds": [1.0, 2.0, 3.0], "word": "out of memory"}}}
    return Source(pd.DataFrame(rows), measured)


def run(variant: str) -> dict[str, str]:
    return {"run": f"s/{variant}", "metric": "heldout_perplexity"}


def claim(**fields: Any) -> dict[str, Any]:
    return {
        "id": "X1",
        "section": "X",
        "claim": "It is so.",
        "reason": "because",
        "value": run("a"),
        "above": 1,
    } | fields


def test_quantities_are_read_seed_by_seed(tmp_path: Path) -> None:
    found = source(tmp_path, a=[4.0, 9.0], b=[2.0, 3.0, 5.0], c=["diverged", 1.0])
    assert quantity(run("a"), found, "x").by_seed == {0: 4.0, 1: 9.0}
    assert quantity({"difference": [run("b"), run("a")]}, found, "x").by_seed == {0: -2.0, 1: -6.0}
    assert quantity({"ratio": [run("a"), run("b")]}, found, "x").by_seed == {0: 2.0, 1: 3.0}
    ends = quantity({"history": "s/a", "column": "block1/entropy", "at": "end"}, found, "x")
    assert ends.by_seed == {0: 0.5, 1: 1.5}
    starts = quantity({"history": "s/a", "column": "block1/entropy", "at": "start"}, found, "x")
    assert starts.by_seed == {0: 2.0, 1: 2.0}
    assert quantity({"measured": "t", "row": "r", "column": "seeds"}, found, "x").by_seed == {0: 1.0, 1: 2.0, 2: 3.0}
    exact = quantity({"measured": "t", "row": "r", "column": "exact"}, found, "x")
    assert exact.exact and exact.by_seed == {0: 0.25}
    assert quantity({"measured": "t", "row": "r", "column": "word"}, found, "x").outcomes == "out of memory"
    assert quantity(run("c"), found, "x").outcomes == "1 of 2 diverged"
    assert quantity(run("d"), found, "x").outcomes == "not planned"
    assert quantity({"run": "s/a", "metric": "parameters"}, found, "x").exact


@pytest.mark.parametrize(
    ("values", "low", "high", "verdict"),
    [
        ([2.0, 2.1, 1.9], 1, math.inf, SUPPORTED),
        ([0.1, 0.2, 0.15], 1, math.inf, NOT_SUPPORTED),
        ([0.5, 2.5, 2.2], 1, math.inf, INCONCLUSIVE),
        ([2.0, 2.1, 1.9], 1, 1.5, NOT_SUPPORTED),
        ([2.0], 1, math.inf, INCONCLUSIVE),
        ([], 1, math.inf, INCONCLUSIVE),
    ],
)
def test_a_verdict_needs_the_interval_on_one_side(values: list[float], low: float, high: float, verdict: str) -> None:
    part = judge(Values(dict(enumerate(values))), low, high)
    assert part.verdict == verdict and part.value.n == len(values)
    if verdict == INCONCLUSIVE and len(values) == 3:
        assert re.search(r"about \d+ seeds would decide it", part.why)


def test_what_is_exact_has_no_doubt() -> None:
    assert judge(Values({0: 0.96}, exact=True), 0.95, 0.97).verdict == SUPPORTED
    assert judge(Values({0: 0.94}, exact=True), 0.95, 0.97).verdict == NOT_SUPPORTED


def test_above_is_not_at_least(tmp_path: Path) -> None:
    found = source(tmp_path, a=[1.0, 1.0])
    value = {"difference": [run("a"), run("a")]}
    verdicts = {op: judged(claim(value=value, above=0) if op == "above" else {
        k: v for k, v in claim(value=value).items() if k != "above"} | {op: 0}, found, "c").verdict
        for op in ("above", "at_least", "below", "at_most")}  # fmt: skip
    assert verdicts == {"above": NOT_SUPPORTED, "at_least": SUPPORTED, "below": NOT_SUPPORTED, "at_most": SUPPORTED}


def test_divergence_is_an_outcome_and_never_a_number(tmp_path: Path) -> None:
    found = source(tmp_path, a=["diverged", "diverged"], b=["diverged", 400.0], c=[400.0, 410.0, 405.0])
    assert judged(claim(value=run("a"), above=150), found, "c").verdict == INCONCLUSIVE
    assert judged(claim(value=run("a"), above=150, diverged="holds"), found, "c").verdict == SUPPORTED
    assert judged(claim(value=run("b"), above=150, diverged="holds"), found, "c").verdict == INCONCLUSIVE
    one = source(tmp_path / "one", a=["diverged"], d=["diverged", 400.0, 410.0, 405.0])
    assert judged(claim(value=run("a"), above=150, diverged="holds"), one, "c").verdict == INCONCLUSIVE
    assert judged(claim(value=run("d"), above=150, diverged="holds"), one, "c").verdict == SUPPORTED
    assert judged(claim(value=run("d"), above=500, diverged="holds"), one, "c").verdict == NOT_SUPPORTED
    assert judged(claim(value=run("c"), above=150, diverged="holds"), found, "c").verdict == SUPPORTED


def test_what_has_no_mean_is_no_crash(tmp_path: Path) -> None:
    found = source(tmp_path, a=[4.0, 4.0], b=[4.0, 5.0])
    zero = {"difference": [run("a"), run("a")]}
    for value in ({"ratio": [run("a"), zero]}, {"ratio": [zero, run("b")]}):
        part = judged(claim(value=value), found, "c").parts[0]
        assert part.verdict == INCONCLUSIVE and "zero" in part.why


def test_of_several_parts_the_worst_decides(tmp_path: Path) -> None:
    found = source(tmp_path, a=[2.0, 2.1, 1.9], b=[0.5, 1.5, 1.2])
    parts = [{"value": run("a"), "above": 1}, {"value": run("b"), "above": 1}, {"value": run("a"), "above": 3}]
    base = {k: v for k, v in claim().items() if k not in ("value", "above")}
    assert judged(base | {"all": parts[:1]}, found, "c").verdict == SUPPORTED
    assert judged(base | {"all": parts[:2]}, found, "c").verdict == INCONCLUSIVE
    assert judged(base | {"all": parts}, found, "c").verdict == NOT_SUPPORTED


BAD: list[tuple[Any, str]] = [
    (claim(python="import os"), r"c\.python: not known; allowed: id, section"),
    (claim(value={"eval": "1"}), r"c \(X1\)\.value: eval; allowed: one of run, history"),
    (claim(value="__import__('os')"), r"c \(X1\)\.value: .*; allowed: a mapping"),
    (claim(value={"run": "s/a"}), r"c \(X1\)\.value\.metric: None; allowed: a name"),
    (claim(value={"run": "s/a", "metric": "x", "code": "1"}), r"value\.code: not known; allowed: run, metric"),
    (claim(value={"history": "s/a", "column": "c", "at": "middle"}), r"value\.at: middle; allowed: start, end"),
    (claim(value={"difference": [run("a")]}), r"value\.difference: .*; allowed: a list of two"),
    (claim(above="1 + 1"), r"c \(X1\)\.above: 1 \+ 1; allowed: a number"),
    (claim(above=math.nan), r"c \(X1\)\.above: nan; allowed: a number"),
    (claim(above=10**400), r"c \(X1\)\.above: 10+; allowed: a number"),
    (claim(value={"run": "s/a", "metric": "state"}), r"value\.metric: state; allowed: a metric"),
    (claim(above=True), r"c \(X1\)\.above: True; allowed: a number"),
    (claim(between=[1, 2]), r"above, between; allowed: one of at_least"),
    ({k: v for k, v in claim().items() if k != "above"} | {"between": [3, 2]}, "allowed: a list of two numbers"),
    ({k: v for k, v in claim().items() if k != "above"}, r"no operator; allowed: one of"),
    (claim(all=[]), r"needs a value with an operator, or a list"),
    (claim(id=""), r"c\.id: ; allowed: a text"),
    (claim(diverged="yes"), r"diverged: yes; allowed: holds"),
    ("text", r"c: text; allowed: a mapping"),
]


@pytest.mark.parametrize(("spec", "says"), BAD)
def test_a_predicate_is_data_and_nothing_else(spec: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        judged(spec, source(tmp_path, a=[2.0]), "c")
    assert "\n" not in str(caught.value)


def test_each_section_has_a_claim_and_each_claim_names_what_there_is() -> None:
    assert {spec["section"] for spec in CLAIMS} == set("ABCDEFGHIJKL") and len(CLAIMS) >= 35
    text = (PROJECT / "conf" / "claims.yaml").read_text()
    for study, variant in set(re.findall(r"(?:run|history): (\w+)/(\w+)", text)):
        assert variant in variants(study)
    tables = {result["name"]: result for file in (PROJECT / "measurements/chapter").glob("*.json")
              for result in json.loads(file.read_text())}  # fmt: skip
    for name, row, column in set(re.findall(r"measured: ([\w]+), row: ([\w-]+), column: (\w+)", text)):
        assert any(r["variant"] == row and column in r for r in tables[name]["rows"]), (name, row, column)


def test_a_claim_that_turned_is_told(tmp_path: Path) -> None:
    found = [judged(claim(), source(tmp_path, a=[2.0, 2.1, 1.9]), "c")]
    record = tmp_path / "verdicts.json"
    assert turned(found, record) == []
    record.write_text(json.dumps({"X1": SUPPORTED, "gone": SUPPORTED}))
    assert turned(found, record) == []
    record.write_text(json.dumps({"X1": INCONCLUSIVE}))
    assert turned(found, record) == ["X1: INCONCLUSIVE -> SUPPORTED"]
    assert told(found[0].parts[0]) == "2.00 [1.76, 2.26], n = 3"
    counted = judged(claim(value={"run": "s/a", "metric": "parameters"}), source(tmp_path / "2", a=[2.0, 2.1]), "c")
    assert told(counted.parts[0]) == "7"  # the same at each seed: nothing to vary
    assert json.loads(json.dumps(plain(found[0]), allow_nan=False))["parts"][0]["n"] == 3


def test_check_is_a_command(run: Command, project: Path) -> None:
    plan = project / "plans" / "chapter"
    assert run("ablations.plan", "study=averages", "out=plans/chapter").returncode == 0
    found = run("ablations.report.claims")
    assert found.returncode == 0 and f"{len(CLAIMS)} claims: 0 SUPPORTED" in found.stdout, found.stderr
    record = project / "reports" / "chapter" / "verdicts.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"A1": "SUPPORTED"}))
    found = run("ablations.report.claims")
    assert found.returncode == 1 and found.stderr == "turned: A1: SUPPORTED -> INCONCLUSIVE\n"
    assert run("ablations.report.claims", "record=yes").returncode == 0
    assert json.loads(record.read_text())["A1"] == "INCONCLUSIVE" and plan.exists()
    (project / "conf" / "claims.yaml").write_text("- {id: A1, python: 1}\n")
    found = run("ablations.report.claims")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and "claims[0].python" in found.stderr
    (project / "conf" / "claims.yaml").write_text("- {id: A1, above: 0, above: 1}\n")
    found = run("ablations.report.claims")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and "duplicate key above" in found.stderr


def test_what_a_claim_says_was_stated_is_what_the_chapters_figures_say() -> None:
    chapter = yaml.safe_load((PROJECT / "conf" / "chapter.yaml").read_text())
    both = {}
    for spec in CLAIMS:
        match spec.get("value"):
            case {"run": name, "metric": metric}:
                study, _, variant = name.partition("/")
                known = chapter.get(metric, {}).get(study, {}).get(variant)
            case {"measured": table, "row": row, "column": column}:
                known = chapter.get(table, {}).get(row, {}).get(column)
            case _:
                known = None
        if known is not None and "stated" in spec:
            both[spec["id"]] = (spec["stated"], known)
    assert len(both) >= 12 and all(stated == known for stated, known in both.values()), both
