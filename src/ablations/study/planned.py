"""All runs of whole studies, composed and checked once for each state of configs, sources and tokens."""

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ablations.settings import CONF, ROOT, InputError
from ablations.study import compose
from ablations.study.board import Progress
from ablations.study.compose import Run
from ablations.study.keep import keep
from ablations.study.variants import variants

KEPT = ROOT / ".work" / "plan"  # one file per budget and study


def planned(studies: dict[str, int], budget: str) -> list[tuple[Run, float]]:
    """All runs of the studies with their costs, checked; a study's value is its number of seeds.

    Raises:
        InputError: an unknown study or budget, or a run that cannot be trained as it is.
    """
    runs: list[tuple[Run, float]] = []
    for study in studies.keys() - {path.stem for path in (CONF / "study").glob("*.yaml")}:
        variants(study)  # says what there is, before the others are composed
    progress = Progress(len(studies), "studies")
    for number, (study, seeds) in enumerate(studies.items()):
        progress(number)
        for run, work in _variants(study, budget):
            runs += [(compose.with_seed(run, seed), work) for seed in range(seeds)]
    return runs


def as_plan(runs: list[tuple[Run, float]]) -> dict[str, dict[str, Any]]:
    """The runs by study, as they are written to `plans/`: `study`, its file's text, and `runs`, one line each."""
    plan: dict[str, dict[str, Any]] = {}
    for run, work in runs:
        lines = plan.setdefault(run.study, {"study": _text(run.study), "runs": []})["runs"]
        results = ROOT / str(run.config["runtime"]["results"])
        lines.append(
            {name: getattr(run, name) for name in ("study", "variant", "seed", "fingerprint")}
            | {"overrides": [f"variant={run.study}/{run.variant}", f"budget={run.budget}", f"seed={run.seed}"]}
            | {"folder": str(run.folder.relative_to(results)), "cost": round(work, 3)}
        )
    return plan


def _text(study: str) -> dict[str, Any]:
    node: Any = OmegaConf.to_container(OmegaConf.load(CONF / "study" / f"{study}.yaml"))
    return dict(node.get("study") or {})


def _variants(study: str, budget: str) -> list[tuple[Run, float]]:
    file = KEPT / f"{budget}-{study}.json"
    try:
        kept: dict[str, Any] = json.loads(file.read_text())
        if kept["state"] == _state(kept["runs"]):
            return [(Run(**run), work) for run, work in kept["runs"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not kept yet, or damaged: composed anew
    runs = _composed(study, budget)
    plain = [(vars(run), work) for run, work in runs]
    keep(file, {"state": _state(plain), "runs": plain})
    return runs


def _composed(study: str, budget: str) -> list[tuple[Run, float]]:
    from ablations.study.check import check  # torch takes a second to import
    from ablations.study.cost import cost

    runs = []
    with compose.hydra():
        for variant in variants(study):
            run = compose.composed([f"variant={study}/{variant}", f"budget={budget}"])
            try:
                runs.append((run, cost(run.config, check(run.config))))
            except InputError as error:
                raise InputError(f"{study}/{variant}: {error}") from error
    return runs


def _state(runs: Any) -> str:
    """A hash of the runs and of all that they hang on."""
    return hashlib.sha256(f"{_origin()}{json.dumps(runs, sort_keys=True)}".encode()).hexdigest()


@functools.cache
def _origin() -> str:
    found = [*CONF.rglob("*.yaml"), *Path(__file__).parents[1].rglob("*.py"), ROOT / "data" / "tokens" / "meta.json"]
    files = [file for file in found if not file.name.startswith(".")]  # as an editor's lock, a link to nowhere
    state = hashlib.sha256(os.environ.get("LAUNCHER", "").encode())
    for file in sorted(files):
        state.update(f"{file}\0".encode() + file.read_bytes() + b"\0")
    return state.hexdigest()
