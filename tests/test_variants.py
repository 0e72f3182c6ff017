"""Files of variants: their order, and those that are refused."""

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


def test_rows_named_by_numbers_are_told_to_be_quoted(project: Path, run: Command) -> None:
    (project / "conf/study/heads.yaml").write_text(
        "# @package _global_\nstudy: {name: heads, section: F, question: q, rows: {4: four}}\n"
    )
    (project / "conf/variant/heads").mkdir()
    (project / "conf/variant/heads/4.yaml").write_text("# @package _global_\ndefaults: [/study/heads, _self_]\n")
    found = run("ablations.plan", "study=heads")
    assert found.returncode == 2 and "study.rows: heads names 4; allowed: a text, as '4' in quotes is" in found.stderr
