"""`python -m ablations.report.claims [budget=NAME] [out=FILE] [record=yes]`: the chapter's claims and their verdicts.

Prints a table, or writes JSON into `out`. Exit code 1 where a verdict is not the recorded one any more; `record=yes`
makes today's verdicts the record, `reports/<budget>/verdicts.json`.
"""

import json
import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from ablations.report.claims.judge import COLOURS, claims, told, turned
from ablations.report.claims.verdict import Claim, plain, reasons
from ablations.report.statistics import CONFIDENCE
from ablations.settings import ROOT, command, folder_name, options


@command
def main(arguments: list[str]) -> int:
    """See the module."""
    given = options(arguments, "budget=NAME", "out=FILE", "record=yes|no", budget="chapter", record="no")
    found = claims(folder_name("budget", given["budget"]))
    record = ROOT / "reports" / given["budget"] / "verdicts.json"
    if given["record"] == "yes":
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({claim.id: claim.verdict for claim in found}, indent=1) + "\n")
    if "out" in given:
        file = ROOT / given["out"]
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
