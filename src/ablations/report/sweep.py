"""`python -m ablations.report.sweep [budget=NAME] [match=GLOB]`: tables, intervals and charts of sweeps by hand.

Runs that `python -m ablations.train -m ...` left in `results/<budget>/sweep/` become one study: a row per combination
of settings, named by what differs between them. Writes `reports/<budget>/sweep/`.
"""

import fnmatch
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.report.page import deliver
from ablations.report.results import STALE
from ablations.report.studies import perplexities
from ablations.report.write import write
from ablations.settings import ROOT, InputError, command, folder_name, options
from ablations.study.fingerprint import SHOW_AND_SPEED, fingerprint
from ablations.study.ledger import read
from ablations.study.variants import SWEEP

Flat = dict[str, Any]


def flat(config: dict[str, Any], prefix: str = "") -> Flat:
    """A config's leaves by their full names."""
    leaves: Flat = {}
    for key, value in config.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


def labels(configs: dict[str, Flat]) -> dict[str, str]:
    """What tells each of the configs from the others: `model.mixer.d_k=32, optimizer.lr=0.01`."""
    keys = sorted({key for config in configs.values() for key in config} - {"seed"})
    differing = [key for key in keys if len({repr(config.get(key)) for config in configs.values()}) > 1]
    shown = [key for key in differing if not any(key != other and _follows(key, other, configs) for other in differing)]
    told = {
        name: ", ".join(f"{key}={config[key]}" for key in shown if key in config) or name
        for name, config in configs.items()
    }
    same = Counter(told.values())  # the same settings on another text
    return {name: f"{label}, {name[-6:]}" if same[label] > 1 else label for name, label in told.items()}


def _follows(key: str, other: str, configs: dict[str, Flat]) -> bool:
    """Whether `key` says nothing that `other`, a part's class above it, does not say."""
    if not other.endswith("._target_") or not key.startswith(other.removesuffix("_target_")):
        return False
    pairs = {(repr(config.get(other)), repr(config.get(key))) for config in configs.values()}
    return len(pairs) == len({repr(config.get(other)) for config in configs.values()})


def load(budget: str, pattern: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """The sweep as a study, and one row per run.

    Raises:
        InputError: no run of that name.
    """
    rows: list[dict[str, Any]] = []
    configs: dict[str, Flat] = {}
    for folder in sorted((ROOT / "results" / budget / SWEEP).glob("*/seed-*")):
        record = read(folder) if fnmatch.fnmatch(folder.parent.name, pattern) else None
        if record is None:
            continue
        name = record["variant"]
        configs[name] = flat({k: v for k, v in record["config"].items() if k not in SHOW_AND_SPEED})
        state = record["status"] if _current(record) else STALE
        row = {"study": SWEEP, "variant": name, "seed": record["seed"], "state": state, "folder": folder}
        rows.append(row | record["metrics"])
    if not rows:
        results = ROOT / "results"
        found = sorted(path.name for path in (results / budget / SWEEP).glob("*"))
        if not found:
            known = sorted(path.parent.name for path in results.glob(f"*/{SWEEP}"))
            raise InputError(f"budget: {budget} has no sweep by hand; allowed: {', '.join(known) or 'none yet'}")
        raise InputError(f"match: {pattern} fits no sweep at budget {budget}; allowed: {', '.join(found[:8])}")
    named = labels(configs)
    ordered = sorted(rows, key=lambda row: (_natural(named[str(row["variant"])]), int(row["seed"])))
    runs = pd.DataFrame(ordered)
    first = str(runs["variant"].iloc[0])
    study = {"name": SWEEP, "section": "", "question": f"A sweep by hand: {len(named)} settings", "baseline": first}
    return study | {"rows": {name: named[name] for name in runs["variant"].unique()}}, runs


def _current(record: dict[str, Any]) -> bool:
    """Whether a record is what today's code makes of today's text; one that failed has no numbers to mistake."""
    try:
        return bool(record["status"] == "failed" or fingerprint(record["config"]) == record["fingerprint"])
    except InputError:  # a part, or the tokens, that are there no more
        return False


def _natural(label: str) -> list[str]:
    """Sorts `d_k=32` before `d_k=256`."""
    return [part.zfill(12) if part.isdigit() else part for part in re.split(r"(\d+)", label)]


@command
def main(arguments: list[str]) -> None:
    """See the module."""
    given = options(arguments, "budget=NAME", "match=PATTERN", budget="chapter", match="*")
    study, runs = load(folder_name("budget", given["budget"]), given["match"])
    tables = perplexities(study, runs, {})
    folder: Path = ROOT / "reports" / given["budget"] / SWEEP
    for table in tables:
        print(write(table, given["budget"], folder / "tables"))
    deliver(folder, given["budget"], {SWEEP: {"study": study}}, runs, tables, [])


if __name__ == "__main__":
    sys.exit(main())
