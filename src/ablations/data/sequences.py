"""A task that every form of transformer can do: to reverse or to sort a short sequence (second chapter)."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.data.interface import Batch
from ablations.model.loss import IGNORED

FORMS = ("decoder", "encoder", "encoder_decoder")
OPERATIONS = ("reverse", "sort")
HELD_OUT = 1000  # sequences


class Sequences:
    """Sequences of random symbols and what is to come of them.

    A decoder, with or without an encoder, reads the sequence, a separator, and its own answer so far; an encoder alone
    reads the sequence and as many masks, and fills all of them at once. Targets on the sequence itself are ignored.

    Args:
        form: `decoder`, `encoder` (masked tokens), or `encoder_decoder`.
        operation: `reverse` or `sort`.
        length: of a sequence.
        symbols: kinds of them.
        window: tokens a model reads: twice the length.
        batch: B, sequences per step.
        seed: of the order of the data.

    Raises:
        ValueError: a form, an operation or a size that cannot be.
    """

    def __init__(
        self, form: str, operation: str, length: int, symbols: int, window: int, batch: int, seed: int
    ) -> None:
        for name, value, allowed in (("form", form, FORMS), ("operation", operation, OPERATIONS)):
            if value not in allowed:
                raise ValueError(f"{name}: {value}; allowed: {', '.join(allowed)}")
        for name, number in (("length", length), ("symbols", symbols), ("batch", batch)):
            if number < 1:
                raise ValueError(f"{name}: {number}; allowed: at least 1")
        if window != 2 * length:
            raise ValueError(f"window: {window}; allowed: {2 * length}, twice the length")
        self.form, self.operation, self.length, self.symbols = form, operation, length, symbols
        self.size, self.seed = batch, seed
        self.vocabulary = symbols + 1
        self.special = symbols  # the separator, or the mask
        self.heldout = self._drawn([0, HELD_OUT], HELD_OUT)  # of no seed: all runs are judged by the same

    def _drawn(self, seed: list[int], rows: int) -> Tensor:
        return torch.from_numpy(np.random.default_rng(seed).integers(0, self.symbols, (rows, self.length)))

    def answer(self, source_BxL: Tensor) -> Tensor:
        """What is to come of the sequences, BxL."""
        return source_BxL.flip(-1) if self.operation == "reverse" else source_BxL.sort(dim=-1).values

    def batch(self, index: int) -> Batch:
        """Inputs and targets of step `index`, BxT each."""
        return self._pair(self._drawn([1, self.seed, index], self.size))

    def _pair(self, source_BxL: Tensor) -> Batch:
        answer_BxL = self.answer(source_BxL)
        special_BxL = torch.full_like(source_BxL, self.special)
        given_BxL = (
            special_BxL if self.form == "encoder" else torch.cat((special_BxL[:, :1], answer_BxL[:, :-1]), dim=1)
        )
        x_BxT = torch.cat((source_BxL, given_BxL), dim=1)
        return x_BxT, torch.cat((torch.full_like(source_BxL, IGNORED), answer_BxL), dim=1)

    def probe(self, windows: int) -> Tensor:
        """The first held-out sequences, NxT."""
        return self._pair(self.heldout[:windows])[0]

    def evaluate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Of the held-out sequences: `accuracy`, the share whose whole answer is right, given by the model alone, one
        symbol after the other (an encoder: all at once); `accuracy_symbols`; and the loss where the past is right.
        """
        source_NxL = self.heldout.to(device)
        x_NxT, y_NxT = self._pair(source_NxL)
        with torch.no_grad():
            logits_NxTxV = model(x_NxT)
            loss = F.cross_entropy(logits_NxTxV.flatten(0, 1), y_NxT.flatten(), ignore_index=IGNORED).item()
            found_NxL = self._answered(model, source_NxL)
        right_NxL = (found_NxL == self.answer(source_NxL)).double()
        return {
            "accuracy": right_NxL.prod(dim=1).mean().item(),
            "accuracy_symbols": right_NxL.mean().item(),
            "heldout_loss": loss,
            "heldout_perplexity": float(np.exp(loss)),
        }

    def _answered(self, model: nn.Module, source_NxL: Tensor) -> Tensor:
        special_NxL = torch.full_like(source_NxL, self.special)
        if self.form == "encoder":
            found: Tensor = model(torch.cat((source_NxL, special_NxL), dim=1))[:, self.length :].argmax(dim=-1)
            return found
        x_NxT = torch.cat((source_NxL, special_NxL[:, :1]), dim=1)
        for _ in range(self.length):
            x_NxT = torch.cat((x_NxT, model(x_NxT)[:, -1:].argmax(dim=-1)), dim=1)
        return x_NxT[:, self.length + 1 :]

    def details(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """Nothing beyond the numbers."""
        return {}
