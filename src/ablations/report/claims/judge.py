"""All claims judged, and how what came out is told."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ablations.report.claims.quantity import Source
from ablations.report.claims.verdict import EXACT, Claim, Part, judged
from ablations.report.measured import measured_rows
from ablations.report.results import load_plan, load_runs
from ablations.report.table import number
from ablations.settings import CONF, ROOT, UNREADABLE, InputError, one_line

COLOURS = {"SUPPORTED": "green", "NOT SUPPORTED": "red", "INCONCLUSIVE": "yellow"}


def claims(budget: str) -> list[Claim]:
    """All claims of `conf/claims.yaml`, judged on the results of a budget.

    Raises:
        InputError: a file that cannot be read, or a claim that says what no claim can.
    """
    try:
        specs: Any = OmegaConf.to_container(OmegaConf.load(CONF / "claims.yaml"))  # which takes no field twice
    except (OSError, *UNREADABLE) as error:
        raise InputError(f"conf/claims.yaml: cannot be read ({one_line(error)}); allowed: YAML") from error
    if not isinstance(specs, list):
        raise InputError("conf/claims.yaml: no list; allowed: a list of claims")
    source = Source(load_runs(load_plan(budget), ROOT / "results"), measured_rows(ROOT / "measurements" / budget))
    found = [judged(spec, source, f"claims[{i}]") for i, spec in enumerate(specs)]
    if doubled := [name for name, n in Counter(claim.id for claim in found).items() if n > 1]:
        raise InputError(f"conf/claims.yaml: id {doubled[0]} stands twice; allowed: one claim per id")
    return found


def told(part: Part) -> str:
    """`4.07 [3.9, 4.2], n = 3`; what is exact, alone; or what there is instead."""
    value = part.value
    if not value.n:
        return part.why
    if part.why == EXACT:
        return number(int(value.mean) if value.mean.is_integer() else value.mean)
    interval = f" [{number(value.low)}, {number(value.high)}]" if number(value.low) else ""
    return f"{number(value.mean)}{interval}, n = {value.n}"


def turned(found: list[Claim], record: Path) -> list[str]:
    """One line for each verdict that is not the recorded one. A claim without a record has not turned.

    Raises:
        InputError: a record that cannot be read.
    """
    if not record.exists():
        return []
    try:
        before: dict[str, str] = json.loads(record.read_text())
        return [f"{c.id}: {before[c.id]} -> {c.verdict}" for c in found if before.get(c.id, c.verdict) != c.verdict]
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{record}: cannot be read ({one_line(error)}); allowed: as record=yes writes it") from error
