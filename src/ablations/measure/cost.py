"""`cost`: what attention costs in time and memory as the sequence grows (chapter, section J).

One layer, 512 wide, 8 heads, batch 1, float32, forward only, one thread. Bytes are counted allocation by allocation, so
they are exact and the same in each run. Milliseconds are those of the fastest call, since all that disturbs one, as
memory that the system hands out for the first time, only makes it slower.
"""

import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from ablations.measure.result import Result
from ablations.model.mixer.attention import Attention
from ablations.model.position.base import Position

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else torch's profiler tells each start and stop of its own

WIDTH, HEADS = 512, 8
SIZES = tuple(2**i for i in range(7, 15))
FITTED = 4  # rows that the exponent is fitted to
SECONDS = 2.0  # of repetitions per figure
MB = 2**20
KINDS = ("written_out", "fused")

Forward = Callable[[Tensor], Tensor]


def peak_bytes(forward: Forward, x: Tensor) -> int:
    """The most that is allocated at once while `forward` runs, over what is there before."""
    if x.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        forward(x)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        out = forward(x)
    del out
    assert profiler.profiler is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(max(np.cumsum(changes), default=0))


def milliseconds(forward: Forward, x: Tensor, seconds: float = SECONDS) -> float:
    """Time of the fastest call, out of as many as `seconds` allow, two at least."""
    taken: list[float] = []
    while len(taken) < 2 or (sum(taken) < seconds and len(taken) < 200):
        began = time.perf_counter()
        forward(x)
        if x.device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return 1000 * min(taken)


def extrapolated(peaks: dict[int, int], n: int) -> int:
    """The peak at `n`, from those at the three largest smaller sizes: a polynomial of second degree, without error."""
    known = sorted(peaks)[-3:]
    if len(known) < 3:
        return 0
    total = 0.0
    for i in known:
        others = [j for j in known if j != i]
        total += peaks[i] * math.prod((n - j) / (i - j) for j in others)
    return round(total)


def memory_at_hand(device: torch.device) -> int:
    """Bytes that can be allocated now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope of a line through the last rows on logarithmic axes."""
    return float(np.polyfit(np.log(sizes[-FITTED:]), np.log(values[-FITTED:]), 1)[0])


def measure(device: str = "cpu", sizes: tuple[int, ...] = SIZES) -> list[Result]:
    """Per size and kind: time, that of the projections alone, bytes of the matrix, peak bytes; fitted exponents."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.device(device), torch.no_grad():
        attention, position = Attention(WIDTH, heads=HEADS, project=True), Position(WIDTH)
        weights = sum(p.numel() * p.element_size() for p in attention.parameters())
        ways: dict[str, Forward] = {
            "written_out": lambda x: attention.written_out(x, position),
            "fused": lambda x: attention(x, position),
        }
        rows: list[dict[str, Any]] = []
        peaks: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
        for n in sizes:
            x = torch.randn(1, n, WIDTH)
            row: dict[str, Any] = {"row": f"n = {n}", "variant": f"n_{n}"}
            row["projections_ms"] = milliseconds(lambda x: attention.output(attention.qkv(x)[..., :WIDTH]), x)
            row["matrix_mb"] = HEADS * n * n * 4 / MB
            for kind, forward in ways.items():
                needed = weights + x.nbytes + extrapolated(peaks[kind], n)
                if needed > memory_at_hand(x.device):
                    row |= {f"{kind}_ms": f"out of memory (needs {needed / MB:,.0f} MB)", f"{kind}_peak_mb": ""}
                    continue
                peaks[kind][n] = peak_bytes(forward, x)
                row[f"{kind}_peak_mb"] = (weights + x.nbytes + peaks[kind][n]) / MB
                row[f"{kind}_ms"] = milliseconds(forward, x)
            rows.append(row)
    return [
        Result("cost", "J. The cost of one attention layer, 512 wide, 8 heads, one thread", _with_ratios(rows)),
        Result("cost_exponents", f"J. Fitted exponents of n, last {FITTED} sizes", _exponents(rows)),
    ]


def _with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each figure followed by its ratio to the row above."""
    told = []
    for above, row in zip([{}, *rows], rows):
        line: dict[str, Any] = {name: row[name] for name in ("row", "variant", "projections_ms", "matrix_mb")}
        for kind in KINDS:
            for figure in (f"{kind}_ms", f"{kind}_peak_mb"):
                now, before = row[figure], above.get(figure)
                both = isinstance(now, float) and isinstance(before, float)
                line |= {figure: now, f"{figure}_ratio": now / before if both else None}
        told.append(line)
    return told


def _exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fits = []
    for kind in KINDS:
        done = [row for row in rows if isinstance(row[f"{kind}_ms"], float)]
        sizes = [int(row["variant"].removeprefix("n_")) for row in done]
        fit: dict[str, Any] = {"row": kind.replace("_", " "), "variant": kind}
        for name in ("ms", "peak_mb"):
            fit[name.replace("ms", "time").replace("peak_mb", "memory")] = exponent(
                sizes, [row[f"{kind}_{name}"] for row in done]
            )
        fits.append(fit)
    return fits
