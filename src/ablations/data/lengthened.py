"""Windows that become longer towards the end of training: further training at a longer context (second chapter)."""

from typing import Any

from ablations.data.interface import Batch
from ablations.data.windows import Windows


class Lengthened(Windows):
    """`Windows` whose batches from step `at` on hold longer sequences, and fewer of them: as many tokens, or nearly.

    Args:
        at: first step with longer sequences.
        longer: their length, a multiple of the window.
        rest: as for `Windows`.
    """

    def __init__(self, at: int, longer: int, **rest: Any) -> None:
        super().__init__(**rest)
        if at < 0:
            raise ValueError(f"at: {at}; allowed: at least 0")
        if longer < 1 or longer % self.window:
            raise ValueError(f"longer: {longer}; allowed: a multiple of the window {self.window}")
        size = max(1, self.size * self.window // longer)
        self.at, self.after = at, Windows(**(rest | {"window": longer, "batch": size}))

    def batch(self, index: int) -> Batch:
        """Inputs and next tokens of step `index`."""
        return super().batch(index) if index < self.at else self.after.batch(index)
