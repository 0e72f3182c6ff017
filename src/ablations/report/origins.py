"""Where the numbers come from: what the provenance of all runs has in common, and where they differ."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.report.results import TRAINED
from ablations.study.board import duration


def origins(runs: pd.DataFrame) -> list[tuple[str, str]]:
    """Label and text of each line: commits, whether trees were clean, versions, processor, threads, durations."""
    made = [_made(Path(folder)) for folder in runs.loc[runs["state"].isin(TRAINED), "folder"]]
    known = [record for record in made if record]
    if not known:
        return [("runs", "none yet")]
    lines = [
        ("runs", f"{len(made)}; with a provenance on record: {len(known)}"),
        ("commit", _counted([str(r.get("commit") or "no repository")[:10] for r in known])),
        ("tree", _counted([_tree(r.get("clean")) for r in known])),
        ("processor", _counted([r.get("processor", "") for r in known])),
        ("accelerator", _counted([r.get("accelerator", "") for r in known])),
        ("threads per run", _counted([r.get("threads", "") for r in known])),
        ("system", _counted([f"{r.get('system')}, Python {r.get('python')}" for r in known])),
    ]
    packages = sorted({name for record in known for name in record.get("packages", {})})
    lines += [(name, _counted([r["packages"][name] for r in known if name in r["packages"]])) for name in packages]
    own = {json.dumps(record, sort_keys=True): record for record in known}.values()  # a copy took no time of its own
    seconds = [record["seconds"] for record in own if record.get("resumed_at_step") is None]
    if seconds:
        spread = f"{duration(sum(seconds))} of work in all, {duration(min(seconds))} to {duration(max(seconds))} a run"
        lines.append(("durations", f"{spread} (of {len(seconds)} runs that were never interrupted)"))
    return lines


def _made(folder: Path) -> dict[str, Any] | None:
    """A run's provenance, or that of the run it was copied from."""
    try:
        record: Any = json.loads((folder / "provenance.json").read_text())
        while "copied_from" in record:  # a copy may have been copied again
            record = record["made"]
        return dict(record) if isinstance(record["seconds"], int | float) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _tree(clean: bool | None) -> str:
    return {True: "as committed", False: "with changes that were not committed", None: "unknown"}[clean]


def _counted(values: list[Any]) -> str:
    counts = Counter(map(str, values))
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({n} runs)" for value, n in counts.most_common())
