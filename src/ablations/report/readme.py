"""`python -m ablations.report.readme` fills README.md and docs/findings.md, so that no number in a table is typed in.

What stands between `<!-- made by python -m ablations.report.readme: NAME, ... -->` and `<!-- end -->` is what is named:
a table of `reports/chapter/tables/`, `verdicts`, how many claims of each section hold, or `claims A`, a section's.
"""

import re
import sys
from collections import Counter

from tabulate import tabulate

from ablations.report.claims.judge import COLOURS, claims, told
from ablations.report.claims.verdict import Claim
from ablations.report.table import SECTIONS
from ablations.settings import ROOT, InputError, command

BUDGET = "chapter"
FILES = ("README.md", "docs/findings.md")
BLOCK = re.compile(r"(<!-- made by python -m ablations\.report\.readme: ([^>]*) -->\n).*?(<!-- end -->)", re.S)


def filled(text: str) -> str:
    """A text whose blocks are as the reports have them.

    Raises:
        InputError: a table that is not there, or a name that stands for nothing.
    """
    found = claims(BUDGET)
    return BLOCK.sub(lambda m: m[1] + "\n".join(_content(n.strip(), found) for n in m[2].split(",")) + m[3], text)


def _content(name: str, found: list[Claim]) -> str:
    if name == "verdicts":
        return _verdicts(found)
    if name.startswith("claims "):
        return _claims([claim for claim in found if claim.section == name.removeprefix("claims ")])
    file = ROOT / "reports" / BUDGET / "tables" / f"{name}.md"
    try:
        return file.read_text()
    except FileNotFoundError as error:
        raise InputError(f"{name}: {file} is not there; allowed: a table, verdicts, claims <section>") from error


def _verdicts(found: list[Claim]) -> str:
    rows = []
    for letter, topic in SECTIONS.items():
        if counts := Counter(claim.verdict for claim in found if claim.section == letter):
            rows.append([letter, topic, *(str(counts[verdict] or "") for verdict in COLOURS)])
    total = Counter(claim.verdict for claim in found)
    rows.append(["", f"**{len(found)} claims**", *(f"**{total[verdict]}**" for verdict in COLOURS)])
    return _table(["", "section", "supported", "not supported", "one cannot tell"], rows)


def _claims(found: list[Claim]) -> str:
    rows = []
    for claim in found:
        ours = "; ".join(told(part) for part in claim.parts)
        stated = "" if claim.stated is None else str(claim.stated)
        rows.append([claim.id, claim.claim, ours, stated, claim.verdict.lower()])
    return _table(["", "claim", "ours", "the chapter's", "verdict"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return tabulate(rows, head, tablefmt="pipe", disable_numparse=True) + "\n"


@command
def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments:
        raise InputError(f"{arguments[0]}: not known; allowed: no argument")
    for name in FILES:
        file = ROOT / name
        file.write_text(filled(file.read_text()))


if __name__ == "__main__":
    sys.exit(main())
