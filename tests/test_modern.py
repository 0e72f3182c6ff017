"""Parts of today's block: each against an independent reference, by gradients, by what it keeps, and by training."""

import functools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.model.auxiliary import WithAuxiliaryLoss
from ablations.model.feedforward.experts import Experts
from ablations.model.feedforward.gelu import FeedForward
from ablations.model.feedforward.relu import ReLU
from ablations.model.feedforward.swiglu import SwiGLU
from ablations.model.language_model import LanguageModel
from ablations.model.mixer.attention import Attention
from ablations.model.mixer.latent import LatentAttention
from ablations.model.mixer.qk_norm import QKNorm
from ablations.model.mixer.sliding import SlidingWindow
from ablations.model.mixer.state_space import StateSpace, recurrence
from ablations.model.past import Past
from ablations.model.position.base import Position
from ablations.model.position.rotary import Rotary
from ablations.model.position.scaled_rotary import METHODS, ScaledRotary
from ablations.model.reparametrized import SigmaReparametrized

MIXERS: dict[str, Any] = {
    "sliding": functools.partial(SlidingWindow, window=5, heads=4, project=True),
    "latent": functools.partial(LatentAttention, heads=4, latent=12, turned=4),
    "qk_norm": functools.partial(QKNorm, heads=4, project=True),
    "state_space": functools.partial(StateSpace, state=4),
    "interleaved": [StateSpace, functools.partial(Attention, heads=4, project=True)],
    "half_sliding": [functools.partial(SlidingWindow, window=3, heads=4), functools.partial(Attention, heads=4)],
}
FEEDFORWARDS: dict[str, Any] = {"relu": ReLU, "swiglu": SwiGLU, "experts": Experts}
NO_POSITION = Position(32)


def model(kind: type[LanguageModel] = LanguageModel, **changes: Any) -> LanguageModel:
    """Two blocks, 32 wide over 50 tokens, with RoPE."""
    torch.manual_seed(0)
    parts: dict[str, Any] = {
        "vocabulary": 50,
        "width": 32,
        "blocks": 2,
        "position": Rotary,
        "mixer": functools.partial(Attention, heads=4, project=True),
        "feedforward": FeedForward,
        "norm": nn.LayerNorm,
        "placement": "pre",
        "residual": True,
    }
    return kind(**(parts | changes))


def every_part() -> dict[str, LanguageModel]:
    """A model with each part."""
    found = {name: model(mixer=mixer) for name, mixer in MIXERS.items()}
    found |= {name: model(feedforward=feedforward) for name, feedforward in FEEDFORWARDS.items()}
    found |= {name: model(position=functools.partial(ScaledRotary, method=name, trained=8)) for name in METHODS}
    found["rms_norm"] = model(norm=nn.RMSNorm)
    found["balanced"] = model(WithAuxiliaryLoss, feedforward=Experts, auxiliary=0.01)
    found["sigma"] = model(SigmaReparametrized)
    return found


PARTS = every_part()


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("token", [0, 5, 11])
def test_causality_by_gradients(name: str, token: int) -> None:
    """What is predicted at a token hangs not in the least on its future; and on the token itself."""
    embedded: list[Tensor] = []
    hook = PARTS[name].embedding.register_forward_hook(lambda _, __, out: embedded.append(out) or out.retain_grad())
    PARTS[name](torch.arange(12)[None])[0, token].square().sum().backward()
    hook.remove()
    gradient_T = embedded[0].grad[0].abs().sum(dim=-1)  # type: ignore[index]
    assert gradient_T[token] > 0 and (gradient_T[token + 1 :] == 0).all()


@pytest.mark.parametrize("name", PARTS)
def test_it_trains(name: str) -> None:
    """The loss on one repeated text falls to a tenth of guessing."""
    trained = every_part()[name]
    adamw = torch.optim.AdamW(trained.parameters(), lr=1e-2)
    tokens = torch.randint(50, (4, 13), generator=torch.Generator().manual_seed(0))
    for _ in range(80):
        loss = trained.loss(tokens[:, :-1], tokens[:, 1:])
        adamw.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adamw.step()
    assert loss.item() < math.log(50) / 10


