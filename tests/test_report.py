"""Tables from a ledger, with everything in it that can go wrong."""

import dataclasses
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ablations.report import measured, readme, studies, write
from ablations.report.statistics import log_mean, mean
from ablations.report.table import Table, by_section, mean_cell, number, section_of
from ablations.report.tables import study_tables
from tests.conftest import PROJECT, unavailable


def test_mean_and_interval_are_students() -> None:
    values = [3.0, 4.0, 8.0]
    found = mean(values)
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert found == pytest.approx((5.0, 3, low, high))
    assert found.high - found.mean == pytest.approx(4.302653 * math.sqrt(7) / math.sqrt(3), rel=1e-6)


def test_one_run_shows_no_interval_and_none_no_mean() -> None:
    assert mean([2.0])[:2] == (2.0, 1) and all(map(math.isnan, mean([2.0])[2:]))
    assert mean([]).n == 0 and math.isnan(mean([]).mean)
    assert math.isnan(log_mean([]).mean)


def test_perplexities_are_averaged_in_the_log() -> None:
    found = log_mean([10.0, 1000.0])
    assert found.mean == pytest.approx(100)
    assert found.high / found.mean == pytest.approx(found.mean / found.low)


STUDY = {"name": "ladder", "section": "F", "question": "What?", "rows": {"a": "row a", "b": "row b"}}
CHAPTER: dict[str, Any] = {"heldout_perplexity": {"ladder": {"a": 38.07}}, "division_gain": {}, "collapse": {}}


def runs(**states: list[tuple[str, float]]) -> pd.DataFrame:
    rows = [
        {
            "study": "ladder",
            "variant": variant,
            "seed": seed,
            "state": state,
            "heldout_perplexity": value,
            "parameters": 5,
        }
        for variant, seeds in states.items()
        for seed, (state, value) in enumerate(seeds)
    ]
    return pd.DataFrame(rows)


def test_bad_runs_are_told_and_never_averaged() -> None:
    (table,) = studies.perplexities(
        STUDY,
        runs(
            a=[("done", 40.0), ("done", 40.0), ("diverged", math.nan)],
            b=[("failed", math.nan), ("not run", math.nan), ("older code", 50.0)],
        ),
        CHAPTER,
    )
    frame = table.frame.set_index("variant")
    assert frame.loc["a", "heldout_perplexity"] == pytest.approx(40) and frame.loc["a", "heldout_perplexity_n"] == 2
    assert frame.loc["a", "note"] == "1 of 3 diverged"
    assert frame.loc["b", "note"] == "1 of 3 failed, 1 of 3 not run, 1 of 3 by other code or text"
    assert frame.loc["b", "heldout_perplexity"] == pytest.approx(50) and math.isnan(
        frame.loc["b", "heldout_perplexity_low"]
    )
    assert frame.loc["a", "heldout_perplexity_chapter"] == 38.07 and math.isnan(
        frame.loc["b", "heldout_perplexity_chapter"]
    )
    assert list(frame["row"]) == ["row a", "row b"]


def test_gains_are_paired_by_seed() -> None:
    found = runs(
        w_divided=[("done", 10.0), ("done", 20.0), ("done", 30.0)],
        w_undivided=[("done", 11.0), ("diverged", math.nan), ("done", 33.0)],
    )
    found["folder"] = Path("nowhere")
    study = {"name": "scale", "rows": {"w_divided": "width w, divided"}}
    monkey = pytest.MonkeyPatch()
    monkey.setattr(studies, "collapse", lambda *_: None)
    table = studies.scale(study, found, CHAPTER)[0]
    monkey.undo()
    assert table.frame["row"].tolist() == ["width w"]
    assert table.frame["gain"].tolist() == [pytest.approx(2.0)] and table.frame["gain_n"].tolist() == [2]
    assert table.frame["note"].tolist() == ["1 of 6 diverged"]


@pytest.mark.parametrize(
    ("shift", "says"),
    [
        ([0.01, 0.02, 0.0], "bfloat16 may be recommended: the interval excludes a loss of 0.40"),
        ([2.0, 2.1, 1.9], "bfloat16 may not be recommended: it loses more than 0.40"),
        ([0.3, 1.3, -0.9], "not decided: its loss is 0.23"),
        ([0.0], "not decided: that takes an interval"),
    ],
)
def test_bfloat16_is_recommended_by_its_interval(shift: list[float], says: str) -> None:
    found = runs(fp32=[("done", 40.0) for _ in shift], bf16=[("done", 40.0 + s) for s in shift])
    study = STUDY | {"name": "precision", "baseline": "fp32"}
    (table,) = study_tables(study, found, {})
    assert says in table.remark


def test_differences_are_paired_and_held_against_the_noise() -> None:
    """Against the baseline, or row by row; Holm over the rows; the spread of the baseline's own runs beside it."""
    found = runs(
        a=[("done", 40.0), ("done", 42.0)], b=[("done", 39.0), ("done", 41.2)], c=[("done", 30.0), ("done", 31.0)]
    )
    (table,) = studies.perplexities(STUDY | {"baseline": "a"}, found, {})
    frame = table.frame.set_index("variant")
    assert frame["difference_from_baseline"].tolist()[1:] == pytest.approx([-0.9, -10.5])
    assert math.isnan(frame["difference_from_baseline"].iloc[0])
    p = [stats.ttest_rel([40.0, 42.0], other).pvalue for other in ([39.0, 41.2], [30.0, 31.0])]
    assert frame["p_holm"].tolist()[1:] == pytest.approx([max(p[0], 2 * min(p)), 2 * min(p)])
    assert table.remark.startswith(f"Noise floor: {math.sqrt(2):.2f}, the standard deviation")
    (table,) = studies.perplexities(STUDY | {"baseline": "a", "compare": "row_above"}, found, {})
    assert table.frame["difference_from_row_above"].tolist()[1:] == pytest.approx([-0.9, -9.6])


