"""The transformer block: sub-layers, residuals and where the normalisation sits (chapter, sections F and H)."""

from collections.abc import Callable

from torch import Tensor, nn

from ablations.model.past import Past
from ablations.model.position.base import Position

PLACEMENTS = ("pre", "post", "none")

Part = Callable[[], nn.Module | None]
Layer = Callable[..., Tensor]


class Block(nn.Module):
    """A mixer across positions, then a network within each; either may be absent.

    Args:
        mixer: builds the module that mixes positions.
        feedforward: builds the module that works on each position.
        norm: builds one normalisation layer.
        placement: `pre`: x + f(norm(x)); `post`: norm(x + f(x)); `none`: x + f(x).
        residual: False drops the "x +".
        dropout: on each sub-layer's output, before the addition.
    """

    def __init__(
        self,
        mixer: Part,
        feedforward: Part,
        norm: Callable[[], nn.Module],
        placement: str,
        residual: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if placement not in PLACEMENTS:
            raise ValueError(f"norm.placement: {placement}; allowed: {', '.join(PLACEMENTS)}")
        self.mixer = mixer()
        self.mixer_norm = norm() if self.mixer is not None and placement != "none" else nn.Identity()
        self.feedforward = feedforward()
        self.feedforward_norm = norm() if self.feedforward is not None and placement != "none" else nn.Identity()
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.placement, self.residual = placement, residual

    def forward(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> Tensor:
        """Output BxTxD; with a `past`, the positions at hand come after those that it keeps."""
        if self.mixer is not None:
            given = (position,) if past is None else (position, past)  # a mixer that only trains need not know of pasts
            x_BxTxD = self._sublayer(x_BxTxD, self.mixer, self.mixer_norm, *given)
        if self.feedforward is not None:
            x_BxTxD = self._sublayer(x_BxTxD, self.feedforward, self.feedforward_norm)
        return x_BxTxD

    def scores(self, x_BxTxD: Tensor, position: Position) -> tuple[Tensor, Tensor] | None:
        """The mixer's scores BxHxTxT and which of them are visible, TxT; None where it has none."""
        if self.mixer is None or not hasattr(self.mixer, "scores"):
            return None
        seen_BxTxD = self.mixer_norm(x_BxTxD) if self.placement == "pre" else x_BxTxD
        scores: tuple[Tensor, Tensor] = self.mixer.scores(seen_BxTxD, position)  # type: ignore[operator]
        return scores

    def _sublayer(self, x_BxTxD: Tensor, f: Layer, norm: Layer, *rest: Position | Past) -> Tensor:
        out_BxTxD: Tensor = self.dropout(f(norm(x_BxTxD) if self.placement == "pre" else x_BxTxD, *rest))
        if self.residual:
            out_BxTxD = x_BxTxD + out_BxTxD
        return norm(out_BxTxD) if self.placement == "post" else out_BxTxD
