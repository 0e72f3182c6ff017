"""What the runs of one command are doing: each writes a small file, the command shows them and counts the verdict."""

import json
import math
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ablations.study.cost import rate, remember, seconds
from ablations.study.keep import keep

SETTLED = ("done", "diverged", "failed", "kept", "lost")
ENDED = (*SETTLED, "stopped")
GOOD = ("done", "kept")
ATTEMPTS = 3  # times that a run is taken up by one command when its process is killed and it got no farther
PATIENCE = 0.3  # seconds between two writes of a run's place on the board
ENOUGH = 3.0  # seconds of training steps before their speed is believed
CHECKED_EVERY = 3.0  # seconds between two lines about how far a check is
PLAIN_EVERY = 15.0  # seconds between two lines where the output is no terminal

Place = dict[str, Any]


class Post:
    """One run's place on the board.

    Args:
        folder: of this job alone.
        name: of the run.
        steps: it will take.
    """

    def __init__(self, folder: Path, name: str, steps: int) -> None:
        self.file = folder / "status.json"
        self.earlier = read(self.file) or {}
        farther = self.earlier.get("step", 0) > self.earlier.get("reached", 0)
        self.place: Place = {
            "name": name,
            "state": "starting",
            "step": 0,
            "steps": steps,
            "began": time.time(),
            "attempt": 1 if farther else self.earlier.get("attempt", 0) + 1,
            "reached": self.earlier.get("step", 0),
        }
        self._written = self._first = 0.0
        self._smooth: float | None = None
        if not self.ended:
            self.say()

    @property
    def ended(self) -> bool:
        """Whether the job has nothing left to do: it ended before its pool broke, or was killed too often."""
        if self.earlier and self.earlier["state"] not in ENDED and self.place["attempt"] > ATTEMPTS:
            self.say(state="lost", message=f"its process was killed {ATTEMPTS} times; the next start goes on")
            return True
        return self.earlier.get("state") in SETTLED  # one that was stopped goes on where a scheduler starts it again

    def step(self, step: int, loss: float) -> None:
        """After each training step; the perplexity shown is that of a running mean of the loss."""
        if self._smooth is None:
            self.place["first_step"], self._first = step, time.monotonic()
        self._smooth = loss if self._smooth is None else 0.9 * self._smooth + 0.1 * loss
        if time.monotonic() - self._written > PATIENCE or step == self.place["steps"]:
            shown = math.exp(self._smooth) if self._smooth < 700 else None
            self.say(state="training", step=step, perplexity=shown, training=time.monotonic() - self._first)

    def say(self, **changes: Any) -> None:
        """Updates the place: `state`, `step`, `perplexity`, `message`. A board that cannot be written is no matter."""
        self.place |= changes | {"seconds": time.time() - self.place["began"]}
        self._written = time.monotonic()
        keep(self.file, self.place)


def places(board: Path) -> list[Place]:
    """All places on a board, in the order of their names."""
    found = []
    for file in board.rglob("status.json"):
        if (place := read(file)) is not None:
            found.append(place)
    return sorted(found, key=lambda place: place["name"])


def read(file: Path) -> Place | None:
    """One place; None where it is not there, or being written at this moment."""
    try:
        place: Place = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return place


def broken(board: Path) -> bool:
    """Whether jobs ended without a word, as when their worker is killed, and none was asked to stop."""
    states = {place["state"] for place in places(board)}
    return not states <= set(ENDED) and "stopped" not in states


