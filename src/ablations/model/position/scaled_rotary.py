"""RoPE beyond the trained length: position interpolation (Chen et al. 2023), NTK-aware scaling (bloc97 2023) and YaRN
(Peng et al. 2023, sections 3.2 and 3.4). Within the trained length all of them are RoPE itself.
"""

import math

import torch
from torch import Tensor

from ablations.model.position.rotary import Rotary

METHODS = ("interpolation", "ntk", "yarn")
SLOW, FAST = 1.0, 32.0  # turns over the trained length: below, YaRN interpolates; above, it leaves the rate


class ScaledRotary(Rotary):
    """RoPE whose rates follow the length of the text at hand, where that exceeds the trained one.

    Args:
        width: of the embeddings.
        method: `interpolation` divides all rates by length / trained; `ntk` raises the base so that the slowest rate is
            divided by it and the fastest stays; `yarn` divides those that turn slowly, and sharpens the scores.
        trained: length of the texts in training.
        base: as for `Rotary`.
    """

    follows_length = True  # keys that are kept were turned for a shorter text, so nothing can be kept

    def __init__(self, width: int, method: str, trained: int, base: float = 10000.0) -> None:
        super().__init__(width, base)
        if method not in METHODS:
            raise ValueError(f"method: {method}; allowed: {', '.join(METHODS)}")
        if trained < 1:
            raise ValueError(f"trained: {trained}; allowed: at least 1")
        self.method, self.trained = method, trained

    def rates(self, d_k: int, length: int, device: torch.device) -> Tensor:
        plain_F = super().rates(d_k, length, device)
        factor = max(1.0, length / self.trained)
        if factor == 1:
            return plain_F
        if self.method == "interpolation":
            return plain_F / factor
        if self.method == "ntk":
            exponents_F = -torch.arange(0, d_k, 2, device=device) / d_k
            raised: Tensor = (self.base * factor ** (d_k / max(1, d_k - 2))) ** exponents_F
            return raised
        turns_F = self.trained * plain_F / (2 * math.pi)
        kept_F = ((turns_F - SLOW) / (FAST - SLOW)).clamp(0, 1)
        return plain_F * kept_F + plain_F / factor * (1 - kept_F)

    def gain(self, length: int) -> float:
        factor = max(1.0, length / self.trained)
        return 0.1 * math.log(factor) + 1 if self.method == "yarn" else 1.0
