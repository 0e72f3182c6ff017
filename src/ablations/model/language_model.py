"""Tokens in, scores of the next token out (chapter, sections A and F)."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from ablations.model.block import Block
from ablations.model.mixer.softmax import weights
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
        self.blocks: Iterable[Block] = nn.ModuleList(  # type: ignore[assignment]
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