@pytest.mark.parametrize("name", [*MIXERS, "experts", "rms_norm"])
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 5]])
def test_a_text_in_pieces_is_the_text_in_one(name: str, pieces: list[int]) -> None:
    tokens = torch.arange(24).view(2, 12)
    pasts = [Past() for _ in PARTS[name].blocks]
    with torch.no_grad():
        found = [PARTS[name](piece, pasts) for piece in tokens.split(pieces, dim=1)]
        torch.testing.assert_close(torch.cat(found, dim=1), PARTS[name](tokens), atol=1e-5, rtol=1e-5)


def test_what_is_kept_is_as_small_as_promised() -> None:
    """Bytes after 12 tokens, float32, batch 2: all keys and values; those of a window less one; a latent vector."""

    def kept(mixer: Any) -> int:
        past = Past()
        mixer(torch.randn(2, 12, 32), NO_POSITION, past)
        return past.bytes

    assert kept(Attention(32, heads=4)) == 2 * 2 * 12 * 32 * 4
    assert kept(Attention(32, heads=4, kv_heads=1, project=True)) == 2 * 2 * 12 * 8 * 4
    assert kept(SlidingWindow(32, window=5, heads=4)) == 2 * 2 * 4 * 32 * 4
    assert kept(LatentAttention(32, heads=4, latent=12, turned=4)) == 2 * 12 * (12 + 4) * 4
    assert kept(StateSpace(32, state=4)) == 2 * (32 * 4 + 3 * 32) * 4


def test_rms_norm_is_its_formula() -> None:
    norm, x = nn.RMSNorm(8), torch.randn(3, 8)
    expected = x / (x.square().mean(dim=-1, keepdim=True) + torch.finfo(torch.float32).eps).sqrt()
    torch.testing.assert_close(norm(x), expected)


def test_feedforward_networks_are_their_formulas_at_equal_parameters() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 5, 128)
    relu, swiglu = ReLU(128), SwiGLU(128)
    torch.testing.assert_close(relu(x), relu.down(relu.up(x).clamp(min=0)))
    gate, up = x @ swiglu.gate.weight.T, x @ swiglu.up.weight.T
    torch.testing.assert_close(swiglu(x), (gate * torch.sigmoid(gate) * up) @ swiglu.down.weight.T)
    counts = [sum(p.numel() for p in network.parameters()) for network in (FeedForward(128), relu, swiglu)]
    assert counts[0] == counts[1] and abs(counts[2] / counts[0] - 1) < 0.01


def test_experts_are_a_loop_over_tokens() -> None:
    """Each token by itself: its two best experts, weighed by a softmax over the two; and the balance by its formula."""
    torch.manual_seed(2)
    experts = Experts(16, experts=4, chosen=2)
    x_BxTxD = torch.randn(2, 9, 16)
    out = experts(x_BxTxD).flatten(0, 1)
    counts, probabilities = torch.zeros(4), torch.zeros(4)
    for i, x in enumerate(x_BxTxD.flatten(0, 1)):
        logits = (experts.router.weight @ x).detach()
        order = logits.argsort(descending=True)[:2].tolist()
        weights = [math.exp(logits[e]) for e in order]
        expected = sum(w / sum(weights) * experts.experts[e](x) for w, e in zip(weights, order))
        torch.testing.assert_close(out[i], expected)
        counts[order] += 1
        probabilities += logits.softmax(dim=0)
    shares = counts / counts.sum()
    torch.testing.assert_close(experts.auxiliary_loss, 4 * (shares * probabilities / 18).sum())
    assert experts.statistics["load_entropy"].item() == pytest.approx(-sum(s * math.log(s) for s in shares if s > 0))
    assert [experts.statistics[f"load_{e}"].item() for e in range(1, 5)] == pytest.approx(shares.tolist())


