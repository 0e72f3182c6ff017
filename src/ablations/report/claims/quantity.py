"""Numbers that a claim is about, seed by seed: from the ledger, from its histories, from the measurements."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from ablations.report.maps import MODEL, attention_tables
from ablations.report.results import COUNTED, PLANNED, load_history, reading
from ablations.report.studies import by_seed
from ablations.settings import InputError

Spec = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Values:
    """A quantity by seed. An exact one has no seeds to vary: its single value is all there is to know.

    `outcomes` tells of runs that gave no number: `1 of 3 diverged`. `diverged` is how many did.
    """

    by_seed: dict[int, float]
    exact: bool = False
    geometric: bool = False
    outcomes: str = ""
    diverged: int = 0


class Source:
    """What quantities are read from.

    Args:
        runs: one row per planned run, as `load_runs` gives them.
        measured: the measurements' rows by table and row key.
    """

    def __init__(self, runs: pd.DataFrame, measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self.runs, self.measured = runs, measured

    def group(self, variant: str) -> pd.DataFrame:
        """The runs of `study/variant`; none where it is not planned."""
        study, _, name = variant.partition("/")
        return self.runs[(self.runs["study"] == study) & (self.runs["variant"] == name)]


def quantity(spec: Any, source: Source, where: str) -> Values:
    """The values that a specification of `conf/claims.yaml` stands for.

    Args:
        spec: `{run, metric}`, `{history, column, at}`, `{measured, row, column}`, `{map, row, column}`,
            `{difference: [one, other]}` or `{ratio: [one, other]}`.
        source: of the numbers.
        where: the field's name, for errors.

    Raises:
        InputError: another field, or a value of another kind.
    """
    if not isinstance(spec, dict):
        raise InputError(f"{where}: {spec}; allowed: a mapping with one of {', '.join(KINDS)}")
    kind = next((name for name in KINDS if name in spec), None)
    if kind is None:
        raise InputError(f"{where}: {', '.join(map(str, spec)) or 'empty'}; allowed: one of {', '.join(KINDS)}")
    reader, fields = KINDS[kind]
    for field in spec:
        if field not in (kind, *fields):
            raise InputError(f"{where}.{field}: not known; allowed: {', '.join((kind, *fields))}")
    for field in (kind, *fields):
        if kind not in PAIRED and not isinstance(spec.get(field), str):
            raise InputError(f"{where}.{field}: {spec.get(field)}; allowed: a name")
    return reader(spec, source, where)


def _run(spec: Spec, source: Source, where: str) -> Values:
    if spec["metric"] in (*PLANNED, "state"):
        raise InputError(f"{where}.metric: {spec['metric']}; allowed: a metric, as run.json has them")
    group = source.group(spec["run"])
    found = _values(by_seed(group, spec["metric"]), group, geometric="perplexity" in spec["metric"])
    counted = spec["metric"] == "parameters" and len(set(found.by_seed.values())) == 1
    return dataclasses.replace(found, exact=counted)


def _history(spec: Spec, source: Source, where: str) -> Values:
    places = {"start": 0, "end": -1}
    if spec["at"] not in places:
        raise InputError(f"{where}.at: {spec['at']}; allowed: {', '.join(places)}")
    group = source.group(spec["history"])
    found: dict[int, float] = {}
    for run in group[group["state"].isin(COUNTED)].to_dict("records"):
        for value in reading(load_history(run["folder"]), spec["column"], places[spec["at"]]):
            found[int(run["seed"])] = value
    return _values(found, group)


def _measured(spec: Spec, source: Source, where: str) -> Values:
    value = source.measured.get(spec["measured"], {}).get(spec["row"], {}).get(spec["column"])
    if isinstance(value, list):
        return Values({seed: float(v) for seed, v in enumerate(value)})
    if isinstance(value, int | float):
        return Values({0: float(value)}, exact=True)
    return Values({}, outcomes="not measured" if value is None else str(value))


def _map(spec: Spec, source: Source, where: str) -> Values:
    """A cell of the attention maps, seed by seed."""
    group = source.runs[source.runs["study"] == "coreference"]
    found: dict[int, float] = {}
    for seed, runs in group.groupby("seed"):
        for table in attention_tables(runs, {}):
            if table.name == spec["map"] and spec["column"] in table.frame:
                cells = table.frame.loc[table.frame["variant"] == spec["row"], spec["column"]]
                found |= {int(str(seed)): float(value) for value in cells}
    return _values(found, group[group["variant"] == MODEL])


def _paired(combine: Callable[[float, float], float], geometric: bool) -> Callable[[Spec, Source, str], Values]:
    def read(spec: Spec, source: Source, where: str) -> Values:
        kind = "ratio" if geometric else "difference"
        parts = spec[kind]
        if not isinstance(parts, list) or len(parts) != 2:
            raise InputError(f"{where}.{kind}: {parts}; allowed: a list of two quantities")
        one, other = (quantity(part, source, f"{where}.{kind}[{i}]") for i, part in enumerate(parts))
        found = {seed: combine(one.by_seed[seed], other.by_seed[seed]) for seed in one.by_seed if seed in other.by_seed}
        outcomes = "; ".join(filter(None, dict.fromkeys((one.outcomes, other.outcomes))))
        return Values(found, one.exact and other.exact, geometric, outcomes, one.diverged + other.diverged)

    return read


def _values(found: dict[int, float], group: pd.DataFrame, geometric: bool = False) -> Values:
    states = {str(state): int(n) for state, n in group["state"].value_counts().items()} if len(group) else {}
    told = [
        f"{states[state]} of {len(group)} {state}" for state in ("diverged", "failed", "not run") if state in states
    ]
    outcomes = ", ".join(told) if len(group) else "not planned"
    return Values(found, geometric=geometric, outcomes=outcomes, diverged=states.get("diverged", 0))


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.inf


PAIRED = ("difference", "ratio")
KINDS: dict[str, tuple[Callable[[Spec, Source, str], Values], tuple[str, ...]]] = {
    "run": (_run, ("metric",)),
    "history": (_history, ("column", "at")),
    "measured": (_measured, ("row", "column")),
    "map": (_map, ("row", "column")),
    "difference": (_paired(lambda one, other: one - other, geometric=False), ()),
    "ratio": (_paired(_ratio, geometric=True), ()),
}
