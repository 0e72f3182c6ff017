"""Windows of a tokenized text: training batches, the probe batch, and perplexity (chapter, Setting)."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.data.interface import Batch


class Windows:
    """Random training windows, and a held-out text read in windows that do not overlap.

    Args:
        tokens: folder with `tokens.npy` and `meta.json`, as stage `tokenize` writes it.
        window: T, tokens per training sequence.
        batch: B, sequences per step.
        also_at: further window lengths at which the held-out text is read.
        seed: of the order of the data.

    Raises:
        ValueError: a window that the texts are too short for, or a token file that is not what its meta data says.
    """

    def __init__(self, tokens: str | Path, window: int, batch: int, also_at: list[int], seed: int) -> None:
        meta = json.loads((Path(tokens) / "meta.json").read_text())
        for name, length in [("window", window), *(("also_at", length) for length in also_at)]:
            if not 1 <= length < meta["heldout_tokens"]:
                limit = meta["heldout_tokens"] - 1
                raise ValueError(f"{name}: {length}; allowed: 1 to {limit}, what the held-out text can fill")
        if batch < 1:
            raise ValueError(f"batch: {batch}; allowed: at least 1")
        try:
            all_tokens = np.load(Path(tokens) / "tokens.npy")
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"tokens: {tokens}/tokens.npy cannot be read; allowed: as `tokenize` wrote it") from error
        if hashlib.sha256(all_tokens.tobytes()).hexdigest() != meta["tokens_sha256"]:
            raise ValueError(f"tokens: {tokens}/tokens.npy was altered; allowed: as `tokenize` wrote it")
        self.vocabulary: int = meta["vocabulary"]
        self.window, self.size, self.also_at, self.seed = window, batch, also_at, seed
        text = torch.from_numpy(all_tokens.astype(np.int64))
        self.train, self.heldout = text[: meta["train_tokens"]], text[meta["train_tokens"] :]

    def batch(self, index: int) -> Batch:
        """Inputs and next tokens, BxT each, of step `index`: a pure function of the seed and the index."""
        starts = np.random.default_rng([self.seed, index]).integers(0, len(self.train) - self.window, self.size)
        at_BxT = torch.from_numpy(starts)[:, None] + torch.arange(self.window)
        return self.train[at_BxT], self.train[at_BxT + 1]

    def probe(self, windows: int) -> Tensor:
        """The first windows of the held-out text, NxT: the same at each reading."""
        windows = min(windows, len(self.heldout) // self.window)
        return self.heldout[: windows * self.window].view(windows, self.window)

    def evaluate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Perplexity over the whole held-out text, and over as much of the training text."""
        texts = {"heldout": self.heldout, "train": self.train[: len(self.heldout)]}
        metrics: dict[str, float] = {}
        for name, text in texts.items():
            loss = mean_loss(model, text, self.window, self.size, device)
            metrics |= {f"{name}_loss": loss, f"{name}_perplexity": perplexity(loss)}
        for length in self.also_at:
            rows = max(1, self.size * self.window // length)
            loss = mean_loss(model, self.heldout, length, rows, device)
            metrics |= {f"heldout_loss_at_{length}": loss, f"heldout_perplexity_at_{length}": perplexity(loss)}
        return metrics

    def details(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """Nothing beyond the numbers."""
        return {}


def mean_loss(model: nn.Module, text: Tensor, window: int, rows: int, device: torch.device) -> float:
    """Mean cross-entropy in nats of each token of `text` but the first, given at most `window` tokens before it.

    The text is cut into windows that do not overlap, the last one shorter; `rows` of them are read at a time.
    """
    inputs, targets = text[:-1], text[1:]
    whole = len(inputs) // window * window
    windows = (torch.split(tokens[:whole].view(-1, window), rows) for tokens in (inputs, targets))
    parts = list(zip(*windows, strict=True))
    if whole < len(inputs):
        parts.append((inputs[whole:][None], targets[whole:][None]))
    total = 0.0
    with torch.no_grad():
        for x_BxT, y_BxT in parts:
            logits_BxTxV = model(x_BxT.to(device))
            losses = F.cross_entropy(logits_BxTxV.flatten(0, 1), y_BxT.flatten().to(device), reduction="sum")
            total += losses.item()
    return total / len(inputs)


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf
