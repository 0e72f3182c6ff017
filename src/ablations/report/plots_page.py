"""`python -m ablations.report.plots_page FILE`: the frame of the page that `dvc plots show` makes, with Vega inside
it, so that it asks no network. `make setup` writes it where `.dvc/config` says.
"""

import sys
from pathlib import Path

import vl_convert

PAGE = """<!doctype html>
<html lang="en"><head>{refresh_tag}<meta charset="utf-8"><title>ablations: dvc plots</title>
<link rel="icon" href="data:,">
<script>RUNTIME</script></head>
<body>{plot_divs}</body></html>
"""


def main(file: Path) -> None:
    """Writes the frame."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PAGE.replace("RUNTIME", vl_convert.javascript_bundle()))  # type: ignore[call-arg]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
