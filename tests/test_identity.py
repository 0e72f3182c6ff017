"""What a run is, what it is called, and what is refused before any is trained."""

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

from ablations import train
from ablations.settings import InputError
from ablations.study import compose
from ablations.study.compose import Run
from ablations.study.fingerprint import code_hash, sources
from ablations.study.variants import variants
from tests.conftest import PROJECT, Command


@pytest.fixture(autouse=True)
def hydra() -> Iterator[None]:
    with compose.hydra():
        yield


@pytest.fixture
def tokens(longer_tokens: Path) -> str:
    return f"runtime.tokens={longer_tokens}"


def composed(tokens: str, *overrides: str) -> Run:
    return compose.composed([*overrides, tokens])


def test_names_devices_and_loggers_are_not_in_the_identity(tokens: str, longer_tokens: Path, tmp_path: Path) -> None:
    shutil.copytree(longer_tokens, tmp_path / "elsewhere")
    plain = composed(tokens, "variant=depth/one_block").fingerprint
    for same in (
        ["variant=ladder/layer_norm"],
        ["variant=depth/one_block", "logger=none", "runtime=gpu", "runtime.threads=2"],
        ["variant=depth/one_block", "runtime.results=/elsewhere", "runtime.checkpoint_every=7"],
        ["variant=depth/one_block", "budget=quick", "steps=3000", "probe.every=50"],
        ["model.mixer.heads=4"],
    ):
        assert composed(tokens, *same).fingerprint == plain
    assert composed(f"runtime.tokens={tmp_path / 'elsewhere'}", "variant=depth/one_block").fingerprint == plain


def test_all_science_is_in_the_identity(tokens: str) -> None:
    changes = [
        [], ["seed=1"], ["steps=2999"], ["budget=quick"], ["precision=bf16"], ["probe.every=10"], ["data.batch=32"],
        ["data.window=64"], ["data.also_at=[256]"], ["model.blocks=2"], ["model.width=64"], ["model.residual=false"],
        ["model.mixer.d_k=16"], ["model.mixer.scaled=false"], ["model/mixer=head"], ["model/position=rotary"],
        ["model.norm.placement=post"], ["model/feedforward=none"], ["model.dropout=0.1"], ["optimizer.lr=2e-3"],
        ["optimizer.clip=1"], ["schedule.warmup=10"], ["divergence=5"],
    ]  # fmt: skip
    found = {composed(tokens, *change).fingerprint for change in changes}
    assert len(found) == len(changes)


def test_other_data_is_another_identity(tokens: str, tmp_path: Path) -> None:
    from ablations.data import tokenizer

    tokenizer.write("quite another text " * 400, 300, tmp_path / "tokens")
    assert composed(tokens).fingerprint != composed(f"runtime.tokens={tmp_path / 'tokens'}").fingerprint


def test_code_counts_and_its_looks_do_not() -> None:
    plain = 'def f(x):\n    """Doc."""\n    return x + 1\n'
    assert code_hash(plain) == code_hash("# why\ndef f(x):  # what\n\n    'Other.'\n    return (x\n            + 1)\n")
    assert code_hash(plain) == code_hash("def f(x):\n    return x + 1\n")
    for other in (
        "def f(x):\n    return x + 2\n",
        "def f(y):\n    return y + 1\n",
        "def f(x, y=0):\n    return x + 1\n",
    ):
        assert code_hash(plain) != code_hash(other)


def test_a_run_hangs_on_the_source_that_it_imports_and_on_no_other() -> None:
    average = sources(["ablations.training.run", "ablations.model.mixer.average", "ablations.data.windows"])
    assert {"ablations.training.probes", "ablations.model.block", "ablations.model.mixer.average"} <= set(average)
    for absent in ("ablations.model.mixer.attention", "ablations.data.coreference", "ablations.data.tokenizer"):
        assert absent not in average
    assert not any(module.startswith(("ablations.study", "ablations.report")) for module in average)
    assert "ablations.model.position.base" in sources(["ablations.model.position.rotary"])


