"""One job of a sweep: kept, copied, or trained; and whatever happens, told to the ledger and the board."""

import functools
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ablations.settings import ROOT, InputError, one_line, without_secrets
from ablations.study.board import Post
from ablations.study.compose import Run, describe
from ablations.study.ledger import FINISHED, Ledger, Record, Row, history_csv, history_rows, read
from ablations.study.memory import keep_freed_memory
from ablations.study.mirror import Mirror, cut_off, id_of, mode
from ablations.study.provenance import commit, provenance
from ablations.study.slots import place, visible
from ablations.training import CHECKPOINT

_asked: list[int] = []


class Stopped(SystemExit):
    """Asked to stop by a signal: ends the sweep with 128 + its number, as a shell would tell."""


def job(config: DictConfig) -> None:
    """What Hydra calls for each job, here or in a worker. Only `Stopped` gets out: the rest of a sweep goes on."""
    hydra = HydraConfig.get()
    try:
        run = describe(config, hydra.runtime.choices, hydra.overrides.task)
    except InputError as error:  # what was good when the sweep began was edited since
        print(f"error: {' '.join(hydra.overrides.task)}: {one_line(error)}", file=sys.stderr)
        return
    post = Post(Path(hydra.runtime.output_dir), run.name, run.config["steps"])
    if post.ended:
        return
    handle_signals()
    _end_with_the_command()
    keep_freed_memory()
    try:
        run.work.mkdir(parents=True, exist_ok=True)
        with FileLock(run.work.with_suffix(".lock")):
            _settle(run, post)
    except Stopped as stop:
        post.say(state="stopped", message="stopped; the next start goes on from its last checkpoint")
        if _orphaned():
            os._exit(143)  # joblib's worker would wait for the next job, which never comes
        raise stop
    except Exception as error:
        post.say(state="failed", message=_reason(error))
        if not isinstance(error, InputError | OSError) and not _out_of_memory(error):
            print(without_secrets(traceback.format_exc()), end="", file=sys.stderr)


def handle_signals() -> None:
    """SIGTERM and SIGINT raise `Stopped`, where a handler can be set at all."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)


def stopped() -> int | None:
    """The exit code that a signal asked for: what a launcher's library makes of `Stopped` may be another."""
    return _asked[0] if _asked else None


def _stop(number: int, frame: Any) -> NoReturn:
    _asked.append(128 + number)
    for again in (signal.SIGTERM, signal.SIGINT):
        signal.signal(again, signal.SIG_IGN)
    raise Stopped(128 + number)


@functools.cache
def _end_with_the_command() -> None:
    """In a worker of joblib's: has it end where the command that started it is killed, of which no signal tells it."""

    def watch() -> None:
        while not _orphaned():
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    if multiprocessing.parent_process():
        threading.Thread(target=watch, daemon=True).start()


def _orphaned() -> bool:
    command = multiprocessing.parent_process()
    return command is not None and os.getppid() != command.pid


def _settle(run: Run, post: Post) -> None:
    ledger = Ledger(ROOT / run.config["runtime"]["results"])
    status = ledger.status(run)
    if status in FINISHED:
        post.say(state="kept" if status == "done" else status, message="trained before")
    elif twin := ledger.twin(run):
        _copy(run, ledger, twin, post)
    else:
        _train(run, ledger, post)


def _copy(run: Run, ledger: Ledger, twin: dict[str, Any], post: Post) -> None:
    """The same identity was trained under another name: its numbers are this run's."""
    folder: Path = twin["folder"]
    origin = f"{twin['study']}/{twin['variant']} seed {twin['seed']}"
    origin += f" at budget {twin['budget']}" if twin["budget"] != run.budget else ""
    try:
        made = json.loads((folder / "provenance.json").read_text())
    except (OSError, ValueError):  # the numbers are whole without it: it is not in their digest
        made = None
    history = (folder / "history.csv").read_text()
    ledger.write(
        run,
        twin["status"],
        twin["metrics"],
        twin.get("details", {}),
        history,
        {"copied_from": origin, "made": made},
    )
    _mirror(run, twin, history)
    state = "kept" if twin["status"] == "done" else twin["status"]
    post.say(state=state, perplexity=twin["metrics"].get("heldout_perplexity"), message=f"the same run as {origin}")


