"""`python -m ablations.browse`: wandb's terminal dashboard over all runs, the newest study first.

Without a terminal it prints the names under which the dashboard would show them.
"""

import os
import shutil
import sys
from pathlib import Path

from ablations.settings import ROOT, InputError, command
from ablations.study.mirrored import Mirrored, mirrored

FARM = ROOT / ".work" / "leet"
WIDTH = 32  # of a name that the dashboard shows whole, unless the terminal is very wide


@command
def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments:
        raise InputError(f"{' '.join(arguments)}: not known; allowed: no argument")
    shown = names(mirrored())
    if not shown:
        raise InputError("wandb: no run there; allowed: runs trained without WANDB_MODE=disabled, as by `make quick`")
    if not sys.stdout.isatty():
        print("\n".join(shown))
        return
    plant(shown)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # looking at one's own files is nothing to tell a server
    os.execv(sys.executable, [sys.executable, "-m", "wandb", "leet", str(FARM)])


def names(runs: list[Mirrored]) -> dict[str, Mirrored]:
    """Runs by the name they are shown under, in the order of the dashboard, which sorts by it: the newest study is 01.

    A run that was trained anew after an edit is shown as it is now; what it was before comes last, with its identity.
    """
    newest: dict[tuple[str, str, str, int], Mirrored] = {}
    earlier: dict[tuple[str, str, str, int, str], Mirrored] = {}
    for run in runs:
        if newest.setdefault(run.cell, run).identity != run.identity:
            earlier.setdefault((*run.cell, run.identity), run)
    found: dict[str, Mirrored] = {}
    studies = list(dict.fromkeys((run.budget, run.study) for run in runs))
    for place, study in enumerate(studies, 1):
        those = {f"{run.variant} s{run.seed}": run for run in newest.values() if (run.budget, run.study) == study}
        room = max(8, WIDTH - len("run-00  ") - max(map(len, those)))
        label = study[1] if len(study[1]) <= room else f"…{study[1][1 - room :]}"
        found |= {f"run-{place:02} {label} {name} {study[0]}": run for name, run in those.items()}
    for run in earlier.values():
        words = f"{run.study} {run.variant} s{run.seed} {run.budget} {run.identity}"
        found[f"run-{len(studies) + 1:02} before: {words}"] = run
    return dict(sorted(found.items()))


def plant(shown: dict[str, Mirrored]) -> None:
    """Makes a folder per run with a link to its log.

    The dashboard lists a folder that begins with `run-`, by its name where no time follows; and it looks for the log by
    what stands behind the last `run-<time>-`, here at the end of the name, where a narrow column cuts it off.
    """
    wanted = {f"{name}  run-{run.made}-x": run for name, run in shown.items()}
    FARM.mkdir(parents=True, exist_ok=True)
    for folder in FARM.glob("run-*"):
        if folder.name not in wanted:
            shutil.rmtree(folder)
    for name, run in wanted.items():
        link = FARM / name / "run-x.wandb"
        link.parent.mkdir(exist_ok=True)
        if not (link.is_symlink() and Path(os.readlink(link)) == run.log):
            link.unlink(missing_ok=True)
            link.symlink_to(run.log)


if __name__ == "__main__":
    sys.exit(main())
