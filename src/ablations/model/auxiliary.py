"""A language model whose parts add to the loss, as the load balance of experts does."""

from typing import Any

from torch import Tensor

from ablations.model.language_model import LanguageModel


class WithAuxiliaryLoss(LanguageModel):
    """The language model, and `auxiliary` times the sum of its parts' `auxiliary_loss` in what training lowers.

    Args:
        vocabulary: as for `LanguageModel`, and so on.
        auxiliary: weight of the parts' losses.
    """

    def __init__(self, vocabulary: int, auxiliary: float = 0.01, **parts: Any) -> None:
        super().__init__(vocabulary, **parts)
        if auxiliary < 0:
            raise ValueError(f"auxiliary: {auxiliary}; allowed: at least 0")
        self.auxiliary = auxiliary

    def loss(self, tokens_BxT: Tensor, targets_BxT: Tensor) -> Tensor:
        """Cross-entropy and the weighed losses of the parts."""
        loss = super().loss(tokens_BxT, targets_BxT)
        for part in self.modules():
            if (extra := getattr(part, "auxiliary_loss", None)) is not None:
                loss = loss + self.auxiliary * extra
        return loss
