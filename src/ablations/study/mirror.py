"""wandb as a mirror of the ledger: offline unless WANDB_MODE says otherwise, and never a reason for a run to stop."""

import os
import shutil
import sys
from typing import Any

from ablations.settings import ROOT, one_line
from ablations.study.compose import Run

PATIENCE = 20.0  # seconds for wandb's server to answer


class Mirror:
    """One run in wandb: group = study, job type = variant, config at init, each row as it is read.

    Any failure of wandb is told once and ends the mirroring, nothing else.

    Args:
        run: to mirror.
    """

    def __init__(self, run: Run) -> None:
        self._run: Any = None
        self._failed = not run.config["logger"]["wandb"] or os.environ.get("WANDB_MODE") == "disabled"
        self.id = f"{run.budget}-{run.study}-{run.variant}-s{run.seed}-{run.fingerprint[:6]}"[-120:]
        self._guard(lambda: self._begin(run))

    def log(self, row: dict[str, float | None]) -> None:
        """Mirrors a row of the history under its own step."""
        values = {name: value for name, value in row.items() if value is not None}
        self._guard(lambda: self._run.log(values, step=int(values["step"])))

    def finish(self, exit_code: int, metrics: dict[str, Any] | None = None) -> None:
        """Ends the run with the exit code that the run itself ends with."""
        self._guard(lambda: self._run.summary.update(metrics or {}))
        self._guard(lambda: self._run.finish(exit_code=exit_code))

    def _guard(self, action: Any) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # a dead service, a full or read-only disk, no network: all wandb's own
            self._failed = True
            print(f"warning: wandb: {one_line(error)}; the run goes on without it", file=sys.stderr)

    def _begin(self, run: Run) -> None:
        mode = os.environ.get("WANDB_MODE", "offline")
        if mode != "offline":
            try:
                self._init(run, mode)
                return
            except Exception as error:
                reason = f"{one_line(error)}; this run is mirrored offline, `wandb sync` sends it later"
                print(f"warning: wandb: WANDB_MODE={mode}: {reason}", file=sys.stderr)
        for part in (ROOT / "wandb").glob(f"offline-run-*-{self.id}"):
            # a resumed run sends its whole history again, so an earlier part has nothing to add
            shutil.rmtree(part, ignore_errors=True)
        self._init(run, "offline")

    def _init(self, run: Run, mode: Any) -> None:
        import wandb

        if mode == "online" and not wandb.login(prompt=False):
            raise ConnectionError("no account is logged in")
        self._run = wandb.init(
            project=run.config["logger"]["project"],
            id=self.id,
            name=f"{run.study}/{run.variant} s{run.seed}",
            group=run.study,
            job_type=run.variant,
            tags=[run.budget],
            config={key: value for key, value in run.config.items() if key not in ("runtime", "logger")},
            dir=ROOT,
            mode=mode,
            resume=None if mode == "offline" else "allow",
            reinit="finish_previous",
            settings=wandb.Settings(
                console="off",
                disable_git=True,
                init_timeout=PATIENCE,
                save_code=False,
                silent=True,
                symlink=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
                x_transaction_log_flush_interval=1,
            ),
        )
