"""What mixers keep of the positions they have seen, so that generation need not read them again (the KV cache)."""

import torch
from torch import Tensor


class Past:
    """One block's memory of the positions before those at hand.

    `length` is how many they are; `LanguageModel` counts them. `kept` is the mixer's own: keys and values, or whatever
    stands for the past in it.
    """

    def __init__(self) -> None:
        self.length = 0
        self.kept: dict[str, Tensor] = {}

    def append(self, name: str, new_xTxK: Tensor) -> Tensor:
        """All of `name` up to now: what was kept, then `new_xTxK`, along the positions (the last dimension but one)."""
        if name in self.kept:
            new_xTxK = torch.cat((self.kept[name], new_xTxK), dim=-2)
        self.kept[name] = new_xTxK
        return new_xTxK

    @property
    def bytes(self) -> int:
        """Memory that the past takes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.kept.values())


def start_of(past: Past | None) -> int:
    """The place of the first position at hand: 0 where nothing is kept."""
    return 0 if past is None else past.length
