"""Sigma-reparametrisation (Zhai et al. 2023, section 3): a weight's largest singular value is a number of its own."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm

from ablations.model.language_model import LanguageModel


class _Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, weight: Tensor) -> Tensor:
        return self.gain * weight


class SigmaReparametrized(LanguageModel):
    """The language model whose blocks' weights are gain x W / sigma(W): the gain learned, sigma by power iteration.

    Args:
        vocabulary: as for `LanguageModel`, and so on.
    """

    def __init__(self, vocabulary: int, **parts: Any) -> None:
        super().__init__(vocabulary, **parts)
        for block in self.blocks:
            for layer in [module for module in block.modules() if isinstance(module, nn.Linear)]:
                spectral_norm(layer)
                parametrize.register_parametrization(layer, "weight", _Gain())
