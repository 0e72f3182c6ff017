"""`model/` against PyTorch's own modules, closed forms and loops."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.data.coreference import ADJECTIVE, REFERENT, Coreference, sentence
from ablations.model.feedforward.gelu import FeedForward
from ablations.model.language_model import LanguageModel
from ablations.model.mixer.attention import Attention
from ablations.model.mixer.average import Average
from ablations.model.nothing import nothing
from ablations.model.past import Past
from ablations.model.position.alibi import ALiBi
from ablations.model.position.base import Position
from ablations.model.position.learned import Learned
from ablations.model.position.rotary import Rotary
from ablations.model.position.sinusoidal import Sinusoidal

NO_POSITION = Position(8)


def language_model(**changes: object) -> LanguageModel:
    """The chapter's block, 32 wide over 50 tokens."""
    torch.manual_seed(0)
    parts: dict[str, object] = {
        "vocabulary": 50,
        "width": 32,
        "blocks": 2,
        "position": functools.partial(Learned, length=16),
        "mixer": functools.partial(Attention, heads=4, project=True),
        "feedforward": FeedForward,
        "norm": nn.LayerNorm,
        "placement": "pre",
        "residual": True,
    }
    return LanguageModel(**(parts | changes))  # type: ignore[arg-type]


MIXERS = {
    "average": Average,
    "head": functools.partial(Attention, heads=1),
    "head of another width": functools.partial(Attention, heads=1, d_k=24, scaled=False),
    "heads": functools.partial(Attention, heads=4, project=True),
    "grouped": functools.partial(Attention, heads=4, kv_heads=2, project=True),
    "multi-query": functools.partial(Attention, heads=4, kv_heads=1, project=True),
    "in turn": [functools.partial(Attention, heads=4, project=True), Average],
}
POSITIONS = {
    "none": Position,
    "learned": functools.partial(Learned, length=16),
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "alibi": ALiBi,
}


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("token", [0, 5, 11])
def test_causality_by_gradients(mixer: str, position: str, token: int) -> None:
    """What is predicted at a token hangs on it and its past, and not in the least on its future."""
    model = language_model(mixer=MIXERS[mixer], position=POSITIONS[position])
    embedded: list[Tensor] = []
    model.embedding.register_forward_hook(lambda _, __, out: embedded.append(out) or out.retain_grad())
    model(torch.arange(12)[None])[0, token].square().sum().backward()
    gradient_T = embedded[0].grad[0].abs().sum(dim=-1)  # type: ignore[index]
    assert (gradient_T[: token + 1] > 0).all()
    assert (gradient_T[token + 1 :] == 0).all()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 5], [12]])
def test_a_text_in_pieces_is_the_text_in_one(mixer: str, position: str, pieces: list[int]) -> None:
    """With what is kept of the past, the next scores are those of reading everything again."""
    model = language_model(mixer=MIXERS[mixer], position=POSITIONS[position])
    tokens = torch.arange(24).view(2, 12)
    pasts = [Past() for _ in model.blocks]
    with torch.no_grad():
        found = [model(piece, pasts) for piece in tokens.split(pieces, dim=1)]
        torch.testing.assert_close(torch.cat(found, dim=1), model(tokens), atol=1e-5, rtol=1e-5)
    assert [past.length for past in pasts] == [12, 12] and all(past.bytes > 0 for past in pasts)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries_are_the_librarys(kv_heads: int) -> None:
    """`enable_gqa` of PyTorch on the same projections; with as many heads as queries, multi-head attention itself."""
    torch.manual_seed(1)
    grouped = Attention(32, heads=4, kv_heads=kv_heads, project=True)
    x_BxTxD = torch.randn(2, 10, 32)
    q, k, v = (
        part.view(2, 10, -1, 8).transpose(1, 2)
        for part in grouped.qkv(x_BxTxD).split([32, kv_heads * 8, kv_heads * 8], -1)
    )
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = grouped.output(expected.transpose(1, 2).flatten(2))
    torch.testing.assert_close(grouped(x_BxTxD, NO_POSITION), expected)
    torch.testing.assert_close(grouped.written_out(x_BxTxD, NO_POSITION), expected)
    assert grouped.qkv.weight.numel() == 32 * (32 + 2 * kv_heads * 8)


