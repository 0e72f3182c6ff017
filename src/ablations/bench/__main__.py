"""`python -m ablations.bench`: how fast the project is: ratios of two things timed in turn or, where there is
nothing to hold a time against, seconds.

Prints one table and writes `reports/bench.json`, a list of `{figure, value, bar, samples}`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from ablations.bench import figures
from ablations.bench.figures import middle
from ablations.data.prepare import prepare
from ablations.settings import ROOT, InputError, command

ROUNDS = 5
STEPS = {"everything": 50, "no_probes": 50, "bare": 25, "nanogpt": 15, "products": 15}  # 50: one reading of the probes


class Figure(NamedTuple):
    """A figure, what it is to reach, and the samples whose median it is."""

    figure: str
    value: float
    bar: str
    samples: list[float]

    @property
    def reached(self) -> bool:
        """Whether the value is within its bar."""
        side, _, limit = self.bar.partition(" ")
        return self.value <= float(limit) if side == "<=" else self.value >= float(limit)


class Worker:
    """A process that takes steps when told to."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        arguments = [sys.executable, "-m", "ablations.bench.worker", kind]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(arguments, cwd=ROOT, env=figures.environment(), text=True, **pipes)
        self._answer()

    def ask(self, steps: int) -> None:
        """Starts so many steps."""
        self.process.stdin.write(f"{steps}\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def step_seconds(self, steps: int | None = None) -> float:
        """Seconds per step, over as many as its kind takes."""
        steps = steps or STEPS[self.kind]
        self.ask(steps)
        return self.answer(steps)

    def _answer(self) -> float:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"the worker of {self.kind} ended")
        return float(line)

    def answer(self, steps: int) -> float:
        """Seconds per step of those started."""
        return self._answer() / steps


@contextmanager
def workers(*kinds: str) -> Iterator[list[Worker]]:
    """Workers of these kinds, ended in the end."""
    begun = [Worker(kind) for kind in kinds]
    try:
        yield begun
    finally:
        for worker in begun:
            worker.process.kill()
            worker.process.wait()


def step_figures() -> list[Figure]:
    """Step times against each other, all kinds in turn."""
    rounds: list[dict[str, float]] = []
    with workers(*STEPS) as all_kinds:
        for _ in range(ROUNDS):
            rounds.append({worker.kind: worker.step_seconds() for worker in all_kinds})
    ratios = {
        "step_vs_nanogpt": ("everything", "nanogpt", "<= 0.80"),
        "roofline": ("products", "everything", ">= 0.75"),
        "everything_on": ("everything", "bare", "<= 1.03"),
        "probes_on": ("everything", "no_probes", "<= 1.02"),
    }
    found = []
    for name, (one, other, bar) in ratios.items():
        samples = [seconds[one] / seconds[other] for seconds in rounds]
        found.append(Figure(name, middle(samples), bar, samples))
    return found


def side_by_side() -> Figure:
    """Throughput of two runs at once against one."""
    samples = []
    with workers("everything", "everything") as pair:
        for _ in range(ROUNDS):
            alone = pair[0].step_seconds()
            for worker in pair:
                worker.ask(STEPS[worker.kind])
            both = [worker.answer(STEPS[worker.kind]) for worker in pair]
            samples.append(sum(alone / seconds for seconds in both))
    return Figure("side_by_side", middle(samples), ">= 1.85", samples)


def others() -> Iterator[Figure]:
    """What is timed by commands of its own."""
    for name, bar, measured in (
        ("run_fixed_seconds", "<= 1.0", figures.run_fixed),
        ("noop_repro_seconds", "<= 4", figures.noop_repro),
        ("plan_seconds", "<= 4", figures.plan_seconds),
        ("tokenizer_vs_library", "<= 5", figures.tokenizer_ratio),
    ):
        samples = measured()
        yield Figure(name, middle(samples), bar, samples)
    small, large = ([figures.report_seconds(runs) for _ in range(n)] for runs, n in ((50, 3), (5000, 1)))
    yield Figure("report_growth", middle(large) / middle(small), "<= 110", [large[0] / seconds for seconds in small])
    yield Figure("report_seconds_5000", middle(large), "<= 60", large)


def measured() -> Iterator[Figure]:
    """All figures, one after the other."""
    yield from step_figures()
    yield side_by_side()
    yield from others()


@command
def main(arguments: list[str]) -> int:
    """Measures, prints, writes; exit code 1 where a bar is missed."""
    if arguments:
        raise InputError(f"{arguments[0]}: not known; allowed: no argument")
    prepare()
    console = Console(highlight=False)
    found: list[Figure] = []
    with Console(stderr=True).status("measuring: about eight minutes; best with nothing else running") as status:
        for figure in measured():
            found.append(figure)
            status.update(f"measuring: {figure.figure} is done, {len(found)} of 11")
    table = Table("figure", "value", "to reach", "from", "to", "", box=None, header_style="bold")
    for f in found:
        low, high = f"{min(f.samples):.3f}", f"{max(f.samples):.3f}"
        table.add_row(f.figure, f"{f.value:.3f}", f.bar, low, high, "" if f.reached else "missed")
    console.print(table)
    file = ROOT / "reports" / "bench.json"
    file.parent.mkdir(exist_ok=True)
    rows = [{"figure": f.figure, "value": f.value, "bar": f.bar, "samples": f.samples} for f in found]
    file.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(f.reached for f in found) else 1


if __name__ == "__main__":
    sys.exit(main())
