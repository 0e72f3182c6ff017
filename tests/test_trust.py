"""What is not trusted: classes that configs name, files that are loaded, names that become folders."""

import ast
import dataclasses
import hashlib
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.settings import InputError
from ablations.study import compose
from ablations.study.compose import Run
from ablations.study.ledger import Ledger
from ablations.study.trust import trusted
from ablations.training.resume import MARK, VerifiedCheckpointIO, usable
from tests.conftest import PROJECT, SMALL, Command, records
from tests.warm import Warm, refused, written

# Calls that run what they read, by the last parts of their names.
RUN_WHAT_THEY_READ = ("eval", "exec", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load")
RUN_WHAT_THEY_READ += ("yaml.full_load", "pd.read_pickle", "pandas.read_pickle", "joblib.load", "torch.hub.load")
PICKLES = ("pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal")


def test_no_source_runs_what_it_reads() -> None:
    found = []
    for file in sorted((PROJECT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                found += [(file, name) for name in names if name.partition(".")[0] in PICKLES]
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                bad = name in RUN_WHAT_THEY_READ or name.endswith(("load_from_checkpoint", ".read_pickle"))
                bad |= name == "torch.load" and given.get("weights_only") != "True"
                bad |= given.get("shell") not in (None, "False") or given.get("allow_pickle") not in (None, "False")
                found += [(file, ast.unparse(node))] if bad else []
    assert not found


SPY = """
from pathlib import Path

Path(__file__).with_suffix(".ran").touch()


class Spy:
    pass


SpyLauncher = Spy
"""
BY_TARGET = (
    "model.mixer._target_=spy.Spy",
    "data._target_=spy.Spy",
    "model._target_=spy.Spy",
    "+model.mixer.inner={_target_:spy.Spy}",
    "+model.inner=[{_target_:spy.Spy}]",
    "+study={name:{_target_:spy.Spy}}",
    "+probe.x={_target_:spy.Spy}",
    "hydra.launcher._target_=spy.SpyLauncher",
    "hydra/launcher=joblib ++hydra.launcher.batch_size={_target_:spy.Spy}",
    "hydra.sweeper._target_=spy.Spy",
    "+hydra.callbacks.x._target_=spy.Spy",
    "hydra.searchpath=[pkg://spy]",
    "-m seed=0,1 hydra.searchpath=[pkg://spy]",
    "--cfg=job hydra.searchpath=[pkg://spy]",
    "--info=all hydra.launcher._target_=spy.SpyLauncher",
    "variant=depth/spy",
)
IN_A_FILE = (
    "model: {mixer: {_target_: spy.Spy}}",
    "hydra: {launcher: {_target_: spy.SpyLauncher}}",
    "hydra: {callbacks: {x: {_target_: spy.Spy}}}",
    "hydra: {sweeper: {_target_: hydra_plugins.spy.Spy.Sweeper}}",
    "hydra: {job_logging: {handlers: {x: {(): spy.Spy}}}}",
)


def test_a_target_elsewhere_is_refused_before_it_is_imported(project: Path) -> None:
    (project / "src/spy.py").write_text(SPY)
    warm = Warm(project)
    own = project / "conf/variant/depth/spy.yaml"
    try:
        for number, text in enumerate([*IN_A_FILE, *(IN_A_FILE[0],) * len(BY_TARGET)]):
            own.write_text(f"# @package _global_\ndefaults: [/study/depth, _self_]\n{text}\n")
            arguments = "variant=depth/spy" if number < len(IN_A_FILE) else BY_TARGET[number - len(IN_A_FILE)]
            told = warm("ablations.train", *arguments.split(), "budget=quick")
            assert not refused(told), (text, arguments, told)
            assert not (project / "src/spy.ran").exists(), (text, arguments)
    finally:
        warm.close()


@pytest.mark.parametrize(
    "target",
    [
        *("torch.nn.RMSNorm", "torch.nn.Identity", "ablations.model.mixer.attention.Attention"),
        *("ablations.model.nothing.nothing", "ablations.data.windows.Windows"),
    ],
)
def test_parts_of_the_project_and_layers_of_torch_are_trusted(target: str) -> None:
    trusted({"model": {"mixer": {"_target_": target, "heads": 4}, "also": [{"_target_": target}]}})


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"_target_": "torch.load"}, "model._target_: torch.load; allowed: a class below ablations.data."),
        ({"_target_": "torch.nn.functional.torch.load"}, "model._target_"),
        ({"_target_": "torch.nn.modules.linear.Linear"}, "model._target_"),
        ({"_target_": "ablations.settings.os.system"}, "model._target_"),
        ({"_target_": "ablations.model.mixer.attention.torch.hub.load"}, "model._target_"),
        ({"_target_": "ablations.model.mixer.attention.F"}, "model._target_"),
        ({"_target_": "ablations.model.mixer.attention.Position"}, "model._target_"),
        ({"_target_": "ablations.train.main"}, "model._target_"),
        ({"_target_": ["ablations.data.windows.Windows"]}, "model._target_"),
        ({"parts": [1, {"x": {"_target_": "os.system"}}]}, "model.parts.1.x._target_: os.system"),
        ({"_args_": ["x"]}, "model._args_.0: not known"),
        ({"_partial_": True}, "model._partial_: not known"),
        ({"mixer": {"_convert_": "all"}}, "model.mixer._convert_: not known"),
    ],
)
def test_nothing_else_is_trusted(node: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        trusted({"model": node})
    assert str(caught.value).startswith(says)


def test_a_part_that_python_cannot_read_is_told(run: Command, project: Path) -> None:
    (project / "src/ablations/model/mixer/mine.py").write_text("class Mine(:\n")
    found = run("ablations.train", "model.mixer._target_=ablations.model.mixer.mine.Mine")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1
    assert "_target_: ablations.model.mixer.mine: invalid syntax" in found.stderr


class Payload:
    """What a pickle can do to whoever loads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_checkpoint_with_code_in_it_is_set_aside_and_not_run(tmp_path: Path) -> None:
    marker, file = tmp_path / "ran", tmp_path / "last.ckpt"
    content = pickle.dumps({"global_step": Payload(marker)}, protocol=2)
    file.write_bytes(MARK + hashlib.sha256(content).digest() + content)
    with pytest.raises(Exception, match=r"set aside as last\.ckpt\.corrupt"):
        usable(file)
    assert not usable(file) and (tmp_path / "last.ckpt.corrupt").exists() and not marker.exists()
    with pytest.raises(pickle.UnpicklingError):
        VerifiedCheckpointIO().load_checkpoint(tmp_path / "last.ckpt.corrupt")
    assert not marker.exists()


def test_code_in_the_files_of_a_run_is_not_run(run: Command, project: Path) -> None:
    """A checkpoint: the run is trained anew. Weights: there is nothing to generate from. A record: it is no run."""
    marker = project / "ran"
    small = [option for option in SMALL if not option.startswith("model.width")]
    assert run("ablations.train", *small).returncode == 0
    ((folder, record),) = records(project).items()
    work = project / ".work/runs" / record["fingerprint"]
    (work / "weights.pt").write_bytes(pickle.dumps(Payload(marker), protocol=2))
    found = run("ablations.generate", f"run=results/{folder}", "prompt=the")
    assert found.returncode == 2 and "weights.pt is damaged and set aside as weights.pt.corrupt" in found.stderr
    assert (work / "weights.pt.corrupt").exists() and not (work / "weights.pt").exists() and not marker.exists()
    shutil.rmtree(project / "results")
    content = pickle.dumps({"global_step": Payload(marker)}, protocol=2)
    (work / "last.ckpt").write_bytes(MARK + hashlib.sha256(content).digest() + content)
    found = run("ablations.train", *small)
    assert found.returncode == 0 and "set aside as last.ckpt.corrupt; trained anew" in found.stderr
    assert not marker.exists() and records(project)[folder]["fingerprint"] == record["fingerprint"]
    other = project / "downloaded"
    other.mkdir()
    (other / "run.json").write_text("mine")
    (other / "history.csv").write_text("mine")
    found = run("ablations.generate", "run=downloaded", "prompt=the")
    assert found.returncode == 2 and "run: downloaded is no finished run" in found.stderr
    assert (other / "run.json").read_text() == "mine"


@pytest.fixture
def a_run(small_tokens: Path, tmp_path: Path) -> Iterator[Run]:
    with compose.hydra():
        yield compose.composed(
            ["variant=depth/one_block", f"runtime.tokens={small_tokens}", f"runtime.results={tmp_path / 'results'}"]
        )


@pytest.mark.parametrize("depth", range(4))
def test_a_link_in_the_ledger_is_not_followed(a_run: Run, tmp_path: Path, depth: int) -> None:
    """`results/chapter`, the study, the variant, or the run's own folder leads elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    below = Path(*a_run.folder.relative_to(tmp_path / "results").parts[depth + 1 :])
    (elsewhere / below).mkdir(parents=True)
    (elsewhere / below / "run.json").write_text("mine")
    link = tmp_path / "results" / Path(*a_run.folder.relative_to(tmp_path / "results").parts[: depth + 1])
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    ledger = Ledger(tmp_path / "results")
    for touch in (lambda: ledger.status(a_run), lambda: ledger.write(a_run, "done", {}, {}, "", {})):
        with pytest.raises(InputError, match=r"runtime\.results: .* is a link; allowed: folders"):
            touch()
    assert ledger.twin(a_run) is None
    assert [file.read_text() for file in elsewhere.rglob("*") if file.is_file()] == ["mine"] and link.is_symlink()


def test_the_ledger_itself_may_be_a_link(a_run: Run, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    ledger = Ledger(tmp_path / "results")
    ledger.write(a_run, "done", {}, {}, "", {})
    assert ledger.status(a_run) == "done" and list((tmp_path / "disk").rglob("run.json"))
    (tmp_path / "disk" / ".part").rmdir()
    (tmp_path / "disk" / ".part").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"\.part is a link"):
        ledger.write(dataclasses.replace(a_run, seed=1), "done", {}, {}, "", {})


def test_no_name_leads_out_of_results(project: Path) -> None:
    """Names of variants, studies and budgets, on the command line, in files, and as links."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "x.yaml").write_text("# @package _global_\ndefaults: [/study/depth, _self_]\n")
    for link, target in (("variant/linked", outside), ("variant/depth/linked.yaml", outside / "x.yaml")):
        (project / "conf" / link).symlink_to(target)
    (project / "conf/study/odd.yaml").write_text("# @package _global_\nstudy: {name: ../../outside}\n")
    (project / "conf/variant/odd").mkdir()
    (project / "conf/variant/odd/x.yaml").write_text(
        "# @package _global_\ndefaults: [/study/odd, _self_]\nstudy: {name: odd}\n"
    )
    (project / "conf/budget/odd.yaml").write_text("# @package _global_\nbudget: ../odd\nlengths: {long: 3, probe: 3}\n")
    (project / "results/quick").mkdir(parents=True)
    (project / "results/quick/depth").symlink_to(outside)
    before = written(project), sorted(outside.rglob("*"))
    warm = Warm(project)
    try:
        for argument in (
            *("variant=../x/y", "variant=/tmp/x", "+variant/../..=x", "+variant/..=x", "variant=../study/depth"),
            *(
                "variant=depth/../depth/one_block",
                "variant=depth//one_block",
                "variant=./depth/one_block",
                "budget=odd",
            ),
            *("variant=linked/x", "variant=depth/linked", "variant=depth/one_block", "budget=../budget/quick"),
            *("+variant/depth=../depth/one_block", "variant=../variant/depth/one_block"),
        ):
            quick = () if argument.startswith("budget") else ("budget=quick",)
            told = warm("ablations.train", argument, *quick)
            assert not refused(told), (argument, told)
        told = warm("ablations.plan", "study=odd", "budget=quick", "time=no")
        assert not refused(told, "study.name: ../../outside; allowed: odd"), told
        (project / "results/quick/sweep").symlink_to(outside)
        assert not refused(warm("ablations.train", *SMALL), "is a link")
        (project / "results/quick/sweep").unlink()
    finally:
        warm.close()
    assert (written(project), sorted(outside.rglob("*"))) == before
