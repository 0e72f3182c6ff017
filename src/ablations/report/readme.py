"""`python -m ablations.report.readme` puts the main tables into README, so that no number there is typed in."""

import sys

from ablations.settings import ROOT, InputError, command

TABLES = ("averages", "ladder", "position", "coreference")
BEGIN, END = "<!-- tables: made by python -m ablations.report.readme -->", "<!-- end of tables -->"


def block() -> str:
    """The tables as they stand in `reports/chapter/tables/`."""
    folder = ROOT / "reports" / "chapter" / "tables"
    try:
        return "\n".join([BEGIN, *((folder / f"{name}.md").read_text() for name in TABLES), END])
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename}: not there; allowed: run `python -m ablations.report.tables` first"
        ) from error


@command
def main(arguments: list[str]) -> None:
    """Replaces what stands between the two marks."""
    if arguments:
        raise InputError(f"{arguments[0]}: not known; allowed: no argument")
    file = ROOT / "README.md"
    before, begin, rest = file.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"README.md: has no room for the tables; allowed: the lines {BEGIN} and {END}")
    file.write_text(before + block() + after)


if __name__ == "__main__":
    sys.exit(main())
