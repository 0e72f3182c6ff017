"""Measurements have the values that they must have."""

import functools
import math
import time

import pytest
import torch
import yaml

from ablations.data.prepare import prepare
from ablations.measure import cost, equivalence, gradients, operation, parameters, scores
from ablations.measure.catalogue import MEASUREMENTS
from ablations.model.mixer.attention import Attention
from ablations.model.position.base import Position
from tests.conftest import PROJECT


def by_variant(results: list[object], name: str) -> dict[str, dict[str, float]]:
    (found,) = (result for result in results if result.name == name)  # type: ignore[attr-defined]
    return {row["variant"]: row for row in found.rows if "variant" in row}  # type: ignore[attr-defined]


def test_one_operation_three_ways() -> None:
    results = operation.measure()
    rows = by_variant(results, "one_operation")
    assert all(row["max_difference"] < 1e-6 for row in rows.values()) and set(rows) == {"matrix", "softmax", "shuffled"}
    matrix = [[row[f"key_{s}"] for s in range(6)] for row in results[1].rows]
    assert matrix == [[pytest.approx(1 / (t + 1)) if s <= t else 0 for s in range(6)] for t in range(6)]


def test_a_dot_product_has_the_variance_d() -> None:
    """Within four standard errors: the variance of n products of d normals has variance (2 d^2 + 6 d) / n."""
    torch.manual_seed(7)
    for d in (4, 64, 256):
        error = math.sqrt((2 * d * d + 6 * d) / scores.PAIRS)
        found = scores.products(d)
        assert len(found) == scores.PAIRS and abs(found.var().item() - d) < 4 * error


def test_the_softmax_of_undivided_scores_is_a_choice_of_one() -> None:
    rows = by_variant(scores.measure(), "softmax")
    assert 1 <= rows["d_256"]["effective_tokens_undivided"] < 1.5
    undivided = [row["effective_tokens_undivided"] for row in rows.values()]
    assert undivided == sorted(undivided, reverse=True)
    assert 0.65 < rows["d_1024"]["frozen_undivided"] < 0.75
    for row in rows.values():
        assert row["jacobian_diagonal_divided"] == pytest.approx(0.96, abs=0.005) and row["frozen_divided"] == 0
        assert 38 < row["effective_tokens_divided"] < 44


def test_equivalence_is_within_float_noise_and_the_mask_matters() -> None:
    rows = {name: row["value"] for name, row in by_variant(equivalence.measure(), "equivalence").items()}
    assert rows["multihead"] < 1e-6 and rows["kernel"] < 1e-6 and rows["fused"] < 1e-5
    assert rows["masked"] == 0 and rows["unmasked"] > 1e-3


def test_parameters_are_the_formulas_and_gpt2_is_the_published_size() -> None:
    results = parameters.measure()
    for name in ("parameters", "gpt2"):
        for row in by_variant(results, name).values():
            assert row["parameters"] == row["formula"], row
    rows = by_variant(results, "parameters")
    assert all(
        rows[f"d_{d}_feed-forward"]["share_of_block"] == pytest.approx(2 / 3, abs=0.002) for d in parameters.WIDTHS
    )
    whole = by_variant(results, "gpt2")
    assert [row["parameters"] for row in whole.values()] == [38_597_376, 786_432, 12 * 7_087_872, 1_536, 124_439_808]


def test_gpt2_runs() -> None:
    small = parameters.gpt2(vocabulary=50, context=8, width=32, blocks=1, heads=4)
    assert small(torch.zeros(1, 8, dtype=torch.long)).shape == (1, 8, 50)


def test_gradients_before_training() -> None:
    """Seed 0: growing with depth, post-norm's the larger; those of W_q, W_k and W_v less than those of all."""
    prepare()
    pre, post = gradients.block_gradients("pre", 0), gradients.block_gradients("post", 0)
    assert len(pre) == len(post) == 12
    assert pre[-1][0] / pre[0][0] > 1 and post[-1][0] / post[0][0] > 1
    assert all(b[0] > a[0] and b[1] > a[1] for a, b in zip(pre, post, strict=True))
    assert all(qkv < everything for qkv, everything in pre + post)


def test_peak_bytes_are_exact_and_do_not_move() -> None:
    """Two matrices live at once, then one: counted on paper."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        first = x @ x.T  # 64 x 64
        second = -first
        del first
        return second[:, :1].clone()

    x = torch.randn(64, 16)
    counts = {cost.peak_bytes(forward, x) for _ in range(5)}
    assert counts == {2 * 64 * 64 * 4}


def test_the_fused_kernel_never_holds_the_matrix() -> None:
    attention, position = Attention(64, heads=4, project=True), Position(64)
    written, fused = {}, {}
    with torch.no_grad():
        for n in (128, 256, 512, 1024):
            x = torch.randn(1, n, 64)
            written[n] = cost.peak_bytes(lambda x: attention.written_out(x, position), x)
            fused[n] = cost.peak_bytes(lambda x: attention(x, position), x)
    matrix = 4 * 1024 * 1024 * 4  # of which the scores, the masked ones and the weights are there at once
    assert 3 * matrix <= written[1024] < 3.2 * matrix and fused[1024] < matrix
    assert cost.extrapolated({n: written[n] for n in (128, 256, 512)}, 1024) == written[1024]
    assert cost.exponent(list(written), [float(v) for v in written.values()]) > 1.8
    assert cost.exponent(list(fused), [float(v) for v in fused.values()]) < 1.2


def test_a_call_that_something_slows_is_not_the_time_that_is_told() -> None:
    pauses = iter([0.5, 0.01])

    def forward(x: torch.Tensor) -> torch.Tensor:
        time.sleep(next(pauses))
        return x

    assert 10 <= cost.milliseconds(forward, torch.zeros(1), seconds=0.0) < 400


def test_a_size_too_large_is_told_and_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "memory_at_hand", lambda device: 40 * cost.MB)
    monkeypatch.setattr(cost, "milliseconds", functools.partial(cost.milliseconds, seconds=0.0))
    rows = by_variant(cost.measure(sizes=(128, 256, 512, 1024)), "cost")
    assert rows["n_512"]["written_out_peak_mb"] == pytest.approx(32.25, abs=0.01)
    assert rows["n_1024"]["written_out_ms"] == "out of memory (needs 109 MB)"  # type: ignore[comparison-overlap]
    assert rows["n_1024"]["fused_peak_mb"] == pytest.approx(16, abs=0.01)
    assert rows["n_512"]["written_out_peak_mb_ratio"] > 2.5 and rows["n_512"]["matrix_mb"] == 8


def test_the_stages_measure_all_that_there_is_and_train_each_study() -> None:
    stages = yaml.safe_load((PROJECT / "dvc.yaml").read_text())["stages"]
    assert stages["measure"]["foreach"] == list(MEASUREMENTS)
    params = yaml.safe_load((PROJECT / "params.yaml").read_text())
    assert set(params["studies"]) == {file.stem for file in (PROJECT / "conf" / "study").glob("*.yaml")}
