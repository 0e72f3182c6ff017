"""`python -m ablations.report.claims [budget=NAME] [out=FILE] [record=yes]`: the chapter's claims and their verdicts.

Prints a table, or writes JSON into `out`. Exit code 1 where a verdict is not the recorded one any more; `record=yes`
makes today's verdicts the record, `reports/<budget>/verdicts.json`.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from ablations.report.claims.quantity import Source
from ablations.report.claims.verdict import EXACT, Claim, Part, judged, plain, reasons
from ablations.report.measured import measured_rows
from ablations.report.results import load_plan, load_runs
from ablations.report.statistics import CONFIDENCE
from ablations.report.table import number
from ablations.settings import CONF, ROOT, InputError, command, folder_name, one_line

COLOURS = {"SUPPORTED": "green", "NOT SUPPORTED": "red", "INCONCLUSIVE": "yellow"}


def claims(budget: str) -> list[Claim]:
    """All claims of `conf/claims.yaml`, judged on the results of a budget.

    Raises:
        InputError: a file that cannot be read, or a claim that says what no claim can.
    """
    try:
        specs = yaml.safe_load((CONF / "claims.yaml").read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
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
    """One line for each verdict that is not the recorded one. A claim without a record has not turned."""
    if not record.exists():
        return []
    try:
        before: dict[str, str] = json.loads(record.read_text())
        return [f"{c.id}: {before[c.id]} -> {c.verdict}" for c in found if before.get(c.id, c.verdict) != c.verdict]
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{record}: cannot be read ({one_line(error)}); allowed: as record=yes writes it") from error


@command
def main(arguments: list[str]) -> int:
    """See the module."""
    options = {"budget": "chapter", "record": "no"}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in ("budget", "out", "record") or (key == "record" and value not in ("yes", "no")):
            raise InputError(f"{argument}: not known; allowed: budget=NAME, out=FILE, record=yes")
        options[key] = value
    found = claims(folder_name("budget", options["budget"]))
    record = ROOT / "reports" / options["budget"] / "verdicts.json"
    if options["record"] == "yes":
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({claim.id: claim.verdict for claim in found}, indent=1) + "\n")
    if "out" in options:
        file = ROOT / options["out"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([plain(claim) for claim in found], indent=1, allow_nan=False) + "\n")
        return 0
    _print(found)
    lines = turned(found, record)
    for line in lines:
        print(f"turned: {line}", file=sys.stderr)
    return 1 if lines else 0


def _print(found: list[Claim]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table("", "claim", "ours", "stated", "verdict", box=None, header_style="bold", padding=(0, 1))
    for claim in found:
        ours = "\n".join(told(part) for part in claim.parts)
        colour = COLOURS[claim.verdict]
        stated = "" if claim.stated is None else str(claim.stated)
        why = "".join(f"\n{reason}" for reason in reasons(claim))
        table.add_row(claim.id, claim.claim, ours, stated, f"[{colour}]{claim.verdict}[/]{why}")
    console.print(table)
    counts = Counter(claim.verdict for claim in found)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS)
    console.print(f"{len(found)} claims: {summary} ({CONFIDENCE:.0%} intervals)")


if __name__ == "__main__":
    sys.exit(main())