def table() -> Table:
    rows = [
        {"row": "a & b_c", "variant": "ab", **mean_cell("ppl", mean([39.0, 40.0, 41.0]), 38.07), "parameters": 477_696},
        {"row": "c", "variant": "c", **mean_cell("ppl", mean([1234.5])), "parameters": None},
    ]
    frame = pd.DataFrame(rows).assign(note=["", "1 of 1 not run"])
    return Table("mine", "F. 100 % of what?", frame)


def test_a_table_is_written_for_programs_and_for_people(tmp_path: Path) -> None:
    text = write.write(table(), "quick", tmp_path)
    assert "**F. 100 % of what? — quick budget; n = 1 to 3; [95 % interval]; (the chapter's)**" in text
    assert "| a & b_c | 40.00 [37.52, 42.48] (38.07) | 477,696" in text and "| 1,234.50" in text
    assert "variant" not in text
    frame = pd.read_csv(tmp_path / "mine.csv")
    assert list(frame) == ["row", "variant", "ppl", "ppl_n", "ppl_low", "ppl_high", "ppl_chapter", "parameters", "note"]
    latex = (tmp_path / "mine.tex").read_text()
    assert r"a \& b\_c" in latex and r"\toprule" in latex and r"100 \% of what?" in latex


def test_a_bar_in_a_label_begins_no_column(tmp_path: Path) -> None:
    text = write.write(dataclasses.replace(table(), frame=table().frame.assign(row="one | two")), "quick", tmp_path)
    assert r"| one \| two" in text and {line.replace(r"\|", "").count("|") for line in text.splitlines()[2:]} == {5}


def test_latex_compiles_where_there_is_one(tmp_path: Path) -> None:
    """A table with all that TeX minds, and every table of the chapter as it is committed."""
    if shutil.which("pdflatex") is None:
        unavailable("no pdflatex here")
    write.write(table(), "quick", tmp_path)
    written = sorted((PROJECT / "reports" / "chapter" / "tables").glob("*.tex"))
    assert len(written) > 20
    for file in written:
        shutil.copy(file, tmp_path)
    inputs = "\n".join(rf"\input{{{file.stem}}}\clearpage" for file in [Path("mine.tex"), *written])
    document = "\n".join(
        [r"\documentclass{article}", r"\usepackage{booktabs}", r"\begin{document}", inputs, r"\end{document}"]
    )
    (tmp_path / "all.tex").write_text(document)
    subprocess.run(["pdflatex", "-halt-on-error", "all.tex"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (math.nan, ""), (0.0, "0"), (59.714, "59.71"), (1234.5, "1,234.50"), (0.04975, "0.0498"),
     (5.96e-8, "5.96e-08"), (477_696, "477,696"), ("out of memory", "out of memory")],
)  # fmt: skip
def test_numbers_as_people_read_them(value: Any, shown: str) -> None:
    assert number(value) == shown


def test_measurements_become_tables(tmp_path: Path) -> None:
    rows = [
        {"row": "d = 4", "variant": "d_4", "variance": 4.01, "seeds": [1.0, 2.0, 3.0]},
        {"row": "x", "variant": "x"},
    ]
    (tmp_path / "m.json").write_text(json.dumps([{"name": "dot", "caption": "C.", "rows": rows}]))
    (found,) = measured.measured_tables(tmp_path, {"dot": {"d_4": {"variance": 3.975}}})
    assert found.frame["variance_chapter"].tolist()[0] == 3.975
    assert found.frame["seeds"].tolist()[0] == 2.0 and found.frame["seeds_n"].tolist()[0] == 3
    assert "4.01 (3.98)" in write.write(found, "quick", tmp_path)


@pytest.mark.parametrize("file", readme.FILES)
def test_the_numbers_in_readme_and_findings_are_those_of_the_reports(file: str) -> None:
    text = (PROJECT / file).read_text()
    assert readme.BLOCK.search(text) and readme.filled(text) == text


def test_studies_of_ones_own_come_after_the_chapters() -> None:
    captions = ["M. Last?", "How many heads?", "A. First?", "E.g. not a section"]
    letters = [section_of(caption) for caption in captions]
    assert letters == ["M", "", "A", ""] and sorted(letters, key=by_section) == ["A", "M", "", ""]


def test_a_probe_that_a_run_does_not_have_is_an_empty_cell(tmp_path: Path) -> None:
    """As in a variant of `scale` without attention, or of one that ended before its first reading."""
    (tmp_path / "history.csv").write_text("step,train_loss,block1/entropy\n0,7.0,\n")
    frame = runs(none=[("done", 50.0)]).assign(folder=tmp_path)
    table = studies.collapse(STUDY, frame, CHAPTER)
    assert table.frame[["entropy_start", "score_std_end"]].isna().all(axis=None) and len(table.frame) == 1
