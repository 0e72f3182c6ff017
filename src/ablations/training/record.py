"""Callbacks of a run: its history, its end by divergence, its checkpoints, its progress."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from ablations.training.module import Training
from ablations.training.probes import read_attention, read_gradients

Row = dict[str, float | None]


class Recorder(pl.Callback):
    """Reads the instruments every `every` steps, and watches for divergence.

    A row holds what was true before step `step`: the attention of the weights that the step starts from, the loss of
    its batch, and its gradients before clipping. The rows travel in the checkpoint, so a resumed run has them all.

    Args:
        every: steps between readings.
        tokens_BxT: the fixed probe batch.
        limit: a training loss above this, or one that is not finite, is divergence.
        on_row: is given each row as it is ready.
        on_step: is given the steps done and the loss after each step.
    """

    def __init__(
        self,
        every: int,
        tokens_BxT: Tensor,
        limit: float,
        on_row: Callable[[Row], None],
        on_step: Callable[[int, float], None],
    ) -> None:
        self.every, self.tokens_BxT, self.limit = every, tokens_BxT, limit
        self.on_row, self.on_step = on_row, on_step
        self.rows: list[Row] = []
        self.row: Row | None = None
        self.diverged_at: int | None = None

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        self.row = None
        if step % self.every == 0:
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            self.row = {"step": step, "train_loss": None, "lr": rate, **self._attention(module)}

    def on_before_optimizer_step(self, trainer: pl.Trainer, module: Any, optimizer: Any) -> None:
        if self.row is not None:
            self.row |= read_gradients(module.model)

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs["loss"].item()
        if self.row is not None:
            self._keep(self.row | {"train_loss": loss})
            self.row = None
        if not loss <= self.limit:
            self.diverged_at = trainer.global_step
            self._keep({"step": trainer.global_step, "train_loss": loss, "lr": None})
            trainer.should_stop = True
        self.on_step(trainer.global_step, loss)

    def close(self, steps: int, module: Training) -> None:
        """The last row: the attention of the final weights, of which no step was taken."""
        if not self.rows or self.rows[-1]["step"] != steps:
            self._keep({"step": steps, "train_loss": None, "lr": None, **self._attention(module)})

    def _attention(self, module: Training) -> Row:
        return dict(read_attention(module.model, self.tokens_BxT.to(module.device)))

    def _keep(self, row: Row) -> None:
        finite: Row = {name: v if v is not None and math.isfinite(v) else None for name, v in row.items()}
        self.rows.append(finite)
        self.on_row(finite)

    def state_dict(self) -> dict[str, Any]:
        """The rows so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes up the rows of the interrupted run."""
        self.rows = list(state_dict["rows"])
        for row in self.rows:
            self.on_row(row)


class Keeper(pl.Callback):
    """Writes `path` every `every` steps, so that a crash costs at most as many."""

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step % self.every == 0 and not trainer.should_stop:
            trainer.save_checkpoint(self.path)
