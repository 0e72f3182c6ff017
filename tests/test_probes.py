"""The instruments against closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F

from ablations.training.probes import attention_statistics, gradient_norm, read_attention, read_gradients
from tests.test_model import language_model

CAUSAL = torch.ones(32, 32, dtype=torch.bool).tril()


def test_equal_scores_have_the_entropy_of_a_uniform_choice() -> None:
    found = attention_statistics(torch.full((2, 3, 32, 32), 7.0), CAUSAL)
    expected = sum(math.log(keys) for keys in range(2, 33)) / 31  # the first row has no choice
    torch.testing.assert_close(found["entropy"], torch.full((3,), expected))
    torch.testing.assert_close(found["entropy_share"], torch.ones(3))
    torch.testing.assert_close(found["score_mean"], torch.full((3,), 7.0))
    assert found["score_std"].tolist() == [0, 0, 0] and found["saturated"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("d_k", [4, 64, 256])
def test_products_of_independent_unit_normals_have_the_std_of_root_d_k(d_k: int) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 200, 1, 32, d_k)
    found = attention_statistics(q @ k.transpose(-2, -1), CAUSAL)
    assert found["score_std"].item() == pytest.approx(math.sqrt(d_k), rel=0.03)
    assert found["score_mean"].item() == pytest.approx(0, abs=0.05 * math.sqrt(d_k))


def test_a_one_hot_row_has_no_entropy_and_is_saturated() -> None:
    scores = torch.full((1, 1, 32, 32), -1e4)
    scores[..., 0] = 1e4
    found = attention_statistics(scores, CAUSAL)
    assert found["entropy"].item() == 0 and found["entropy_share"].item() == 0 and found["saturated"].item() == 1


def test_masked_scores_count_for_nothing_and_heads_are_apart() -> None:
    torch.manual_seed(1)
    scores = torch.randn(4, 2, 32, 32) * torch.tensor([1.0, 5.0])[:, None, None]
    spoiled = scores.masked_fill(~CAUSAL, 1e6)
    clean, same = attention_statistics(scores, CAUSAL), attention_statistics(spoiled, CAUSAL)
    for name, value_H in clean.items():
        assert torch.equal(value_H, same[name]), name
    visible = torch.stack([scores[:, 1, t, s] for t in range(32) for s in range(t + 1)])
    torch.testing.assert_close(clean["score_std"][1], visible.std(correction=0))
    assert clean["score_std"][1] > 4 * clean["score_std"][0]


def test_saturated_counts_rows_above_the_bound() -> None:
    scores = torch.zeros(1, 1, 32, 32)
    scores[0, 0, 8:, 0] = 50.0  # 24 of the 31 rows that have a choice
    assert attention_statistics(scores, CAUSAL)["saturated"].item() == pytest.approx(24 / 31)


def test_gradient_norm_is_that_of_a_backward_pass_by_hand() -> None:
    """A linear layer under mean squared error, differentiated on paper."""
    torch.manual_seed(2)
    layer = torch.nn.Linear(5, 3)
    x, y = torch.randn(7, 5), torch.randn(7, 3)
    F.mse_loss(layer(x), y).backward()
    error = 2 * (x @ layer.weight.T + layer.bias - y) / 21
    by_hand = math.sqrt((error.T @ x).square().sum().item() + error.sum(dim=0).square().sum().item())
    assert gradient_norm(layer.parameters()) == pytest.approx(by_hand, rel=1e-5)
    assert gradient_norm(torch.nn.Linear(2, 2).parameters()) == 0


def test_gradients_are_read_per_block() -> None:
    model = language_model()
    tokens = torch.randint(0, 50, (3, 12))
    F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    found = read_gradients(model)
    for i, block in enumerate(model.blocks, start=1):
        loop = math.sqrt(sum(p.grad.square().sum().item() for p in block.parameters()))  # type: ignore[union-attr]
        assert found[f"block{i}/gradient_norm"] == pytest.approx(loop, rel=1e-5)
    everything = math.sqrt(sum(p.grad.square().sum().item() for p in model.parameters()))  # type: ignore[union-attr]
    assert found["gradient_norm"] == pytest.approx(everything, rel=1e-5)


def test_attention_is_read_where_the_block_attends() -> None:
    """What the probe reads is what the layer's own weights say, and the model is left as it was."""
    model = language_model(dropout=0.3)
    tokens = torch.randint(0, 50, (3, 12))
    state = torch.get_rng_state()
    found = read_attention(model, tokens)
    assert torch.equal(state, torch.get_rng_state()) and model.training
    assert found == read_attention(model, tokens)
    model.eval()
    weights = model.attention(tokens)[1]
    assert weights is not None
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1)[:, 2, 1:].mean().item()
    assert found["block2/head3/entropy"] == pytest.approx(entropy, rel=1e-5)
    heads = [found[f"block2/head{h}/entropy"] for h in range(1, 5)]
    assert found["block2/entropy"] == pytest.approx(sum(heads) / 4, rel=1e-6)
