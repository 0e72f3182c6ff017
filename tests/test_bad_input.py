"""Bad configs, by the hundreds: each one line and exit code 2, nothing trained, nothing overwritten."""

import copy
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from tests.bad_input import CASES, Case
from tests.conftest import Command
from tests.warm import Warm, refused, written


@pytest.fixture
def warm(project: Path) -> Iterator[Warm]:
    # records that would be set aside if they were but looked at
    for cell in ("depth/own", "norm/post", "depth/one_block", "coreference/easy_average"):
        (project / "results/quick" / cell / "seed-0").mkdir(parents=True)
        (project / "results/quick" / cell / "seed-0/run.json").write_text("mine")
    commands = Warm(project)
    yield commands
    commands.close()


MORE = int(os.environ.get("BAD_INPUT_EXAMPLES", "0"))  # to look for faults: so many, other ones each time


def tried(cases: Any, examples: int, amiss: Callable[[Case], str]) -> int:
    """Draws cases, each once, and fails with what is amiss with them. Returns how many they were."""
    seen: set[Case] = set()
    faults: list[str] = []

    @settings(
        max_examples=MORE or examples,
        derandomize=not MORE,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def try_it(case: Case) -> None:
        if case not in seen and (fault := amiss(case)):
            faults.append(f"{case}\n  {fault}")
        seen.add(case)

    try_it()
    assert not faults, f"{len(faults)} of {len(seen)}:\n" + "\n".join(faults)
    return len(seen)


def test_bad_configs_are_refused(warm: Warm) -> None:
    before = written(warm.project)

    def amiss(case: Case) -> str:
        for name, content in case.files:
            (warm.project / name).write_bytes(content)
        quick = () if any(argument.startswith("budget=") for argument in case.arguments) else ("budget=quick",)
        told = warm("ablations.train", *case.arguments, *quick)
        for name, _ in case.files:
            (warm.project / name).unlink()
        fault = refused(told, case.names)
        if written(warm.project) != before:
            fault += "; wrote something"
            before.clear()
            before.update(written(warm.project))
        return f"{fault}: {told}" if fault else ""

    assert tried(CASES, 230, amiss) >= 200


COLD = (
    ("steps=0", "steps: 0; allowed: a whole number from 1"),
    ("optimizer.lr=nan", "optimizer.lr: nan; allowed: a number above 0"),
    ("model.widht=64", "model.widht: not known; allowed: model.blocks, model.width"),
    ("model.mixer.heads=3", "model.mixer.heads: 3 does not divide the width 128; allowed: 1, 2, 4"),
    ("model.mixer._target_=os.system", "model.mixer._target_: os.system; allowed: a class below ablations."),
    ("variant=../x/y", "variant: ../x/y is not known; allowed: averages/"),
    ("model.width=65536", "weights; allowed: what fits in"),
    ("data.batch=2147483647", "data.batch: 2147483647; allowed: what fits in"),
    ("logger.project=${oc.env:HOME}", "logger.project: ${oc.env:HOME}; allowed: a value"),
    ("steps=4\nx", "steps"),
    (
        "hydra.searchpath=[pkg://antigravity]",
        "hydra.searchpath=[pkg://antigravity]: not taken; allowed: hydra/launcher",
    ),
    ("steps=[1", "allowed: key=value"),
    ("--nope", "unrecognized arguments: --nope; allowed: key=value"),
)


@pytest.mark.parametrize(("argument", "says"), COLD, ids=[argument for argument, _ in COLD])
def test_a_command_from_its_start_refuses_within_five_seconds(
    run: Command, project: Path, argument: str, says: str
) -> None:
    took = []
    while not took or (took[-1] > 5 and len(took) < 3):  # others may be at work on this machine
        began = time.perf_counter()
        found = run("ablations.train", argument, "budget=quick")
        took.append(time.perf_counter() - began)
    assert found.returncode == 2 and found.stdout == "" and says in found.stderr, found.stderr
    assert len(found.stderr.splitlines()) == 1 and len(found.stderr) < 400 and took[-1] < 5
    assert not [f for name in ("results", "wandb", ".work") for f in (project / name).rglob("*") if f.is_file()]


LONG = "x" * 5000
COMMANDS = {
    "plan": """study=../x study= study=ladder,depth budget=../budget/quick budget= budget=nope budget=${oc.env:HOME}
        budget=null budget=[a] budget=quick,chapter seeds=-1 seeds=1.5 seeds=nan seeds=² seeds=0 seeds=1000000 seeds=
        format= format=JSON time=maybe out= out=params.yaml study = +x --help budget=*""",
    "generate": """run=nope run= run=/etc run=params.yaml run=conf tokens=many tokens=1e3 temperature=hot top_k=²
        top_p=x seed=-1 seed=1e400 cache=maybe colour=red prompt run --help""",
    "account": "nope.json conf params.yaml --nope a.json\0b.json",
    "report.tables": "budget=../quick budget= budget=nope budget=. budget=.. budget colour=red --help",
    "report.page": "budget=../quick budget= budget=nope colour=red",
    "report.sweep": "budget=../quick budget= budget=nope match=[ match= match colour=red",
    "report.claims.__main__": "budget=../quick budget= budget=nope record=maybe out colour=red",
    "report.readme": "budget=quick --help",
}


def test_the_other_commands_refuse_what_they_do_not_know(warm: Warm) -> None:
    before = written(warm.project)
    for module, texts in COMMANDS.items():
        key = texts.split("=")[0].split()[-1]
        for argument in [
            *texts.split(),
            "",
            "=",
            LONG,
            f"{key}={LONG}",
            f"{key}=a\nb",
            f"{key}=\x1b[31m",
            f"{key}=\udcff",
        ]:
            prompt = ["prompt=x"] if module == "generate" and argument.startswith("run") else []
            told = warm(f"ablations.{module}", *argument.split("\0"), *prompt)
            assert not refused(told), (module, argument, told)
    assert written(warm.project) == before


GPT2 = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 9, "n_positions": 4}
BAD_JSON = ["", "{", "[]", "5", "null", "[" * 10**5, '{"model_type": 5}', '{"model_type": ["gpt2"]}', "\ud800", "NaN"]
BAD_JSON += [json.dumps(GPT2 | {key: value}) for key in GPT2 for value in (None, "x", -1, 0, 1.5, True, [])]
BAD_JSON += [json.dumps(GPT2 | {"n_embd": size}) for size in (10**18, 10**400, 10**4000)]