def test_the_chapters_study_shares_three_runs(tokens: str) -> None:
    prints = {
        name: composed(tokens, f"variant={name}").fingerprint
        for name in ("ladder/layer_norm", "depth/one_block", "ladder/head_added", "scale/head_128_divided",
                     "ladder/four_heads", "scale/heads_32_divided", "scale/heads_32_undivided")
    }  # fmt: skip
    assert prints["ladder/layer_norm"] == prints["depth/one_block"]
    assert prints["ladder/head_added"] == prints["scale/head_128_divided"]
    assert prints["ladder/four_heads"] == prints["scale/heads_32_divided"]
    assert len(set(prints.values())) == 4


def test_a_variant_keeps_its_name_and_a_changed_one_is_a_sweep(tokens: str) -> None:
    kept = composed(tokens, "variant=norm/post", "seed=2", "budget=quick", "logger=none")
    assert (kept.study, kept.variant, kept.seed, kept.budget) == ("norm", "post", 2, "quick")
    assert kept.folder.parts[-5:] == ("results", "quick", "norm", "post", "seed-2")
    assert composed(tokens, "+variant/norm=post").name == "norm/post seed 0"
    assert composed(tokens, "study=norm", "variant=norm/post").name == "norm/post seed 0"
    assert composed(tokens, "study=norm").study == composed(tokens, "study=norm", "seed=1").study == "sweep"
    changed = composed(tokens, "variant=norm/post", "optimizer.lr=1e-3")
    assert changed.study == "sweep" and changed.variant.startswith("norm-post_lr-1e-3-")
    assert composed(tokens).study == "sweep" and composed(tokens).variant.startswith("default-")


def test_sweep_names_are_one_per_config_and_the_same_for_all_seeds(tokens: str) -> None:
    overrides = [["model.residual=true"], ["model.residual=false"], ["model.mixer.d_k=32"], ["model.mixer.d_k=256"],
                 ["model.width=256"], ["optimizer.betas=[0.9,0.95]"], ["optimizer.betas=[0.8,0.95]"]]  # fmt: skip
    names = [composed(tokens, *o).variant for o in overrides]
    assert len(set(names)) == len(names)
    assert composed(tokens, "model.width=256", "seed=1").variant == composed(tokens, "model.width=256").variant
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") for name in names)


