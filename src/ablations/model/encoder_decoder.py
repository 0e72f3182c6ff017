"""An encoder and a decoder that looks at it (Vaswani et al. 2017, section 3.1; second chapter)."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.model.block import Block
from ablations.model.language_model import LanguageModel
from ablations.model.past import Past
from ablations.model.position.base import Position


class CrossAttention(nn.Module):
    """Attention whose queries come from one text and keys and values from another; nothing is masked.

    Args:
        width: of both.
        heads: side by side, each width / heads wide.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.output = nn.Linear(width, width)

    def forward(self, x_BxTxD: Tensor, other_BxSxD: Tensor) -> Tensor:
        k, v = self.key_value(other_BxSxD).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x_BxTxD), k, v))
        out_BxTxD: Tensor = self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return out_BxTxD


class DecoderBlock(Block):
    """A block with cross-attention between its mixer and its feed-forward network, under a norm of its own.

    Args:
        cross_heads: of the cross-attention.
        width: of its input and output.
        norm: builds one normalisation layer.
        parts: as for `Block`.
    """

    def __init__(self, cross_heads: int, width: int, norm: Callable[[], nn.Module], **parts: Any) -> None:
        super().__init__(norm=norm, **parts)
        self.cross, self.cross_norm = CrossAttention(width, cross_heads), norm()

    def read(self, x_BxTxD: Tensor, position: Position, source_BxSxD: Tensor) -> Tensor:
        """Output BxTxD, of a text that looks at its source."""
        assert self.mixer is not None and self.feedforward is not None
        x_BxTxD = self._sublayer(x_BxTxD, self.mixer, self.mixer_norm, position)
        x_BxTxD = self._sublayer(x_BxTxD, lambda y_BxTxD: self.cross(y_BxTxD, source_BxSxD), self.cross_norm)
        return self._sublayer(x_BxTxD, self.feedforward, self.feedforward_norm)


class EncoderDecoder(LanguageModel):
    """Reads the first `source` tokens with blocks that see all of them; the rest with causal ones, which look at those.

    It is called like `LanguageModel`; what it gives at the source's positions means nothing, so targets there are to be
    ignored.

    Args:
        vocabulary: as for `LanguageModel`, and so on.
        source: tokens of each text that the encoder reads.
        encoder_mixer: builds the mixers of the encoder's blocks, from `width`.
        cross_heads: of the cross-attention.
    """

    def __init__(self, vocabulary: int, source: int, encoder_mixer: Any, cross_heads: int, **parts: Any) -> None:
        super().__init__(vocabulary, **parts)
        width, count, norm = parts["width"], parts["blocks"], parts["norm"]
        if source < 1:
            raise ValueError(f"source: {source}; allowed: at least 1")
        if cross_heads < 1 or width % cross_heads:
            divisors = ", ".join(str(n) for n in range(1, width + 1) if width % n == 0)
            raise ValueError(f"cross_heads: {cross_heads} does not divide the width {width}; allowed: {divisors}")
        self.source = source
        shared: dict[str, Any] = {
            "feedforward": lambda: parts["feedforward"](width=width),
            "norm": lambda: norm(width),
            "placement": parts["placement"],
            "residual": parts["residual"],
            "dropout": parts.get("dropout", 0.0),
        }
        encoder = nn.ModuleList(Block(mixer=lambda: encoder_mixer(width=width), **shared) for _ in range(count))
        decoder = nn.ModuleList(
            DecoderBlock(cross_heads, width, mixer=lambda: parts["mixer"](width=width), **shared) for _ in range(count)
        )
        self.encoder, self.encoder_norm = cast(Sequence[Block], encoder), norm(width)
        self.blocks = cast(Sequence[Block], decoder)

    def features(self, tokens_BxT: Tensor, pasts: Sequence[Past] | None = None) -> Tensor:
        """What the output layer gets: the encoder's output, then the decoder's, BxTxD."""
        split = min(self.source, tokens_BxT.shape[1] - 1)  # of a shorter text the decoder gets the last token
        source_BxSxD = self.dropout(self.position.embed(self.embedding(tokens_BxT[:, :split])))
        for block in self.encoder:
            source_BxSxD = block(source_BxSxD, self.position)
        source_BxSxD = self.encoder_norm(source_BxSxD)
        x_BxTxD = self.dropout(self.position.embed(self.embedding(tokens_BxT[:, split:])))
        for block in cast(Sequence[DecoderBlock], self.blocks):
            x_BxTxD = block.read(x_BxTxD, self.position, source_BxSxD)
        return torch.cat((source_BxSxD, self.norm(x_BxTxD)), dim=1)

    def scores(self, tokens_BxT: Tensor) -> list[tuple[Tensor, Tensor] | None]:
        """None for each block: their scores hang on the encoder, too."""
        return [None for _ in self.blocks]
