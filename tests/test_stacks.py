"""Encoder and decoder, the task that every form can do, and windows that become longer."""

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.data.lengthened import Lengthened
from ablations.data.sequences import Sequences
from ablations.data.windows import Windows
from ablations.model.encoder_decoder import CrossAttention, DecoderBlock, EncoderDecoder
from ablations.model.language_model import LanguageModel
from ablations.model.loss import IGNORED
from ablations.model.mixer.attention import Attention
from ablations.model.position.base import Position
from ablations.model.position.rotary import Rotary
from tests.test_modern import NO_POSITION, model


def encoder_decoder(**changes: Any) -> EncoderDecoder:
    parts = {
        "source": 5,
        "cross_heads": 4,
        "encoder_mixer": functools.partial(Attention, heads=4, project=True, causal=False),
        "position": Position,
    }
    made = model(EncoderDecoder, **(parts | changes))
    assert isinstance(made, EncoderDecoder)
    return made


def test_a_decoder_block_is_the_librarys() -> None:
    """`nn.TransformerDecoderLayer` with our weights, norms first."""
    block: Any = encoder_decoder().blocks[0]
    assert isinstance(block, DecoderBlock) and isinstance(block.cross, CrossAttention)
    theirs = nn.TransformerDecoderLayer(32, 4, 128, 0.0, F.gelu, batch_first=True, norm_first=True)
    theirs.self_attn.in_proj_weight.data.copy_(block.mixer.qkv.weight)
    theirs.self_attn.out_proj.load_state_dict(block.mixer.output.state_dict())
    theirs.multihead_attn.in_proj_weight.data.copy_(torch.cat((block.cross.query.weight, block.cross.key_value.weight)))
    theirs.multihead_attn.out_proj.load_state_dict(block.cross.output.state_dict())
    for attention in (theirs.self_attn, theirs.multihead_attn):
        attention.in_proj_bias.data.zero_()
    theirs.linear1.load_state_dict(block.feedforward.up.state_dict())
    theirs.linear2.load_state_dict(block.feedforward.down.state_dict())
    x, source = torch.randn(2, 6, 32), torch.randn(2, 5, 32)
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    expected = theirs(x, source, tgt_mask=mask, tgt_is_causal=True)
    torch.testing.assert_close(block.read(x, NO_POSITION, source), expected)


def test_the_decoder_sees_all_of_the_source_and_none_of_its_future() -> None:
    made = encoder_decoder(position=Rotary)
    embedded: list[Tensor] = []
    made.embedding.register_forward_hook(lambda _, __, out: embedded.append(out) or out.retain_grad())
    made(torch.arange(11)[None])[0, 7].square().sum().backward()
    source, text = (out.grad[0].abs().sum(dim=-1) for out in embedded)  # type: ignore[index]
    assert (source > 0).all() and (text[:3] > 0).all() and (text[3:] == 0).all()


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder_decoder"])
def test_sequences_are_learned_by_each_form(form: str) -> None:
    """Three symbols of four: after 300 steps all answers are right, on any processor, and they are the model's own."""
    data = Sequences(form, "reverse", length=3, symbols=4, window=6, batch=32, seed=0)
    if form == "encoder_decoder":
        made: LanguageModel = encoder_decoder(vocabulary=5, source=3, position=Rotary)
    else:
        mixer = functools.partial(Attention, heads=4, project=True, causal=form == "decoder")
        made = model(vocabulary=5, mixer=mixer)
    adamw = torch.optim.AdamW(made.parameters(), lr=3e-3)
    before = data.evaluate(made, torch.device("cpu"))
    for i in range(300):
        loss = made.loss(*data.batch(i))
        adamw.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adamw.step()
    after = data.evaluate(made, torch.device("cpu"))
    assert before["accuracy"] < 0.3 and after["accuracy"] > 0.95 and after["accuracy_symbols"] >= after["accuracy"]


@pytest.mark.parametrize(("operation", "answer"), [("reverse", [3, 0, 2, 1]), ("sort", [0, 1, 2, 3])])
def test_what_a_form_reads_and_what_counts(operation: str, answer: list[int]) -> None:
    source = torch.tensor([[1, 2, 0, 3]])
    read = {}
    for form in ("decoder", "encoder"):
        data = Sequences(form, operation, length=4, symbols=5, window=8, batch=2, seed=1)
        read[form], targets = data._pair(source)
        assert targets.tolist() == [[IGNORED] * 4 + answer]
    assert read["decoder"].tolist() == [[1, 2, 0, 3, 5, *answer[:3]]]
    assert read["encoder"].tolist() == [[1, 2, 0, 3, 5, 5, 5, 5]]
    same, other = (Sequences("decoder", operation, 4, 5, 8, 2, seed) for seed in (1, 2))
    assert torch.equal(data.batch(3)[0][:, :4], same.batch(3)[0][:, :4])
    assert not torch.equal(same.batch(3)[0], other.batch(3)[0])


def test_windows_become_longer_when_they_should(small_tokens: Any) -> None:
    given = {"tokens": small_tokens, "window": 8, "batch": 8, "also_at": [], "seed": 3}
    data, plain = Lengthened(at=5, longer=32, **given), Windows(**given)
    for i in (0, 4):
        assert torch.equal(data.batch(i)[0], plain.batch(i)[0])
    x, y = data.batch(5)
    assert x.shape == (2, 32) and torch.equal(x[:, 1:], y[:, :-1])
    assert data.probe(2).shape == (2, 8)
    for wrong in ({"at": -1, "longer": 32}, {"at": 1, "longer": 12}):
        with pytest.raises(ValueError, match=r"^(at|longer): "):
            Lengthened(**wrong, **given)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: encoder_decoder(source=0), "source: 0"),
        (lambda: encoder_decoder(cross_heads=3), "cross_heads: 3 does not divide the width 32"),
        (lambda: Sequences("both", "sort", 4, 5, 8, 2, 0), "form: both; allowed: decoder, encoder, encoder_decoder"),
        (lambda: Sequences("decoder", "add", 4, 5, 8, 2, 0), "operation: add; allowed: reverse, sort"),
        (lambda: Sequences("decoder", "sort", 4, 5, 9, 2, 0), "window: 9; allowed: 8"),
    ],
)
def test_what_cannot_be_is_refused_by_name(build: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()
