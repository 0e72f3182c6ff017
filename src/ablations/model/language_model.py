"""Tokens in, scores of the next token out (chapter, sections A and F)."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from ablations.model.block import Block
from ablations.model.loss import linear_cross_entropy
from ablations.model.mixer.softmax import weights
from ablations.model.past import Past
from ablations.model.position.base import Position

Factory = Callable[..., nn.Module | None]


class LanguageModel(nn.Module):
    """Token embedding, position encoding, blocks, output layer. Initialisation is PyTorch's own; no weight is tied.

    Args:
        vocabulary: V, kinds of tokens.
        width: D, of the embeddings.
        blocks: how many.
        position: builds the encoding from `width`.
        mixer: builds a block's mixer from `width`, or None; of several, block i takes the i-th, and so on in turn.
        feedforward: builds a block's feed-forward network from `width`, or None.
        norm: builds a normalisation layer from the width.
        placement: of the normalisation, see `Block`. `pre` has one more before the output.
        residual: whether sub-layers are added to their input or replace it.
        dropout: on the embedding sum and on each sub-layer's output.

    Raises:
        ValueError: a size that cannot be, named with what is allowed.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        blocks: int,
        position: Callable[..., Position],
        mixer: Factory | Sequence[Factory],
        feedforward: Factory,
        norm: Callable[[int], nn.Module],
        placement: str,
        residual: bool,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, value in (("width", width), ("blocks", blocks)):
            if value < 1:
                raise ValueError(f"{name}: {value}; allowed: at least 1")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: {dropout}; allowed: from 0 to below 1")
        # The parts that all variants have come first, so that a seed gives them the same weights in each variant.
        self.embedding = nn.Embedding(vocabulary, width)
        self.output = nn.Linear(width, vocabulary)
        self.position = position(width)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        mixers = mixer if isinstance(mixer, Sequence) else [mixer]
        made = nn.ModuleList(
            Block(
                mixer=functools.partial(mixers[i % len(mixers)], width=width),
                feedforward=lambda: feedforward(width=width),
                norm=lambda: norm(width),
                placement=placement,
                residual=residual,
                dropout=dropout,
            )
            for i in range(blocks)
        )
        self.blocks = cast(Sequence[Block], made)
        self.norm = norm(width) if placement == "pre" else nn.Identity()

    def forward(self, tokens_BxT: Tensor, pasts: Sequence[Past] | None = None) -> Tensor:
        """Scores of the next token at each position, BxTxV; with `pasts`, one per block, the text goes on from them."""
        logits_BxTxV: Tensor = self.output(self.features(tokens_BxT, pasts))
        return logits_BxTxV

    def features(self, tokens_BxT: Tensor, pasts: Sequence[Past] | None = None) -> Tensor:
        """What the output layer gets, BxTxD."""
        start = pasts[0].length if pasts else 0
        x_BxTxD = self.dropout(self.position.embed(self.embedding(tokens_BxT), start))
        for block, past in zip(self.blocks, pasts or itertools.repeat(None)):
            x_BxTxD = block(x_BxTxD, self.position, past)
        for past in pasts or ():
            past.length += tokens_BxT.shape[1]
        normed_BxTxD: Tensor = self.norm(x_BxTxD)
        return normed_BxTxD

    def loss(self, tokens_BxT: Tensor, targets_BxT: Tensor) -> Tensor:
        """What training lowers: mean cross-entropy in nats of the targets that are not `IGNORED`."""
        features_NxD = self.features(tokens_BxT).flatten(0, 1)
        return linear_cross_entropy(features_NxD, self.output.weight, self.output.bias, targets_BxT.flatten())

    def scores(self, tokens_BxT: Tensor) -> list[tuple[Tensor, Tensor] | None]:
        """What each block's softmax sees: scores BxHxTxT and which are visible, TxT; None where it has none."""
        seen: list[tuple[Tensor, Tensor] | None] = []
        x_BxTxD = self.position.embed(self.embedding(tokens_BxT))
        for block in self.blocks:
            seen.append(block.scores(x_BxTxD, self.position))
            x_BxTxD = block(x_BxTxD, self.position)
        return seen

    def attention(self, tokens_BxT: Tensor) -> list[Tensor | None]:
        """Attention weights of each block, BxHxTxT, written out; None where a block does not attend."""
        return [None if scores is None else weights(*scores) for scores in self.scores(tokens_BxT)]
