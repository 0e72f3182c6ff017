"""Files of variants: their order, and those that are refused."""

import re
import shutil
from pathlib import Path

import pytest

from ablations.settings import InputError
from ablations.study import variants
from tests.conftest import PROJECT, Command


def test_variants_of_a_study_are_its_rows_then_further_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variants.variants("ladder") == ["head_replaces", "head_added", "four_heads", "feedforward", "layer_norm"]
    shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    monkeypatch.setattr(variants, "CONF", tmp_path / "conf")
    (tmp_path / "conf/variant/ladder/another.yaml").write_text("# @package _global_\n")
    assert variants.variants("ladder")[-2:] == ["layer_norm", "another"]
    (tmp_path / "conf/variant/ladder/four_heads.yaml").unlink()
    with pytest.raises(InputError, match=r"study\.rows: ladder names four_heads"):
        variants.variants("ladder")
    with pytest.raises(InputError, match="study: nope; allowed: averages, "):
        variants.variants("nope")


ODD_VARIANTS = {
    "empty": "",
    "no package": "model: {blocks: 2}\n",
    "another study": "# @package _global_\ndefaults: [/study/norm]\n",
    "a list": "- 1\n- 2\n",
    "malformed": "model: {a: [\n",
    "no such study": "# @package _global_\ndefaults: [/study/nope]\n",
    "misspelt": "# @package _global_\ndefaults: [/study/depth, _self_]\nstepz: 4\n",
}


@pytest.mark.parametrize("text", ODD_VARIANTS.values(), ids=ODD_VARIANTS)
def test_a_variant_file_that_is_none_is_told(run: Command, project: Path, text: str) -> None:
    (project / "conf/variant/depth/odd.yaml").write_text(text)
    found = run("ablations.plan", "study=depth")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr
    assert "odd" in found.stderr or "stepz" in found.stderr or "nope" in found.stderr


WHOLE = "# @package _global_\ndefaults: [/study/depth, _self_]\nmodel: {blocks: 3}\n"


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "depth/three.yaml",
            f"# my idea\n{WHOLE}",
            "variant: depth/three; allowed: a file whose first line is '# @pack",
        ),
        ("depth/three.yaml", WHOLE.partition("\n")[2], "variant: depth/three; allowed: a file whose first line is"),
        ("depth/three.yaml", f"\ufeff{WHOLE}", "variant: depth/three; allowed: a file whose first line is"),
        ("depth/three.yaml", f"{WHOLE}budget: chapter\n", "budget: chapter; allowed: quick, as the command asks for"),
        ("depth/.#three.yaml", WHOLE, "variant: conf/variant/depth/.#three.yaml; allowed: conf/variant/<study>/<name>"),
        ("depth/three (copy).yaml", WHOLE, "variant: conf/variant/depth/three (copy).yaml; allowed: conf/variant/"),
        ("depth/three.yml", WHOLE, "variant: conf/variant/depth/three.yml; allowed: conf/variant/"),
        ("depth/more/three.yaml", WHOLE, "variant: conf/variant/depth/more/three.yaml; allowed: conf/variant/"),
    ],
)
def test_a_variant_that_would_change_nothing_is_refused(
    run: Command, project: Path, file: str, text: str, says: str
) -> None:
    """Else it would be trained as what it is not, or be passed over, without a word."""
    written = project / "conf/variant" / file
    written.parent.mkdir(exist_ok=True)
    written.write_text(text)
    for command in (("ablations.plan", "study=depth"), ("ablations.train", "-m", "+variant/depth=glob(*)")):
        found = run(*command, "budget=quick")
        assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and says in found.stderr, found.stderr
    assert not (project / "results").exists()


@pytest.mark.parametrize("name", ["4", "0.10", "1e3", "1_000", "true", "Null", "nan"])
def test_a_variant_named_like_a_value_is_refused(project: Path, run: Command, name: str) -> None:
    """Hydra would take the name for a number, or the like, where a sweep names it."""
    (project / "conf/study/heads.yaml").write_text(
        f"# @package _global_\nstudy: {{name: heads, section: F, question: q, rows: {{{name}: four}}}}\n"
    )
    (project / "conf/variant/heads").mkdir()
    (project / f"conf/variant/heads/{name}.yaml").write_text("# @package _global_\ndefaults: [/study/heads, _self_]\n")
    found = run("ablations.plan", "study=heads")
    assert found.returncode == 2 and f"variant: conf/variant/heads/{name}.yaml; allowed: " in found.stderr
    assert "no number or other value" in found.stderr and len(found.stderr.splitlines()) == 1


def test_names_with_digits_are_none_of_these(project: Path) -> None:
    for name in ("four_heads", "4_heads", "d_k-32", "1e3x", "nan_free", "2.5x", "e3"):
        assert not variants.VALUE.fullmatch(name)


def test_what_tools_leave_lying_about_is_passed_over(project: Path, run: Command) -> None:
    """A notebook's copies, and an editor's lock, which is a link to nowhere."""
    (project / "conf/variant/depth/.ipynb_checkpoints").mkdir()
    (project / "conf/variant/depth/.ipynb_checkpoints/one_block-checkpoint.yaml").write_text(WHOLE)
    (project / "src/ablations/.#train.py").symlink_to("me@host.1:2")
    found = run("ablations.plan", "study=depth", "budget=quick", "time=no")
    assert found.returncode == 0 and "checkpoint" not in found.stdout, found.stderr


def test_the_name_of_sweeps_by_hand_is_taken(project: Path, run: Command) -> None:
    (project / "conf/study/sweep.yaml").write_text("# @package _global_\nstudy: {name: sweep}\n")
    found = run("ablations.train", "budget=quick")
    assert found.returncode == 2 and "study: conf/study/sweep.yaml; allowed: another name" in found.stderr


def test_a_kept_plan_that_was_altered_is_made_anew(project: Path, run: Command) -> None:
    plan = ("ablations.plan", "study=depth", "budget=quick", "time=no", "format=json")
    first = run(*plan)
    kept = project / ".work/plan/quick-depth.json"
    for altered in (
        kept.read_text().replace('"blocks": 1', '"blocks": 3'),
        re.sub(r'"runs": \[.*\]', '"runs": []', kept.read_text()),
    ):
        assert altered != kept.read_text()
        kept.write_text(altered)
        assert run(*plan).stdout == first.stdout