def test_the_balance_is_in_the_loss_and_where_it_is_not_asked_for_it_is_not() -> None:
    tokens, targets = torch.arange(12)[None], torch.arange(1, 13)[None]
    plain, balanced = model(feedforward=Experts), model(WithAuxiliaryLoss, feedforward=Experts, auxiliary=0.5)
    extra = sum(
        block.feedforward.auxiliary_loss.item() for block in balanced.blocks if balanced.loss(tokens, targets) > 0
    )
    difference = balanced.loss(tokens, targets) - plain.loss(tokens, targets)
    assert difference.item() == pytest.approx(0.5 * extra, rel=1e-4)


def test_a_sliding_window_is_full_attention_with_a_band() -> None:
    torch.manual_seed(3)
    sliding = SlidingWindow(32, window=5, heads=4, project=True)
    x = torch.randn(2, 20, 32)
    q, k, v = sliding.projected(x)
    band = torch.tensor([[0 <= i - j < 5 for j in range(20)] for i in range(20)])
    expected = sliding._join(F.scaled_dot_product_attention(q, k, v, attn_mask=band))
    torch.testing.assert_close(sliding(x, NO_POSITION), expected)
    torch.testing.assert_close(sliding.written_out(x, NO_POSITION), expected)
    whole = SlidingWindow(32, window=20, heads=4, project=True)
    full = Attention(32, heads=4, project=True)
    full.load_state_dict(whole.state_dict())
    torch.testing.assert_close(whole(x, NO_POSITION), full(x, NO_POSITION))


def test_latent_attention_is_the_papers_formula_in_a_loop() -> None:
    """Head by head and position by position: k = [W_uk c, RoPE(W_kr x)], v = W_uv c, q in the same two parts."""
    torch.manual_seed(4)
    mla, rope = LatentAttention(32, heads=4, latent=12, turned=4), Rotary(32)
    x_TxD = torch.randn(7, 32)
    c = torch.stack([mla.norm(mla.compress.weight @ x) for x in x_TxD])
    shared = rope.rotate((x_TxD @ mla.shared_key.weight.T)[None, None])[0, 0]
    outs = []
    for h in range(4):
        query = x_TxD @ mla.query.weight[h * 12 : h * 12 + 12].T
        q = torch.cat((query[:, :8], rope.rotate(query[None, None, :, 8:])[0, 0]), dim=1)
        k = torch.cat((c @ mla.expand.weight[h * 8 : h * 8 + 8].T, shared), dim=1)
        v = c @ mla.expand.weight[32 + h * 8 : 32 + h * 8 + 8].T
        rows = []
        for t in range(7):
            weights = torch.stack([q[t] @ k[s] / math.sqrt(12) for s in range(t + 1)]).softmax(dim=0)
            rows.append(weights @ v[: t + 1])
        outs.append(torch.stack(rows))
    expected = mla.output(torch.cat(outs, dim=1))
    torch.testing.assert_close(mla(x_TxD[None], rope)[0], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mla.written_out(x_TxD[None], rope)[0], expected, atol=1e-5, rtol=1e-5)


def test_normalised_queries_and_keys_bound_the_scores() -> None:
    torch.manual_seed(5)
    attention = QKNorm(32, heads=4, project=True)
    x = torch.randn(1, 9, 32)
    q, k, _ = Attention.projected(attention, x)
    normed = [F.layer_norm(part, (8,)) for part in (q, k)]
    expected = normed[0] @ normed[1].transpose(-2, -1) / math.sqrt(8)
    torch.testing.assert_close(attention.scores(x, NO_POSITION)[0], expected)
    huge = attention.scores(1000 * x, NO_POSITION)[0]
    assert huge.abs().max() <= 8 / math.sqrt(8) * 1.01


def test_the_recurrence_is_its_closed_form() -> None:
    """h_t is the sum over s <= t of input_s times the decays from s + 1 to t."""
    torch.manual_seed(6)
    decay, given = torch.rand(2, 11, 3, 4), torch.randn(2, 11, 3, 4)
    for t, state in enumerate(recurrence(decay, given).unbind(1)):
        terms = [given[:, s] * decay[:, s + 1 : t + 1].prod(dim=1) for s in range(t + 1)]
        torch.testing.assert_close(state, torch.stack(terms).sum(dim=0))


