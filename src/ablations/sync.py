"""`python -m ablations.sync [dry=yes] [entity=NAME] [project=NAME]`: all offline runs, sent to wandb, each once.

A run that is under way, or stopped and not yet gone on with, waits until it has ended, and is sent in one piece.
`dry=yes` lists what would be sent and needs no account.
"""

import os
import subprocess
import sys
import time

from ablations.settings import ROOT, command, options
from ablations.study.mirror import require_account
from ablations.study.mirrored import Mirrored, mirrored

LOG = ROOT / ".work" / "sync.log"


@command
def main(arguments: list[str]) -> int:
    """See the module. Exit code 1 where a run could not be sent, or is damaged, and is named."""
    given = options(arguments, "dry=yes|no", "entity=NAME", "project=NAME", dry="no")
    offline = [run for run in reversed(mirrored()) if run.folder.name.startswith("offline-")]
    sent = sum(run.sent for run in offline)
    waiting = [run for run in offline if not run.sent and not run.whole]
    ended = [run for run in offline if not run.sent and run.whole]
    damaged = [run for run in ended if run.damaged]
    due = [run for run in ended if run not in damaged]
    for run in damaged:
        print(f"damaged, and not to be sent: {run.name}: {run.log.relative_to(ROOT)}", file=sys.stderr)
    if given["dry"] == "yes" or not due:
        for run in due:
            print(f"would send {run.name}: {run.folder.relative_to(ROOT)}")
        for run in waiting:
            print(f"waits until it has ended: {run.name}")
        print(f"{len(due)} to send, {len(waiting)} not ended yet, {sent} sent before")
        return 1 if damaged else 0
    require_account()
    left = send(due, [f"--{name}={given[name]}" for name in ("entity", "project") if name in given])
    for run in left:
        print(f"not sent: {run.name}", file=sys.stderr)
    if left:
        print(
            f"wandb's own words are in {LOG.relative_to(ROOT)}; what was not sent, the next start sends",
            file=sys.stderr,
        )
    return 1 if left or damaged else 0


def send(due: list[Mirrored], flags: list[str]) -> list[Mirrored]:
    """Gives runs to `wandb sync` and tells of each when wandb has marked it as sent. Returns those it has not."""
    LOG.parent.mkdir(exist_ok=True)
    left = list(due)
    with LOG.open("w") as log:
        words = [sys.executable, "-m", "wandb", "sync", *flags, *(str(run.folder) for run in due)]
        said = os.environ | {"WANDB_SILENT": "false"}  # in the log, what wandb says is wanted
        process = subprocess.Popen(words, cwd=ROOT, env=said, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while left:
                ended = process.poll() is not None
                for run in [run for run in left if run.sent]:
                    left.remove(run)
                    print(f"sent {run.name} ({len(due) - len(left)}/{len(due)})", flush=True)
                if ended:
                    break
                time.sleep(0.2)
            process.wait()
        finally:
            process.terminate()
    return left


if __name__ == "__main__":
    sys.exit(main())
