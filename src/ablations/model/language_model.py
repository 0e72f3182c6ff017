"""Tokens in, scores of the next token out (chapter, sections A and F)."""

from collections.abc import Callable

from torch import Tensor, nn

from ablations.model.block import Block
from ablations.model.position.base import Position

Factory = Callable[..., nn.Module | None]


class LanguageModel(nn.Module):
    """Token embedding, position encoding, blocks, output layer. Initialisation is PyTorch's own; no weight is tied.

    Args:
        vocabulary: V, kinds of tokens.
        width: D, of the embeddings.
        blocks: how many.
        position: builds the encoding from `width`.
        mixer: builds a block's mixer from `width`, or None.
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
        mixer: Factory,
        feedforward: Factory,
        norm: Factory,
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
        self.blocks = nn.ModuleList(
            Block(
                mixer=lambda: mixer(width=width),
                feedforward=lambda: feedforward(width=width),
                norm=lambda: norm(width),
                placement=placement,
                residual=residual,
                dropout=dropout,
            )
            for _ in range(blocks)
        )
        self.norm = norm(width) if placement == "pre" else nn.Identity()

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        """Scores of the next token at each position, BxTxV."""
        x_BxTxD = self.dropout(self.position.embed(self.embedding(tokens_BxT)))
        for block in self.blocks:
            x_BxTxD = block(x_BxTxD, self.position)
        logits_BxTxV: Tensor = self.output(self.norm(x_BxTxD))
        return logits_BxTxV
