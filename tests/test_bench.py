"""The bench measures what it says."""

import itertools
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ablations.bench import nanogpt, worker
from ablations.bench.__main__ import Figure, Worker
from ablations.settings import ROOT
from ablations.training.build import build_data, build_model


def test_a_bar_has_a_side() -> None:
    assert Figure("a", 0.79, "<= 0.80", []).reached and not Figure("a", 0.81, "<= 0.80", []).reached
    assert Figure("a", 1.9, ">= 1.85", []).reached and not Figure("a", 1.8, ">= 1.85", []).reached


def test_the_products_are_those_of_a_step() -> None:
    """What PyTorch counts in forward and backward of the linear layers, nothing twice and nothing left out."""
    config = worker.run_of().config
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    with FlopCounterMode(display=False) as counter:
        model.loss(*data.batch(0)).backward()  # type: ignore[no-untyped-call]
    counted = counter.get_flop_counts()["Global"]
    products = sum(n for kernel, n in counted.items() if "mm" in str(kernel))
    assert sum(2 * m * k * n for m, k, n in worker.shapes(config, data.vocabulary)) == products


def test_the_stand_in_has_nanogpts_parameters_and_learns() -> None:
    """12 d^2 + 13 d a layer, tied embedding, positions, last norm; and its loss falls."""
    torch.manual_seed(0)
    model = nanogpt.GPT(vocabulary=50, context=16, width=32, heads=4, layers=2)
    d = 32
    assert sum(p.numel() for p in model.parameters()) == 50 * d + 16 * d + 2 * (12 * d * d + 13 * d) + 2 * d
    adamw = nanogpt.optimizer(model)
    tokens = torch.arange(16).repeat(4, 1)
    losses = [nanogpt.step(model, adamw, tokens, (tokens + 1) % 50) for _ in range(100)]
    assert losses[0] == pytest.approx(math.log(50), abs=0.1) and losses[-1] < 1


@pytest.mark.parametrize("kind", worker.KINDS)
def test_a_worker_takes_as_many_steps_as_it_is_told(kind: str) -> None:
    mirrored = set(ROOT.glob("wandb/*steps-1000000*"))
    one = Worker(kind)
    try:
        few, many = one.step_seconds(2) * 2, one.step_seconds(12) * 12
        assert many > 1.5 * few > 0
    finally:
        one.process.kill()
        one.process.wait()
    assert set(ROOT.glob("wandb/*steps-1000000*")) == mirrored, "mirrored into the project"


def test_batches_are_those_of_the_run() -> None:
    data = build_data(worker.run_of().config)
    for index, (x, y) in enumerate(itertools.islice(worker.batches(data), 3)):
        assert torch.equal(x, data.batch(index)[0]) and torch.equal(y, data.batch(index)[1])
