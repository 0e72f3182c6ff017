"""From a quantity and what is claimed of it to a verdict, with its doubt."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ablations.report.claims.quantity import Source, Values, quantity
from ablations.report.statistics import Mean, log_mean, mean, seeds_needed
from ablations.settings import InputError

SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE = "SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"
VERDICTS = (NOT_SUPPORTED, INCONCLUSIVE, SUPPORTED)  # of several parts, the first that any has
EXACT = "no seed to vary"
LARGEST = 1e300  # of a bound, which nan is not below either
MOST = 50  # seeds: more are not called for

NEEDED = ("id", "section", "claim", "reason")
OPTIONAL = ("stated", "diverged", "all")
OPERATORS = ("at_least", "at_most", "above", "below", "between")


@dataclasses.dataclass(frozen=True)
class Part:
    """One quantity of a claim, judged."""

    verdict: str
    value: Mean
    why: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim, judged; `parts` has as many as it makes assertions."""

    id: str
    section: str
    claim: str
    stated: Any
    reason: str
    verdict: str
    parts: list[Part]


def judged(spec: Any, source: Source, where: str) -> Claim:
    """A claim of `conf/claims.yaml` with its verdict.

    Raises:
        InputError: a field or an operator that is not known, or one that is missing.
    """
    if not isinstance(spec, dict):
        raise InputError(f"{where}: {spec}; allowed: a mapping")
    for field in spec:
        if field not in (*NEEDED, *OPTIONAL, "value", *OPERATORS):
            raise InputError(
                f"{where}.{field}: not known; allowed: {', '.join((*NEEDED, *OPTIONAL, 'value', *OPERATORS))}"
            )
    for field in NEEDED:
        if not isinstance(spec.get(field), str) or not spec[field].strip():
            raise InputError(f"{where}.{field}: {spec.get(field)}; allowed: a text")
    where = f"{where} ({spec['id']})"
    if ("all" in spec) == ("value" in spec) or not isinstance(spec.get("all", [1]), list) or spec.get("all") == []:
        raise InputError(f"{where}: needs a value with an operator, or a list of such under all")
    if spec.get("diverged", "holds") != "holds":
        raise InputError(f"{where}.diverged: {spec['diverged']}; allowed: holds")
    one = {field: spec[field] for field in ("value", *OPERATORS) if field in spec}
    asserted = spec.get("all", [one])
    if "all" in spec and one:
        raise InputError(f"{where}.{next(iter(one))}: not beside all; allowed: inside its parts")
    parts = [
        _part(part, source, f"{where}.all[{i}]" if "all" in spec else where, "diverged" in spec)
        for i, part in enumerate(asserted)
    ]
    verdict = next(verdict for verdict in VERDICTS if any(part.verdict == verdict for part in parts))
    return Claim(spec["id"], spec["section"], spec["claim"], spec.get("stated"), spec["reason"], verdict, parts)


def _part(spec: Any, source: Source, where: str, diverged_holds: bool) -> Part:
    if not isinstance(spec, dict) or "value" not in spec:
        raise InputError(f"{where}: {spec}; allowed: a value with one of {', '.join(OPERATORS)}")
    found = [field for field in spec if field != "value"]
    if len(found) != 1 or found[0] not in OPERATORS:
        raise InputError(f"{where}: {', '.join(found) or 'no operator'}; allowed: one of {', '.join(OPERATORS)}")
    low, high = _bounds(found[0], spec[found[0]], where)
    return judge(quantity(spec["value"], source, f"{where}.value"), low, high, diverged_holds)


def judge(values: Values, low: float, high: float, diverged_holds: bool = False) -> Part:
    """Whether a quantity lies between `low` and `high`: its 95 % interval inside, outside, or across. Where divergence
    is what is claimed, two runs that all diverged support it; of several, the others are judged.
    """
    given = list(values.by_seed.values())
    if any(not math.isfinite(value) or (values.geometric and value <= 0) for value in given):
        return Part(INCONCLUSIVE, mean([]), "a value that has no mean: a ratio of or by zero")
    found = (log_mean if values.geometric else mean)(given)
    if values.diverged and not diverged_holds:
        return Part(INCONCLUSIVE, found, values.outcomes)
    if values.diverged and not found.n:
        return Part(SUPPORTED if values.diverged > 1 else INCONCLUSIVE, found, values.outcomes)
    if not found.n:
        return Part(INCONCLUSIVE, found, values.outcomes or "no value")
    inside = low <= found.mean <= high
    if values.exact:
        return Part(SUPPORTED if inside else NOT_SUPPORTED, found, EXACT)
    if found.n == 1:
        side = "within the claim" if inside else "against the claim"
        return Part(INCONCLUSIVE, found, f"one run, {side}; a second one would give an interval")
    if low <= found.low and found.high <= high:
        return Part(SUPPORTED, found, "")
    if found.high < low or found.low > high:
        return Part(NOT_SUPPORTED, found, "")
    bounds = (_log(low), _log(high)) if values.geometric else (low, high)
    needed = seeds_needed(*_spread(values), *bounds, most=MOST + 1)
    many = f"about {needed}" if needed <= MOST else f"more than {MOST}"
    return Part(INCONCLUSIVE, found, f"the interval crosses the bound; {many} seeds would decide it")


def _spread(values: Values) -> tuple[float, float]:
    inner = [_log(value) if values.geometric else value for value in values.by_seed.values()]
    return float(np.mean(inner)), float(np.std(inner, ddof=1))


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _bounds(operator: str, given: Any, where: str) -> tuple[float, float]:
    numbers = given if operator == "between" else [given]
    sound = isinstance(numbers, list) and all(map(_bound, numbers))
    if not sound or len(numbers) != (2 if operator == "between" else 1) or sorted(numbers) != numbers:
        allowed = "a list of two numbers, the lower first" if operator == "between" else "a number"
        raise InputError(f"{where}.{operator}: {given}; allowed: {allowed}")
    if operator == "between":
        return float(numbers[0]), float(numbers[1])
    only = float(numbers[0])
    if operator in ("at_least", "above"):
        return (math.nextafter(only, math.inf) if operator == "above" else only), math.inf
    return -math.inf, (math.nextafter(only, -math.inf) if operator == "below" else only)


def _bound(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < LARGEST


def reasons(claim: Claim) -> list[str]:
    """Why a claim has its verdict, as far as its numbers do not say so."""
    found = dict.fromkeys(part.why for part in claim.parts if part.verdict == claim.verdict and part.value.n)
    return [why for why in found if why and why != EXACT]


def plain(claim: Claim) -> Mapping[str, Any]:
    """A claim as JSON takes it; what is not known is null."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    parts = [
        {"verdict": part.verdict, "why": part.why, "n": part.value.n}
        | {"value": number(part.value.mean), "low": number(part.value.low), "high": number(part.value.high)}
        for part in claim.parts
    ]
    return dataclasses.asdict(claim) | {"parts": parts}