class Watch:
    """Shows a board while its runs go on: in place on a terminal, a line now and then elsewhere.

    Args:
        board: its folder.
        costs: of all runs that count, by name; the sweep's own or, in a stage of DVC, the whole study's.
        finished: names of those that were finished before.
    """

    def __init__(self, board: Path, costs: Mapping[str, float], finished: set[str]) -> None:
        self.board, self.costs, self.before = board, costs, finished
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._places: dict[Path, Place] = {}
        self._rate = rate()
        self._next_line = time.monotonic() + PLAIN_EVERY

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if (speed := self._speed()) is not None:
            remember(speed)

    def _show(self) -> None:
        if self.console.is_terminal:
            with Live(console=self.console, auto_refresh=False, transient=True) as live:
                while not self._stop.wait(0.5):
                    self._look()
                    live.update(Text("\n  ".join([self._summary(), *self._running()])), refresh=True)
        else:
            while not self._stop.wait(0.5):
                self._look()
                if time.monotonic() > self._next_line:
                    self._next_line += PLAIN_EVERY
                    self.console.print(Text("; ".join([self._summary(), *self._running()])))
        self._look()

    def _look(self) -> None:
        """Reads the places that can have changed, and prints one lasting line for each run that has ended since."""
        for file in self.board.rglob("status.json"):
            if file in self._places and self._places[file]["state"] in SETTLED:
                continue
            if (place := read(file)) is None:
                continue
            self._places[file] = place
            if place["state"] in SETTLED:  # those that were stopped, `told` names at the end
                self.console.print(Text(ended_line(place)))

    def _running(self) -> list[str]:
        now = [place for place in self._places.values() if place["state"] not in ENDED]
        return [running_line(place) for place in sorted(now, key=lambda place: place["name"])]

    def _speed(self) -> float | None:
        """What a worker did per second, as this command's runs have seen it so far; None before there is enough."""
        timed = [place for place in self._places.values() if place.get("training", 0.0) > 0]
        steps = [(p["step"] - p["first_step"]) / p["steps"] * self.costs.get(p["name"], 0.0) for p in timed]
        took = sum(place["training"] for place in timed)
        return sum(steps) / took if took > ENOUGH and sum(steps) > 0 else None

    def _summary(self) -> str:
        places = self._places.values()
        done = self.before | {p["name"] for p in places if p["state"] in SETTLED}
        begun = {p["name"]: p["step"] / p["steps"] for p in places if p["state"] not in ENDED}
        ahead = [cost * (1 - begun.get(name, 0.0)) for name, cost in self.costs.items() if name not in done]
        left = seconds(ahead, self._speed() or self._rate)
        return f"{len(done & set(self.costs))}/{len(self.costs)} runs, about {duration(left)} left"


class Progress:
    """Tells on stderr how far a check of many things is, where that takes longer than a moment.

    Args:
        many: there are.
        what: they are.
    """

    def __init__(self, many: int, what: str) -> None:
        self.many, self.what = many, what
        self._began = self._told = time.monotonic()

    def __call__(self, number: int) -> None:
        """Before the one of this number, which counts from 0."""
        now = time.monotonic()
        if number and now - self._told > CHECKED_EVERY:
            self._told = now
            left = duration((now - self._began) / number * (self.many - number))
            print(f"checked {number} of {self.many} {self.what}, about {left} left", file=sys.stderr)


def running_line(place: Place) -> str:
    """`ladder/four_heads seed 0: step 40/60, perplexity 301.2`."""
    if place["state"] != "training":
        return f"{place['name']}: {place['state']}"
    shown = place.get("perplexity")
    perplexity = "-" if shown is None else f"{shown:.1f}"
    return f"{place['name']}: step {place['step']}/{place['steps']}, perplexity {perplexity}"


def ended_line(place: Place) -> str:
    """`done     ladder/four_heads seed 0  perplexity 201.70  (17 s)`."""
    shown = place.get("perplexity")
    perplexity = f"  perplexity {shown:.2f}" if shown is not None and place["state"] in GOOD else ""
    message = f"  {place['message']}" if place.get("message") else ""
    took = "" if place["state"] == "kept" else f"  ({duration(place['seconds'])})"
    return f"{place['state']:<9}{place['name']}{perplexity}{message}{took}"


def duration(span: float) -> str:
    """`8 s`, `3 min`, `2.5 h`."""
    if span < 90:
        return f"{span:.0f} s"
    return f"{span / 60:.0f} min" if span < 5400 else f"{span / 3600:.1f} h"


def told(places: list[Place], expected: list[str], accept_diverged: bool) -> int:
    """Names the runs that came to no good on stderr.

    Returns:
        0 if all `expected` runs are there, else 1. A diverged run is one to name, but no error, where it is accepted.
    """
    by_name = {place["name"]: place for place in places}
    bad = 0
    for name in expected:
        place = by_name.get(name, {"state": "not run", "message": "the sweep ended before it"})
        if place["state"] in GOOD or (place["state"] == "diverged" and accept_diverged):
            continue
        state = "lost" if place["state"] in ("starting", "training") else place["state"]
        lost = "its process ended; the next start goes on" if state == "lost" else "a finished run of the ledger"
        print(f"{state}: {name}: {place.get('message') or lost}", file=sys.stderr)
        bad += 1
    return 1 if bad else 0
