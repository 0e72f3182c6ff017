"""What a run needs from its data."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


class Data(Protocol):
    """Training batches, a fixed batch for the probes, and the numbers that a trained model is judged by."""

    vocabulary: int

    def batch(self, index: int) -> Batch:
        """Inputs and next tokens, BxT each, of step `index`: a pure function of the data seed and the index."""

    def probe(self, windows: int) -> Tensor:
        """At most `windows` held-out sequences, NxT: the same at each reading."""

    def evaluate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The final numbers by name."""

    def details(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """What is more than a number, as JSON takes it; empty for most."""
