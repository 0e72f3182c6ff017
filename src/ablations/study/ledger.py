"""The ledger: `results/`, one small folder per run. It is the truth; everything shown is made from it.

`run.json` and `history.csv` are a pure function of the run's identity; `provenance.json` says where and when.
A folder appears whole or not at all, and a file that was damaged later is noticed by its digest.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from ablations.settings import ROOT, InputError, without_secrets
from ablations.study.compose import Run
from ablations.study.fingerprint import SHOW_AND_SPEED
from ablations.training import CHECKPOINT

Record = dict[str, Any]
Row = dict[str, float | None]

FINISHED = ("done", "diverged")
ATTEMPTS, PAUSE = 3, 0.02  # to read a record before it counts as damaged, and seconds between two


class Ledger:
    """Reads and writes the runs below one folder.

    Args:
        root: `results/`, or what a run's `runtime.results` names.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def status(self, run: Run) -> str:
        """`done`, `diverged` or `failed` as recorded; `stale` if recorded for another identity; else `begun`
        where a checkpoint waits, or `todo`.

        Raises:
            InputError: a link where the run's folder belongs.
        """
        self._inside(run.folder)
        record = read(run.folder)
        if record is not None and record["fingerprint"] == run.fingerprint:
            return str(record["status"])
        if (run.work / CHECKPOINT).exists():
            return "begun"
        return "todo" if record is None else "stale"

    def finished(self) -> set[str]:
        """The identities that have a finished record somewhere, as far as a quick look tells: no digest is checked."""
        found = set()
        for file in self.root.glob("*/*/*/seed-*/run.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                record = json.loads(file.read_bytes())
                found |= {record["fingerprint"]} if record["status"] in FINISHED else set()
        return found

    def twin(self, run: Run) -> Record | None:
        """A finished record of the same identity elsewhere in the ledger, with its folder under `folder`."""
        for file in sorted(self.root.glob("*/*/*/seed-*/run.json")):
            if _links(self.root, file.parent):
                continue
            with contextlib.suppress(OSError):  # another job may be putting a new record in its place
                record = read(file.parent) if run.fingerprint.encode() in file.read_bytes() else None
                if record and record["fingerprint"] == run.fingerprint and record["status"] in FINISHED:
                    return record | {"folder": file.parent}
        return None

    def write(
        self,
        run: Run,
        status: str,
        metrics: dict[str, Any],
        details: dict[str, Any],
        history: str,
        provenance: dict[str, Any],
        error: str | None = None,
    ) -> None:
        """Puts a run into the ledger, in the place of any earlier record of it.

        Args:
            run: which.
            status: `done`, `diverged` or `failed`.
            metrics: final numbers; None for one that is not finite.
            details: what is more than a number.
            history: the text of `history.csv`.
            provenance: where and when.
            error: one line, for a failed run.

        Raises:
            InputError: a link where the run's folder belongs.
        """
        record: Record = {
            "study": run.study,
            "variant": run.variant,
            "seed": run.seed,
            "budget": run.budget,
            "fingerprint": run.fingerprint,
            "status": status,
            "metrics": metrics,
            "config": _shown(run.config),
        }
        if details:
            record["details"] = details
        if error is not None:
            record["error"] = without_secrets(error)
        record["digest"] = _digest(record, history)
        part = self.root / ".part" / run.fingerprint  # on the same file system, so that renaming is one step
        for folder in (part, run.folder):
            self._inside(folder)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _write(part / "history.csv", history)
        _write(part / "provenance.json", without_secrets(_json(provenance)))
        _write(part / "run.json", _json(record))
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        before = part.with_name(f"{part.name}.before")
        if run.folder.exists():
            for kept in run.folder.glob("*.corrupt"):
                os.replace(kept, part / kept.name)
            shutil.rmtree(before, ignore_errors=True)
            os.replace(run.folder, before)
        os.replace(part, run.folder)
        shutil.rmtree(before, ignore_errors=True)

    def _inside(self, folder: Path) -> None:
        if link := next(iter(_links(self.root, folder)), None):
            raise InputError(
                f"runtime.results: {link} is a link; allowed: folders, so that runs stay below {self.root}"
            )


def _links(root: Path, folder: Path) -> list[Path]:
    """Links among a folder and those above it, up to the ledger's own, which may be one."""
    return [place for place in (folder, *folder.parents) if root in place.parents and place.is_symlink()]


def read(folder: Path, aside: bool = True) -> Record | None:
    """The record in a run's folder, or None. A damaged `run.json` is set aside as `run.json.corrupt`, and said so.

    Args:
        folder: of a run.
        aside: False where the folder may be anyone's: what is in it stays as it is.
    """
    file = folder / "run.json"
    reason = ""
    for attempt in range(ATTEMPTS if folder.is_dir() else 0):
        if attempt:  # another process may be putting a new record in its place at this very moment
            time.sleep(PAUSE)
        try:
            record: Record = json.loads(file.read_bytes().decode())
            history = (folder / "history.csv").read_bytes().decode()
            digest = record.pop("digest")
            if digest == _digest(record, history):
                return record
            reason = "altered"
        except FileNotFoundError:
            reason = ""
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            reason = "not readable"
    if not aside or not reason:
        return None
    os.replace(file, f"{file}.corrupt")
    where = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    print(f"warning: {where}: {reason}; set aside as run.json.corrupt, the run counts as not trained", file=sys.stderr)
    return None


def history_csv(rows: list[Row]) -> str:
    """A history as text: the columns of the first row, then those that later rows add; empty where unknown."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return text.getvalue()


def history_rows(text: str) -> list[Row]:
    """The rows of a `history.csv`."""
    return [{k: float(v) if v else None for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _shown(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what differs between machines and changes nothing."""
    return {key: value for key, value in config.items() if key not in SHOW_AND_SPEED}


def _digest(record: Record, history: str) -> str:
    content = json.dumps(record, sort_keys=True) + hashlib.sha256(history.encode()).hexdigest()
    return hashlib.sha256(content.encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _write(file: Path, text: str) -> None:
    with file.open("w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