def test_the_state_space_is_algorithm_2_of_its_paper() -> None:
    """Step by step: h = exp(delta A) h + delta B u, y = C h + D u, gated."""
    torch.manual_seed(6)
    ssm = StateSpace(16, state=4, expand=2.0)
    x_TxD = torch.randn(10, 16)
    u_TxE, gate_TxE = (x_TxD @ ssm.input.weight.T).chunk(2, dim=1)
    padded = torch.cat((torch.zeros(3, 32), u_TxE))
    kernel_Ex4 = ssm.convolution.weight[:, 0]
    state, outs = torch.zeros(32, 4), []
    for t in range(10):
        u = F.silu((padded[t : t + 4].T * kernel_Ex4).sum(dim=1) + ssm.convolution.bias)
        rank, b, c = (ssm.select.weight @ u).split([1, 4, 4])
        delta = F.softplus(ssm.step.weight @ rank + ssm.step.bias)
        state = torch.exp(-delta[:, None] * ssm.log_decay.exp()) * state + (delta * u)[:, None] * b
        outs.append(ssm.output.weight @ ((state @ c + ssm.skip * u) * F.silu(gate_TxE[t])))
    torch.testing.assert_close(ssm(x_TxD[None], NO_POSITION)[0], torch.stack(outs), atol=1e-5, rtol=1e-5)


def test_scaled_rotary_is_rotary_within_and_its_methods_beyond() -> None:
    """d_k = 16, trained at 32, asked at 128: a factor of 4."""
    cpu = torch.device("cpu")
    plain = Rotary(32).rates(16, 128, cpu)
    asked = {method: ScaledRotary(32, method, trained=32) for method in METHODS}
    x = torch.randn(1, 1, 32, 16)
    for rotary in asked.values():
        torch.testing.assert_close(rotary.rotate(x), Rotary(32).rotate(x))
    torch.testing.assert_close(asked["interpolation"].rates(16, 128, cpu), plain / 4)
    ntk = asked["ntk"].rates(16, 128, cpu)
    assert ntk[0] == plain[0] and ntk[-1].item() == pytest.approx(plain[-1].item() / 4, rel=1e-5)
    for i, rate in enumerate(plain.tolist()):
        turns = 32 * rate / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - 1) / (32 - 1)))
        expected = kept * rate + (1 - kept) * rate / 4
        assert asked["yarn"].rates(16, 128, cpu)[i].item() == pytest.approx(expected, rel=1e-5)
    assert asked["yarn"].gain(128) == pytest.approx(0.1 * math.log(4) + 1) and asked["yarn"].gain(32) == 1
    with pytest.raises(ValueError, match="method: nope; allowed: interpolation, ntk, yarn"):
        ScaledRotary(8, "nope", 4)


def test_sigma_is_the_largest_singular_value() -> None:
    reparametrized = model(SigmaReparametrized)
    for _ in range(60):
        reparametrized(torch.arange(12)[None])
    layer: Any = reparametrized.blocks[0].mixer.qkv
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, abs=1e-3)
    with torch.no_grad():
        layer.parametrizations.weight[1].gain.fill_(3.0)
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(3, abs=3e-3)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: SwiGLU(8, 0), "inner: 0"),
        (lambda: Experts(8, experts=0), "experts: 0"),
        (lambda: Experts(8, experts=2, chosen=3), "chosen: 3; allowed: 1 to 2"),
        (lambda: SlidingWindow(8, window=0), "window: 0"),
        (lambda: SlidingWindow(8, window=2, causal=False), "causal: false"),
        (lambda: LatentAttention(8, heads=2, latent=0, turned=2), "latent: 0"),
        (lambda: StateSpace(8, state=0), "state: 0"),
        (lambda: ScaledRotary(8, "yarn", 0), "trained: 0"),
        (lambda: model(WithAuxiliaryLoss, auxiliary=-1), "auxiliary: -1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(build: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()
