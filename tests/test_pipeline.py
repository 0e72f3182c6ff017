"""The whole pipeline by a real `dvc repro`, in a repository of its own with a short text and tiny lengths."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ablations.report import plots_page
from tests.conftest import TEXT, add_mixer, environment_of, params_for_a_text
from tests.repository import bits, committed, copied

TINY = "# @package _global_\nbudget: {}\nlengths: {{long: 6, short: 5, deep: 2, warmup: 2, probe: 3}}\n"
STUDIES = ("ladder", "depth", "scale")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a git repository, about another text and with three studies, run once from nothing."""
    root = tmp_path_factory.mktemp("pipeline") / "project"
    copied(root)
    params = params_for_a_text().partition("studies:")[0]
    (root / "params.yaml").write_text(f"{params}studies: {{{': 1, '.join(STUDIES)}: 1}}\n")
    for budget in ("chapter", "quick"):
        (root / f"conf/budget/{budget}.yaml").write_text(TINY.format(budget))
    committed(root)
    repro(root)
    return root


def repro(root: Path, *arguments: str, code: int = 0) -> str:
    """`dvc repro`, in a shell that has this environment's `python` first; what it said."""
    environment = environment_of(root, LAUNCHER="joblib")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["dvc", "repro", *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(root: Path, budget: str = "chapter") -> dict[str, bytes]:
    return bits(root / "results" / budget)


def times(root: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in (root / "results").rglob("run.json")}


def test_from_a_text_to_tables(repository: Path) -> None:
    assert json.loads((repository / "data/tokens/meta.json").read_text())["characters"] == len(TEXT)
    assert len(results(repository)) == 2 * 17
    for name in (*STUDIES, "collapse", "one_operation"):
        for suffix in ("csv", "md", "tex"):
            assert (repository / f"reports/chapter/tables/{name}.{suffix}").stat().st_size > 100
    table = pd.read_csv(repository / "reports/chapter/tables/ladder.csv")
    assert table["variant"].tolist() == ["head_replaces", "head_added", "four_heads", "feedforward", "layer_norm"]
    assert table["heldout_perplexity"].notna().all() and (table["heldout_perplexity_n"] == 1).all()
    assert table["heldout_perplexity_low"].isna().all() and table["heldout_perplexity_chapter"].iloc[-1] == 38.07
    record = json.loads(results(repository)["ladder/four_heads/seed-0/run.json"])
    assert table["heldout_perplexity"][2] == pytest.approx(record["metrics"]["heldout_perplexity"])


def test_nothing_to_do_does_nothing(repository: Path) -> None:
    before = times(repository)
    assert "Data and pipelines are up to date." in repro(repository)
    assert times(repository) == before


def test_edits_that_change_no_run_train_nothing(repository: Path) -> None:
    """A comment in the model, a docstring in training, a comment in another study's file."""
    before = times(repository)
    model = repository / "src/ablations/model/mixer/attention.py"
    model.write_text(model.read_text() + "\n# a thought\n")
    training = repository / "src/ablations/training/module.py"
    training.write_text(training.read_text().replace('"""One run\'s optimisation.', '"""The optimisation of a run.'))
    assert "The optimisation of a run." in training.read_text()
    config = repository / "conf/study/norm.yaml"
    config.write_text(config.read_text() + "# another study's\n")
    said = repro(repository)
    assert "Running stage 'plan'" in said and "Running stage 'train" not in said
    assert "Running stage 'measure" not in said
    assert times(repository) == before


def test_an_edit_retrains_what_it_touches(repository: Path) -> None:
    """A feed-forward network twice as wide by default: of the ladder's five rows, three have none."""
    config = repository / "conf/model/feedforward/gelu.yaml"
    before, text = times(repository), config.read_text()
    config.write_text(text.replace("4.0", "2.0"))
    said = repro(repository)
    changed = {Path(file).parts[-3] for file, time in times(repository).items() if before[file] != time}
    assert changed == {"feedforward", "layer_norm", "one_block", "two_blocks"}
    assert "Running stage 'train@ladder'" in said and "Running stage 'train@scale'" not in said
    config.write_text(text)
    repro(repository)


def test_an_edit_of_ones_own_text_is_noticed(repository: Path) -> None:
    text = repository / "mine.txt"
    text.write_text(TEXT + "a word more")
    assert "Running stage 'corpus'" in repro(repository, "--dry")
    text.write_text(TEXT)
    assert "Data and pipelines are up to date." in repro(repository)


def test_a_removed_run_comes_back_with_the_same_bits(repository: Path) -> None:
    before, bits = times(repository), results(repository)
    shutil.rmtree(repository / "results/chapter/scale/short_256_divided")
    said = repro(repository)
    (trained,) = (line for line in said.splitlines() if line.startswith("done"))
    assert trained.startswith("done     scale/short_256_divided")
    assert "Stage 'tables' didn't change, skipping" in said
    assert results(repository) == bits
    changed = {Path(file).parts[-3] for file, time in times(repository).items() if before[file] != time}
    assert changed == {"short_256_divided"}


def test_a_seed_more_trains_only_the_new_runs(repository: Path) -> None:
    before = times(repository)
    params = repository / "params.yaml"
    params.write_text(params.read_text().replace("seeds: 1", "seeds: 2"))
    repro(repository)
    after = times(repository)
    assert {file: after[file] for file in before} == before and len(after) == 2 * len(before)
    table = pd.read_csv(repository / "reports/chapter/tables/ladder.csv")
    assert (table["heldout_perplexity_n"] == 2).all()
    assert (table["heldout_perplexity_low"] < table["heldout_perplexity"]).all()
    assert (table["heldout_perplexity_high"] > table["heldout_perplexity"]).all()


def test_dvc_shows_something_useful_and_asks_no_network(repository: Path) -> None:
    def dvc(*arguments: str) -> str:
        environment = environment_of(repository)
        done = subprocess.run(["dvc", *arguments], cwd=repository, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    plots_page.main(repository / ".venv" / "plots.html")
    shown = json.loads(dvc("metrics", "show", "--json"))[""]["data"]["reports/chapter/metrics.json"]["data"]
    table = pd.read_csv(repository / "reports/chapter/tables/ladder.csv").set_index("variant")
    assert shown["ladder"]["layer_norm"] == pytest.approx(table.loc["layer_norm", "heldout_perplexity"], abs=1e-4)
    assert "claims.INCONCLUSIVE" in dvc("metrics", "diff", "--all")
    assert "ladder.layer_norm" in dvc("exp", "show", "--csv")
    page = repository / "plots"
    dvc("plots", "show", "-o", str(page))
    html = (page / "index.html").read_text()
    assert 'src="http' not in html and "vegaEmbed" in html and "one head of width 128" in html
    shutil.rmtree(page)
    shutil.rmtree(repository / ".venv")


def test_a_study_of_ones_own_takes_no_python(repository: Path) -> None:
    """A study file, two variant files, a line in params.yaml: a table, a section of the page, charts, three seeds."""
    before = times(repository)
    for file, text in OWN.items():
        (repository / "conf" / file).parent.mkdir(exist_ok=True)
        (repository / "conf" / file).write_text(f"# @package _global_\n{text}")
    params = repository / "params.yaml"
    params.write_text(params.read_text().replace("scale: 1}", "scale: 1, mine: 3}"))
    repro(repository)
    after = times(repository)
    assert {file: after[file] for file in before} == before and len(after) == len(before) + 6
    table = pd.read_csv(repository / "reports/chapter/tables/mine.csv")
    assert table["row"].tolist() == ["narrow", "wide"] and (table["heldout_perplexity_n"] == 3).all()
    assert table["difference_from_baseline_low"].notna().tolist() == [False, True] and "p_holm" in table
    page = (repository / "reports/chapter/index.html").read_text()
    assert "How wide" in page and "mine_rows" in page and "mine_training" in page
    assert (repository / "reports/chapter/figures/mine_rows.svg").exists()


OWN = {
    "study/mine.yaml": "study: {name: mine, question: How wide, baseline: narrow, rows: {narrow: narrow, wide: wide}}",
    "variant/mine/narrow.yaml": "defaults: [/study/mine, _self_]\nmodel: {width: 16}\n",
    "variant/mine/wide.yaml": "defaults: [/study/mine, _self_]\nmodel: {width: 32}\n",
}


def test_another_budget_leaves_the_repository_as_it_was(repository: Path) -> None:
    """`make quick`, with an environment that is set up already."""
    subprocess.run(["git", "add", "--all"], cwd=repository, check=True)
    before = subprocess.run(["git", "status", "--short"], cwd=repository, capture_output=True, text=True).stdout
    venv = repository / ".venv"
    venv.symlink_to(Path(sys.prefix), target_is_directory=True)
    environment = environment_of(repository, LAUNCHER="joblib")
    said = []
    for _ in range(2):
        made = subprocess.run(
            ["make", "quick", "--assume-old=.venv/.ready", "--assume-old=requirements.lock"],
            cwd=repository, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        said.append(made.stdout + made.stderr)
    assert len(results(repository, "quick")) == 2 * 2 * (17 + 2), "as many seeds of `mine`, which asks for 3, as of all"
    assert "layer_norm" in said[0] and "+ LayerNorm" in said[0] and "quick budget; n = 2; [95 % interval]" in said[0]
    assert "up to date" in said[1] and "Running stage" not in said[1] and "quick budget" in said[1]
    after = subprocess.run(["git", "status", "--short"], cwd=repository, capture_output=True, text=True).stdout
    assert after == before


def test_a_failed_run_fails_the_command_and_is_shown(repository: Path) -> None:
    """The stage fails, the others go on, and the table made from what is there names the run."""
    from tests.test_commands import BROKEN_MIXER

    add_mixer(repository, "broken", BROKEN_MIXER)
    variant = "# @package _global_\ndefaults:\n  - /study/depth\n  - override /model/mixer: broken\n"
    (repository / "conf/variant/depth/broken.yaml").write_text(variant)
    said = repro(repository, "--keep-going", code=255)
    assert "failed: depth/broken seed 0: RuntimeError: it broke" in said
    report = [sys.executable, "-m", "ablations.report.tables"]
    subprocess.run(report, cwd=repository, env=environment_of(repository), check=True)
    assert "2 of 2 failed" in (repository / "reports/chapter/tables/README.md").read_text()
    table = pd.read_csv(repository / "reports/chapter/tables/depth.csv")
    assert table["variant"].tolist() == ["one_block", "two_blocks", "broken"]
    assert table["heldout_perplexity_n"].tolist() == [2, 2, 0] and table["note"].iloc[2] == "2 of 2 failed"
