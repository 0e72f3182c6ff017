"""`equivalence`: the attention here is the library's (chapter, section L; second chapter, exercise 1)."""

import torch
import torch.nn.functional as F
from torch import nn

from ablations.measure.result import Result
from ablations.model.mixer.attention import Attention
from ablations.model.position.base import Position

BATCH, LENGTH, WIDTH, HEADS = 2, 128, 128, 4
ASKED, TOUCHED = 3, 5  # a position, and a token of its future


def measure() -> list[Result]:
    """Largest differences from PyTorch's own modules with the same weights."""
    torch.manual_seed(0)
    ours, position = Attention(WIDTH, heads=HEADS, project=True), Position(WIDTH)
    unmasked = Attention(WIDTH, heads=HEADS, project=True, causal=False)
    unmasked.load_state_dict(ours.state_dict())
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x_BxTxD = torch.randn(BATCH, LENGTH, WIDTH)
    touched = x_BxTxD.clone()
    touched[:, TOUCHED] += 1
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.out_proj.load_state_dict(ours.output.state_dict())
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        library, _ = theirs(x_BxTxD, x_BxTxD, x_BxTxD, attn_mask=hidden)
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in ours.qkv(x_BxTxD).chunk(3, dim=-1))
        kernel = ours.output(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        written, fused = ours.written_out(x_BxTxD, position), ours(x_BxTxD, position)

        def moved(attention: Attention) -> float:
            change = attention.written_out(touched, position) - attention.written_out(x_BxTxD, position)
            return change[:, ASKED].abs().max().item()

        rows = [
            ("multihead", "written out, against nn.MultiheadAttention", (written - library).abs().max().item()),
            ("kernel", "written out, against scaled_dot_product_attention", (written - kernel).abs().max().item()),
            ("fused", "fused, against written out", (fused - written).abs().max().item()),
            ("magnitude", "mean magnitude of the outputs", written.abs().mean().item()),
            ("masked", f"change at position {ASKED} when token {TOUCHED} changes", moved(ours)),
            ("unmasked", "the same without the mask", moved(unmasked)),
        ]
    return [
        Result("equivalence", "L. The implementation is the library's: largest differences", [
            {"row": label, "variant": key, "value": value} for key, label, value in rows
        ])
    ]  # fmt: skip
