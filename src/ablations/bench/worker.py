"""`python -m ablations.bench.worker KIND`: a process that takes steps when told how many, and tells how long they took.

It reads numbers of steps from its standard input, a line each, and answers each with seconds.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ablations.study import compose
from ablations.study.compose import Run
from ablations.study.memory import keep_freed_memory

VARIANT = "ladder/layer_norm"  # the chapter's one block
WARM = 8  # steps that are not timed
ENDLESS = 10**6


class Gate:
    """Lets steps pass: after each asked-for number of them it tells the time they took, and waits for the next."""

    def __init__(self) -> None:
        self.left, self.began = WARM, time.perf_counter()

    def passed(self, *_: Any) -> None:
        """After each step."""
        self.left -= 1
        if self.left > 0:
            return
        print(time.perf_counter() - self.began, flush=True)
        asked = sys.stdin.readline().strip()
        if not asked:
            raise SystemExit(0)
        self.left, self.began = int(asked), time.perf_counter()


def run_of(**changes: Any) -> Run:
    """The measured run, with other settings."""
    with compose.hydra():
        return compose.composed([f"variant={VARIANT}", *(f"{name}={value}" for name, value in changes.items())])


def everything(gate: Gate, probe_every: int | None = None) -> None:
    """As a run is trained: Lightning, wandb offline, history, probes, checkpoints, progress."""
    from ablations.study.board import Post
    from ablations.study.mirror import Mirror
    from ablations.training.run import train

    run = run_of(steps=ENDLESS, **({} if probe_every is None else {"probe.every": probe_every}))
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        post, mirror = Post(Path(folder) / "0", run.name, ENDLESS), Mirror(run, Path(folder))

        def on_step(step: int, loss: float) -> None:
            post.step(step, loss)
            gate.passed()

        train(run.config, Path(folder), mirror.log, on_step)


def bare(gate: Gate) -> None:
    """The same model, data, loss and optimizer in a loop, and nothing else."""
    from ablations.training.build import build_data, build_model
    from ablations.training.module import Training

    config = run_of().config
    keep_freed_memory()
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    adamw = Training(model, data, config["optimizer"], 0, 0).configure_optimizers()
    for x_BxT, y_BxT in batches(data):
        loss = model.loss(x_BxT, y_BxT)
        adamw.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adamw.step()
        loss.item()
        gate.passed()


def nanogpt(gate: Gate) -> None:
    """The stand-in for nanoGPT, of the same shape, on the same batches."""
    from ablations.bench.nanogpt import GPT, optimizer, step
    from ablations.training.build import build_data

    config = run_of().config
    data = build_data(config)
    model = GPT(
        data.vocabulary, config["data"]["window"], config["model"]["width"], config["model"]["mixer"]["heads"], 1
    )
    adamw = optimizer(model)
    for x_BxT, y_BxT in batches(data):
        step(model, adamw, x_BxT, y_BxT)
        gate.passed()


def products(gate: Gate) -> None:
    """The matrix products of one step and nothing else: sgemm on their shapes, into memory that is there."""
    config = run_of().config
    keep_freed_memory()
    pairs = [(torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in shapes(config)]
    while True:
        for a, b, out in pairs:
            torch.mm(a, b, out=out)
        gate.passed()


def shapes(config: dict[str, Any], vocabulary: int = 1024) -> list[tuple[int, int, int]]:
    """(m, k, n) of every product of a step's linear layers: forward, to the input, to the weight. Attention's own
    products, of 32 columns per head, are left out: no sgemm does those as they are.
    """
    d, n = config["model"]["width"], config["data"]["batch"] * config["data"]["window"]
    inner = round(d * config["model"]["feedforward"]["inner"])
    layers = [(d, 3 * d), (d, d), (d, inner), (inner, d), (d, vocabulary)]
    return [shape for i, o in layers for shape in ((n, i, o), (n, o, i), (o, n, i))]


def batches(data: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """All batches there will ever be."""
    index = 0
    while True:
        yield data.batch(index)
        index += 1


KINDS: dict[str, Callable[[Gate], None]] = {
    "everything": everything,
    "no_probes": lambda gate: everything(gate, probe_every=ENDLESS),
    "bare": bare,
    "nanogpt": nanogpt,
    "products": products,
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    KINDS[sys.argv[1]](Gate())
