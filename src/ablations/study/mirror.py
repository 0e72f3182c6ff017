"""wandb as a mirror of the ledger: offline unless WANDB_MODE says otherwise, and never a reason for a run to stop."""

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from ablations.settings import ROOT, InputError, one_line
from ablations.study.compose import Run

PATIENCE = 20.0  # seconds for wandb's server to answer
LONGEST = 120  # characters of an id, which wandb allows 128
MODES = ("offline", "online", "disabled")
WHOLE = "whole"  # in a run's folder: the run has ended, and nothing will be added


def mode() -> str:
    """What `WANDB_MODE` says; offline where it says nothing.

    Raises:
        InputError: another word.
    """
    said = os.environ.get("WANDB_MODE") or "offline"
    if said not in MODES:
        raise InputError(f"WANDB_MODE: {said}; allowed: {', '.join(MODES)}")
    return said


def id_of(run: Run) -> str:
    """`<budget>-<study>-<variant>-s<seed>-<identity>`, as `study/mirrored.py` reads it; of a long variant its
    end, which tells sweeps by hand apart.
    """
    before, after = f"{run.budget}-{run.study}-", f"-s{run.seed}-{run.fingerprint[:6]}"
    return before + run.variant[-max(1, LONGEST - len(before + after)) :] + after


def cut_off() -> set[str]:
    """The ids of runs in wandb's folder that are not whole: under way, stopped, or killed as they ended."""
    folders = (ROOT / "wandb").glob("offline-run-*")
    return {folder.name.split("-", 3)[-1] for folder in folders if not (folder / WHOLE).exists()}


class Mirror:
    """One run in wandb: group = study, job type = variant, config at init, each row as it is read.

    A service of wandb's that dies is started again, once, and told all rows anew. Any other failure is told once and
    ends the mirroring, nothing else.

    Args:
        run: to mirror.
        folder: in which wandb keeps what it has not sent.
    """

    def __init__(self, run: Run, folder: Path = ROOT) -> None:
        self._of, self._folder = run, folder
        self._run: Any = None
        self._rows: list[dict[str, float]] = []
        self._again = True
        self._failed = not run.config["logger"]["wandb"] or mode() == "disabled"
        self.id = id_of(run)
        self._guard(lambda: self._begin(run))

    def log(self, row: dict[str, float | None]) -> None:
        """Mirrors a row of the history under its own step."""
        self._rows.append({name: value for name, value in row.items() if value is not None})
        self._guard(lambda: self._log(self._rows[-1]))

    def finish(self, exit_code: int, metrics: dict[str, Any] | None = None) -> None:
        """Ends the run with the exit code that the run itself ends with."""
        self._guard(lambda: self._run.summary.update(metrics or {}))
        self._guard(lambda: self._run.finish(exit_code=exit_code))
        if exit_code in (0, 1):  # not where a signal stopped it: such a run goes on, and is sent when it is whole
            self._guard(lambda: (Path(self._run.dir).parent / WHOLE).touch())

    def _guard(self, action: Any) -> None:
        if self._failed:
            return
        try:
            try:
                action()
            except ConnectionError:
                if not self._again:
                    raise
                self._again = False
                self._restart()
                action()
        except Exception as error:  # a dead service, a full or read-only disk, no network: all wandb's own
            self._failed = True
            print(f"warning: wandb: {one_line(error)}; the run goes on without it", file=sys.stderr)

    def _log(self, values: dict[str, float]) -> None:
        self._run.log(values, step=int(values["step"]))

    def _restart(self) -> None:
        import wandb

        with contextlib.suppress(Exception):  # it forgets the dead service first, and then fails to say farewell to it
            wandb.teardown()
        self._begin(self._of)
        for values in self._rows:
            self._log(values)

    def _begin(self, run: Run) -> None:
        if mode() != "offline":
            try:
                self._init(run, mode())
                return
            except Exception as error:
                reason = f"{one_line(error)}; this run is mirrored offline, `make sync` sends it later"
                print(f"warning: wandb: WANDB_MODE={mode()}: {reason}", file=sys.stderr)
        for part in (self._folder / "wandb").glob(f"offline-run-{'?' * 8}_{'?' * 6}-{self.id}"):
            # a resumed run sends its whole history again, so an earlier part has nothing to add
            shutil.rmtree(part, ignore_errors=True)
        self._init(run, "offline")

    def _init(self, run: Run, mode: Any) -> None:
        _find_a_cache(self._folder / ".work" / "cache")
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
            dir=self._folder,
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


def _find_a_cache(instead: Path) -> None:
    """wandb's service writes into the user's cache; where there is none, as for a container's user without a home, it
    would complain on the terminal at each run.
    """
    if "XDG_CACHE_HOME" in os.environ:
        return
    try:
        (Path(os.environ["HOME"]) / ".cache").mkdir(exist_ok=True)
    except (KeyError, OSError):
        os.environ["XDG_CACHE_HOME"] = str(instead)


def require_account() -> None:
    """Asks wandb's server, unless there is no key to ask with.

    Raises:
        InputError: no account is logged in, or the server does not know it or does not answer.
    """
    os.environ |= {"WANDB_MODE": "online", "WANDB_SILENT": "true"}  # any other mode is meant for training
    import wandb

    allowed = "allowed: `wandb login` once, or WANDB_API_KEY"
    try:
        known = wandb.login(prompt=False)
    except Exception as error:  # whatever wandb makes of a key, or of no network
        raise InputError(f"wandb: {one_line(error)}; {allowed}, and a network") from error
    if not known:
        raise InputError(f"wandb: no account is logged in; {allowed}")