def test_blocks_take_mixers_in_turn() -> None:
    model = language_model(blocks=3, mixer=MIXERS["in turn"])
    assert [type(block.mixer) for block in model.blocks] == [Attention, Average, Attention]


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_is_the_librarys(heads: int) -> None:
    """`nn.MultiheadAttention` with our weights gives our output (chapter, section L)."""
    torch.manual_seed(1)
    ours = Attention(64, heads=heads, project=True)
    theirs = nn.MultiheadAttention(64, heads, bias=False, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.qkv.weight)
    theirs.out_proj.weight.data.copy_(ours.output.weight)
    ours.output.bias.data.zero_()
    x_BxTxD = torch.randn(2, 20, 64)
    mask_TxT = torch.ones(20, 20, dtype=torch.bool).triu(1)
    expected, _ = theirs(x_BxTxD, x_BxTxD, x_BxTxD, attn_mask=mask_TxT)
    torch.testing.assert_close(ours(x_BxTxD, NO_POSITION), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours.written_out(x_BxTxD, NO_POSITION), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("scaled", [True, False])
def test_fused_and_written_out_are_one_function(position: str, scaled: bool) -> None:
    torch.manual_seed(2)
    encoding = POSITIONS[position](32)
    attention = Attention(32, heads=2, d_k=6, scaled=scaled)
    x_BxTxD = torch.randn(2, 16, 32)
    torch.testing.assert_close(attention(x_BxTxD, encoding), attention.written_out(x_BxTxD, encoding))


def test_without_the_mask_the_future_shows() -> None:
    """Exercise 1 of the second chapter: token 5 changes the output at 3 where nothing is masked, and only there."""
    torch.manual_seed(6)
    masked, open_ = Attention(32, heads=4, project=True), Attention(32, heads=4, project=True, causal=False)
    open_.load_state_dict(masked.state_dict())
    x_BxTxD = torch.randn(1, 8, 32)
    changed = x_BxTxD.clone()
    changed[0, 5] += 1
    assert torch.equal(masked(x_BxTxD, NO_POSITION)[0, 3], masked(changed, NO_POSITION)[0, 3])
    assert (open_(x_BxTxD, NO_POSITION)[0, 3] - open_(changed, NO_POSITION)[0, 3]).abs().max() > 1e-3
    torch.testing.assert_close(open_(x_BxTxD, NO_POSITION), open_.written_out(x_BxTxD, NO_POSITION))
    q, k, v = open_._heads(x_BxTxD, NO_POSITION)
    for attention, causal in ((masked, True), (open_, False)):
        expected = attention._join(F.scaled_dot_product_attention(q, k, v, is_causal=causal))
        assert (attention.written_out(x_BxTxD, NO_POSITION) - expected).abs().max() < 1e-5


def test_scores_are_divided_by_the_root_of_d_k_and_only_where_asked() -> None:
    torch.manual_seed(3)
    divided, plain = Attention(16, d_k=9), Attention(16, d_k=9, scaled=False)
    plain.load_state_dict(divided.state_dict())
    x_BxTxD = torch.randn(1, 5, 16)
    q, k = (x_BxTxD @ divided.qkv.weight[i * 9 : i * 9 + 9].T for i in (0, 1))
    torch.testing.assert_close(plain.scores(x_BxTxD, NO_POSITION)[0][0, 0], (q @ k.transpose(1, 2))[0])
    torch.testing.assert_close(divided.scores(x_BxTxD, NO_POSITION)[0] * 3, plain.scores(x_BxTxD, NO_POSITION)[0])


def test_average_is_a_loop_of_means() -> None:
    x_BxTxD = torch.randn(2, 7, 8)
    means = torch.stack([x_BxTxD[:, : t + 1].mean(dim=1) for t in range(7)], dim=1)
    torch.testing.assert_close(Average(8)(x_BxTxD, NO_POSITION), means)


@pytest.mark.parametrize(("placement", "residual"), [(p, r) for p in ("pre", "post", "none") for r in (True, False)])
def test_block_is_its_formula(placement: str, residual: bool) -> None:
    """x + f(LN(x)), LN(x + f(x)), x + f(x), and the same without "x +"."""
    model = language_model(blocks=1, placement=placement, residual=residual)
    block = model.blocks[0]  # type: ignore[index]
    x = torch.randn(2, 6, 32)
    expected = x
    for f, norm in (
        (lambda y: block.mixer(y, model.position), block.mixer_norm),
        (block.feedforward, block.feedforward_norm),
    ):
        kept = expected if residual else 0
        if placement == "pre":
            expected = kept + f(F.layer_norm(expected, (32,), norm.weight, norm.bias))
        elif placement == "post":
            expected = F.layer_norm(kept + f(expected), (32,), norm.weight, norm.bias)
        else:
            expected = kept + f(expected)
    torch.testing.assert_close(block(x, model.position), expected)


def test_pre_norm_block_is_the_librarys_encoder_layer() -> None:
    model = language_model(blocks=1)
    block = model.blocks[0]  # type: ignore[index]
    theirs = nn.TransformerEncoderLayer(32, 4, 128, 0.0, F.gelu, batch_first=True, norm_first=True)
    theirs.self_attn.in_proj_weight.data.copy_(block.mixer.qkv.weight)
    theirs.self_attn.in_proj_bias.data.zero_()
    theirs.self_attn.out_proj.load_state_dict(block.mixer.output.state_dict())
    theirs.linear1.load_state_dict(block.feedforward.up.state_dict())
    theirs.linear2.load_state_dict(block.feedforward.down.state_dict())
    x = torch.randn(2, 6, 32)
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    torch.testing.assert_close(block(x, model.position), theirs(x, src_mask=mask, is_causal=True))


def test_parameters_are_the_chapters() -> None:
    def count(**changes: object) -> int:
        shape = {"vocabulary": 1024, "width": 128, "blocks": 1, "position": functools.partial(Learned, length=128)}
        return sum(p.numel() for p in language_model(**(shape | changes)).parameters())

    one_head = {"mixer": Attention, "feedforward": nothing, "placement": "none"}
    four_heads = one_head | {"mixer": functools.partial(Attention, heads=4, project=True)}
    assert count() == 477_696
    assert count() - count(placement="none") == 768
    assert count(**four_heads) - count(**one_head) == 16_512
    assert count(mixer=nothing, feedforward=nothing, placement="none", position=Position) == 2 * 1024 * 128 + 1024


def test_initialisation_is_pytorchs() -> None:
    model = language_model(vocabulary=2000, width=64)
    assert model.embedding.weight.std().item() == pytest.approx(1, abs=0.01)
    weight = model.output.weight
    assert weight.abs().max().item() <= 1 / 8 and weight.std().item() == pytest.approx(1 / 8 / math.sqrt(3), rel=0.02)


def test_parts_that_all_variants_have_start_with_the_same_weights() -> None:
    one, other = language_model(), language_model(mixer=Average, feedforward=nothing, placement="none")
    assert torch.equal(one.embedding.weight, other.embedding.weight)
    assert torch.equal(one.output.weight, other.output.weight)


def test_dropout_rests_when_evaluating_and_acts_when_training() -> None:
    model = language_model(dropout=0.5, mixer=functools.partial(Attention, heads=4, dropout=0.5))
    tokens = torch.arange(12)[None]
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_attention_weights_of_the_model_are_rows_that_sum_to_one() -> None:
    model = language_model()
    for weights in model.attention(torch.arange(12)[None]):
        assert weights is not None and weights.shape == (1, 4, 12, 12)
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 4, 12))
        assert (weights.triu(1) == 0).all()
    assert language_model(mixer=nothing).attention(torch.arange(12)[None]) == [None, None]