def test_a_configuration_that_is_none_is_told(warm: Warm) -> None:
    file = warm.project / "mine.json"
    for text in BAD_JSON:
        file.write_text(text, errors="surrogatepass")
        told = warm("ablations.account", "mine.json")
        assert not refused(told), (text[:100], told)
    file.write_text(json.dumps(GPT2))
    assert warm("ablations.account", "mine.json")["code"] == 0


BAD_VALUES = (None, "many", "", -1, 0, 1.5, True, [], [1], {"a": 1}, float("nan"), "${oc.env:HOME}", "${nope}", 10**30)
PARAMETERS = {
    "seeds": [*BAD_VALUES],
    "studies.ladder": [*BAD_VALUES],
    "studies": [value for value in BAD_VALUES if value != {"a": 1}],
    "corpus.path": [value for value in BAD_VALUES if value != "many"],
    "corpus.sha256": [value for value in BAD_VALUES if value not in (None, "many")],
    "corpus": [*BAD_VALUES],
    "tokenizer": [*BAD_VALUES],
    "tokenizer.vocabulary": [value for value in BAD_VALUES if type(value) is not int],
    "sedes": [1],
    "studies.nope": [1],
    "studies./../x": [1],
    "corpus.pth": ["x"],
    "tokenizer.vocabluary": [300],
}
WHOLE_FILES = (
    b"",
    b"[1]",
    b"seeds: {",
    b"\xff",
    b"\0",
    b"seeds: 1\nseeds: 2",
    b"- seeds",
    b"!!python/name:os.system",
    b"5",
)


def test_a_damaged_params_file_is_told(warm: Warm) -> None:
    file = warm.project / "params.yaml"
    as_it_is = yaml.safe_load(file.read_text())
    whole = [Case((), files=(("params.yaml", text),)) for text in WHOLE_FILES]
    for field, values in PARAMETERS.items():
        for value in values:
            params = copy.deepcopy(as_it_is)
            section, _, key = field.partition(".")
            if key:
                params[section][key] = value
            else:
                params[section] = value
            text = yaml.safe_dump(params, allow_unicode=True).encode()
            whole.append(Case((), field.rpartition(".")[2], (("params.yaml", text),)))
    for case in whole:
        file.write_bytes(case.files[0][1])
        told = warm("ablations.plan", "budget=quick", "time=no")
        assert not refused(told, case.names), (case, told)


@pytest.mark.parametrize(
    "text", ["", "[1]", "seeds: {", "studies: 5", "studies: depth", "studies: []", "studies: {depth: 0}", "seeds: x"]
)
def test_a_params_file_that_is_none_is_told(run: Command, project: Path, text: str) -> None:
    (project / "params.yaml").write_text(text)
    found = run("ablations.plan")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr


def test_a_damaged_plan_is_told(warm: Warm) -> None:
    (warm.project / "plans/quick").mkdir(parents=True)
    for text in ("{}", "[]", "5", "", "{", '{"study": 5, "runs": 5}', '{"study": {}, "runs": [{}]}'):
        (warm.project / "plans/quick/depth.json").write_text(text)
        for module in ("report.tables", "report.claims.__main__", "report.page"):
            told = warm(f"ablations.{module}", "budget=quick")
            assert not refused(told, "plans/quick"), (text, told)