def _mirror(run: Run, record: Record, history: str) -> None:
    mirror = Mirror(run)
    for row in history_rows(history):
        mirror.log(row)
    mirror.finish(0 if record["status"] == "done" else 1, record["metrics"])


def mirror_again(runs: list[Run]) -> None:
    """Mirrors those of these finished runs once more whose mirror was cut off, as by a kill right after their end."""
    waiting = cut_off() if runs and mode() == "offline" else set()
    for run in runs:
        if id_of(run) in waiting:
            run.work.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(run.work.with_suffix(".lock")):  # else it is another process that is about to end it
                if id_of(run) in cut_off() and (record := read(run.folder)):
                    _mirror(run, record, (run.folder / "history.csv").read_text())


def _train(run: Run, ledger: Ledger, post: Post) -> None:
    # wandb listens to imports, and where its service has died, whatever imports would fail: so this comes before it
    import ablations.training.run  # noqa: F401

    started = datetime.now(UTC)
    commit()
    rows: list[Row] = []
    mirror = Mirror(run)

    def on_row(row: Row) -> None:
        rows.append(row)
        mirror.log(row)

    try:
        outcome = _attempt(run, post, on_row)
        made = provenance(run.config, started, outcome.resumed_at)
        ledger.write(run, outcome.status, outcome.metrics, outcome.details, history_csv(outcome.history), made)
        (run.work / CHECKPOINT).unlink(missing_ok=True)
    except Stopped as stop:
        mirror.finish(int(stop.code or 1))
        raise
    except Exception as error:
        mirror.finish(1)
        made = provenance(run.config, started, None)
        ledger.write(
            run, "failed", {}, {}, history_csv(rows), made | {"traceback": traceback.format_exc()}, _reason(error)
        )
        raise
    mirror.finish(0 if outcome.status == "done" else 1, outcome.metrics)
    perplexity = outcome.metrics.get("heldout_perplexity")
    message = f"diverged at step {outcome.metrics['steps']}" if outcome.status == "diverged" else None
    post.say(state=outcome.status, perplexity=perplexity, step=outcome.metrics["steps"], message=message)


def _attempt(run: Run, post: Post, on_row: Any) -> Any:
    # Lightning takes seconds to import, and the command that only hands out jobs has no use for it.
    from ablations.training.resume import CorruptCheckpoint
    from ablations.training.run import train

    with _gpu(run) as gpu:
        try:
            return train(run.config, run.work, on_row, post.step, gpu)
        except CorruptCheckpoint as error:
            print(f"warning: {run.name}: {one_line(error)}; trained anew", file=sys.stderr)
            return train(run.config, run.work, on_row, post.step, gpu)


def _gpu(run: Run) -> AbstractContextManager[int]:
    """A place on a GPU, where the run wants one."""
    runtime = run.config["runtime"]
    if runtime["accelerator"] != "gpu":
        return nullcontext(0)
    import torch

    return place(ROOT / runtime["work"] / "slots", visible(torch.cuda.device_count()), runtime["slots"])


def _out_of_memory(error: BaseException) -> bool:
    """Whether a run asked for more than there is; torch raises another error for each kind of device."""
    return isinstance(error, MemoryError) or re.search("out of memory|can't allocate memory", str(error)) is not None


def _reason(error: BaseException) -> str:
    if _out_of_memory(error):
        return "out of memory; allowed: a smaller data.batch, data.window or model"
    if isinstance(error, OSError) and error.strerror:
        return f"{os.path.relpath(error.filename, ROOT) if error.filename else 'file system'}: {error.strerror}"
    return one_line(error) if isinstance(error, InputError) else f"{type(error).__name__}: {one_line(error)}"