def test_without_positions_attention_cannot_tell_order() -> None:
    """Shuffling the past changes the last output by float noise alone (chapter, sections A and I)."""
    for mixer in MIXERS.values():
        model = language_model(mixer=mixer, blocks=1, position=Position)
        tokens = torch.arange(12)
        shuffled = torch.cat((tokens[:11][torch.randperm(11)], tokens[11:]))
        torch.testing.assert_close(model(tokens[None])[0, -1], model(shuffled[None])[0, -1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Attention(128, heads=3), "heads: 3 does not divide the width 128; allowed: 1, 2, 4, 8"),
        (lambda: Attention(128, heads=0), "heads: 0"),
        (lambda: Attention(128, d_k=0), "d_k: 0"),
        (lambda: Attention(128, heads=4, kv_heads=3), "kv_heads: 3 does not divide the 4 heads; allowed: 1, 2, 4"),
        (lambda: Attention(128, heads=2, d_k=10, project=False), "project: false"),
        (lambda: Learned(8, 0), "length: 0"),
        (lambda: Sinusoidal(7), "width: 7"),
        (lambda: Rotary(8, base=1), "base: 1"),
        (lambda: Rotary(9).rotate(torch.zeros(1, 1, 2, 9)), "d_k: 9"),
        (lambda: FeedForward(8, 0), "inner: 0"),
        (lambda: language_model(blocks=0), "blocks: 0"),
        (lambda: language_model(width=0), "width: 0"),
        (lambda: language_model(dropout=1), "dropout: 1"),
        (lambda: language_model(placement="past"), "norm.placement: past; allowed: pre, post, none"),
    ],
)
def test_what_cannot_be_is_refused_by_name(build: object, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        build()  # type: ignore[operator]


def test_the_first_block_asks_the_same_question_of_both_sentences() -> None:
    """Two sentences that differ in one word (chapter, section K): where the referent must be named, block 1's query
    sees its own token and index alone, so its scores are the same bits at every other word, and its weights on those
    are the same but for a common factor. Block 2 has read the difference.
    """
    data = Coreference("closed", 17, 64, seed=0)
    model = language_model(vocabulary=data.vocabulary, position=functools.partial(Learned, length=17))
    tokens = data.encode([sentence("fox", "cart", adjective) for adjective in ("tired", "wet")])[:, :REFERENT]
    shared = [i for i in range(REFERENT) if i != ADJECTIVE]
    (first, _), (second, _) = (scores for scores in model.scores(tokens) if scores is not None)
    assert torch.equal(first[0, :, -1, shared], first[1, :, -1, shared])
    assert not torch.equal(first[0, :, -1, ADJECTIVE], first[1, :, -1, ADJECTIVE])
    assert not torch.equal(second[0, :, -1, shared], second[1, :, -1, shared])
    weights = model.attention(tokens)[0]
    assert weights is not None
    rows = weights[:, :, -1, shared]
    torch.testing.assert_close(*(row / row.sum(dim=-1, keepdim=True) for row in rows))