@pytest.mark.parametrize("overrides", [["variant=norm/post"], ["model.width=64", "+variant/depth=one_block"]])
def test_another_seed_of_a_run_is_what_would_be_composed(tokens: str, overrides: list[str]) -> None:
    """So a sweep over many seeds composes each variant once."""
    others, seed = compose.seed_of([*overrides, "seed=7"])
    assert list(others) == overrides and seed == 7
    assert compose.with_seed(composed(tokens, *others), 7) == composed(tokens, *overrides, "seed=7")
    for unclear in (["seed=x"], ["seed=-1"], ["++seed=1"], ["seed=1", "seed=2"], ["model.seed=1"], []):
        assert compose.seed_of([*overrides, *unclear])[1] is None


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("schedule.warmup=${seed}", "schedule.warmup: ${seed}"),
        ("data.batch=${..seed}", "data.batch: ${..seed}"),
        ("data.also_at=[64,'${seed}']", "data.also_at.1: ${seed}"),
        ("+study={name: mine, question: 'of ${seed}'}", "study.question: of ${seed}"),
        ("runtime.results=mine-${seed}", "runtime.results: mine-${seed}"),
    ],
)
def test_no_setting_hangs_on_the_seed(tokens: str, override: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        composed(tokens, override, "seed=8")
    assert str(caught.value) == f"{field}; allowed: the same for all seeds"


LONG_NAME = [f"{key}={value}" for key, value in {"model.width": 16, "model.mixer.heads": 4, "data.window": 16}.items()]


def test_two_settings_of_a_sweep_do_not_share_a_name(tokens: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """These two did, by the first six digits of their hashes. Where two still do, one line says so."""
    rest = ["budget=quick", "steps=20", *LONG_NAME, "data.batch=4", "probe.every=5", "schedule.warmup=2"]
    names = {composed(tokens, *rest, f"optimizer.lr={lr}").variant for lr in (0.006051, 0.006578)}
    assert len(names) == 2
    monkeypatch.setattr(compose, "DIGITS", 0)
    GlobalHydra.instance().clear()  # the command makes its own
    sweep = [*rest, "data.also_at=[32]", "optimizer.lr=1e-3,2e-3"]
    with pytest.raises(InputError, match=r"is another run already; allowed: one of the two at a time"):
        train._checked([*sweep, tokens], True)
    assert len(train._checked([*sweep[:-1], "seed=0,0,1", tokens], True)) == 3


def test_a_multirun_expands_as_hydra_does() -> None:
    jobs = compose.expand(
        ["model.mixer.d_k=32,256", "model.norm.placement=pre,post", "budget=quick", "hydra/launcher=basic"]
    )
    assert jobs == [
        [f"model.mixer.d_k={d}", f"model.norm.placement={p}", "budget=quick"]
        for d in (32, 256)
        for p in ("pre", "post")
    ]
    assert len(compose.expand(["+variant/ladder=glob(*)", "seed=range(0,3)"])) == 15


def test_a_sweep_of_no_run_is_told() -> None:
    for override in ("+variant/nope=glob(*)", "seed=range(0,0)"):
        with pytest.raises(InputError, match="stands for no run"):
            compose.expand([override])


def test_every_study_of_the_project_composes_and_can_be_built(tokens: str) -> None:
    from ablations.study.check import check

    studies = sorted(path.stem for path in (PROJECT / "conf" / "study").glob("*.yaml"))
    for study in studies:
        for variant in variants(study):
            run = composed(tokens, f"variant={study}/{variant}", "budget=quick")
            assert run.study == study and check(run.config) > 0
            assert copy.deepcopy(run.config["study"])["name"] == study


def test_seeds_are_paired(tokens: str) -> None:
    """Batch i is the same array for all variants of a study under a seed, and another under another."""
    from ablations.training.build import build_data

    def batches(variant: str, seed: int) -> list[Any]:
        data = build_data(composed(tokens, f"variant=ladder/{variant}", f"seed={seed}", "data.window=32").config)
        return [part for i in (0, 7) for part in data.batch(i)]

    first = batches("head_replaces", 1)
    for variant in variants("ladder"):
        assert all(torch.equal(a, b) for a, b in zip(first, batches(variant, 1)))
    assert not torch.equal(first[0], batches("head_replaces", 2)[0])


BAD = [
    ("steps=0", "steps: 0; allowed: a whole number from 1"),
    ("steps=-5", "steps: -5;"),
    ("steps=1.5", "steps: 1.5;"),
    ("steps=many", "steps: many;"),
    ("steps=null", "steps: None;"),
    ("steps=true", "steps: True;"),
    ("model.blocks=0", "model.blocks: 0; allowed: a whole number from 1"),
    ("model.mixer.d_k=0", "model.mixer.d_k: 0; allowed: a whole number from 1, or null"),
    ("model.mixer.d_k=-3", "model.mixer.d_k: -3;"),
    ("model.mixer.heads=3", "model.mixer.heads: 3 does not divide the width 128; allowed: 1, 2, 4, 8, 16, 32, 64, 128"),
    ("data.batch=0", "data.batch: 0; allowed: a whole number from 1"),
    ("data.window=10000000", "data.window: 10000000; allowed: 1 to"),
    ("model.norm.placement=middle", "model.norm.placement: middle; allowed: pre, post, none"),
    ("optimizer.lr=-1", "optimizer.lr: -1; allowed: a number above 0"),
    ("optimizer.lr=nan", "optimizer.lr: nan;"),
    ("optimizer.betas=[0.9]", "optimizer.betas: [0.9];"),
    ("precision=fp8", "precision: fp8; allowed: fp32, bf16"),
    ("seed=-1", "seed: -1;"),
    ("model.widht=64", "model.widht: not known; allowed: model.blocks, model.width,"),
    ("stepz=5", "stepz: not known; allowed: seed, steps, "),
    ("+model.mixer.depth=3", "model.mixer: Attention.__init__() got an unexpected keyword argument 'depth'"),
    ("model/mixer=nope", "model/mixer: nope is not known; allowed: average, eight, half_sliding, head, interleaved"),
    ("variant=ladder/nope", "variant/ladder: nope is not known; allowed: feedforward, four_heads,"),
    ("variant=nope/nope", "variant: nope/nope is not known; allowed: averages/average_added,"),
    ("+variant/ladder=nope", "variant/ladder: nope is not known;"),
    ("budget=huge", "budget: huge is not known; allowed: chapter, quick"),
    ("steps", "steps"),
    ("model.mixer._target_=os.system", "model.mixer._target_: os.system; allowed: a class below"),
    ("runtime.accelerator=tpu", "runtime.accelerator: tpu; allowed: cpu, gpu"),
    ("steps=${nope}", "nope"),
]
BAD += [
    ("model=null", "model=null "),
    ("steps=???", "steps: ???; allowed: a whole number from 1"),
    ("~seed", "seed: missing; allowed: a whole number from 0"),
    ("~probe.every", "probe.every: missing;"),
    ("~optimizer", "optimizer.lr: missing;"),
    ("probe=5", "probe.every: missing;"),
    ("data.tokens=null", "data.tokens: None; allowed: a path"),
    ("data.batch=99999999999999999999999999", "data.batch: 99999999999999999999999999;"),
    ("runtime.threads=4096", "runtime.threads: 4096; allowed: a whole number from 1 to 1024"),
    ("data._target_=ablations.model.nothing.nothing", "model: AttributeError"),
    ("model.position._target_=torch.nn.Identity", "model: "),
    ("+stepz=4", "stepz: not known; allowed: "),
    ("+optimizer.foo=1", "optimizer.foo: not known; allowed: lr, betas, eps, weight_decay, clip"),
    ("variant=../study/ladder", "variant: ../study/ladder; allowed: <study>/<name>"),
    ("budget=../x", "budget: ../x is not known; allowed: chapter, quick"),
]
TOGETHER = [
    (
        ["model/position=rotary", "model.mixer.d_k=33"],
        "model: d_k: 33; allowed: even, since columns are turned in pairs",
    ),
    (["model/mixer=multi_head", "model.mixer.project=false", "model.mixer.d_k=16"], "model.mixer.project: false needs"),
    (
        ["model/position=sinusoidal", "model.width=65", "model.mixer.heads=5"],
        "model.position.width: 65; allowed: an even",
    ),
]


@pytest.mark.parametrize(("overrides", "says"), TOGETHER)
def test_what_cannot_be_together_is_told_before_training(tokens: str, overrides: list[str], says: str) -> None:
    from ablations.study.check import check

    with pytest.raises(InputError) as caught:
        check(composed(tokens, *overrides).config)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("override", "says"), BAD)
def test_bad_input_is_one_line(tokens: str, override: str, says: str) -> None:
    from ablations.study.check import check

    with pytest.raises(InputError) as caught:
        check(composed(tokens, override).config)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("override", [BAD[0][0], "model.widht=1", "variant=ladder/nope", "data.window=10000000"])
def test_bad_input_ends_with_code_2_and_trains_nothing(run: Command, project: Path, override: str) -> None:
    for arguments in ([override, "budget=quick"], ["-m", f"{override}", "model.blocks=1,2", "budget=quick"]):
        found = run("ablations.train", *arguments)
        assert found.returncode == 2, found.stderr
        assert len(found.stderr.splitlines()) == 1 and found.stderr.startswith("error: ")
    assert not (project / "results").exists() and not (project / "wandb").exists()
