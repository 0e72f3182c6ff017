"""The training step: next-token cross-entropy, AdamW, a constant rate after an optional linear warmup."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from ablations.data.interface import Data
from ablations.model.language_model import LanguageModel


class Training(pl.LightningModule):
    """One run's optimisation.

    Step i is a pure function of the weights, the optimizer's state, the seed and i: its batch and its random numbers
    (dropout) come from the step's number, so a resumed run goes on as if it had never stopped.

    Args:
        model: to train.
        data: gives batch i.
        optimizer: `lr`, `betas`, `eps`, `weight_decay`.
        warmup: steps over which the rate rises linearly to `lr`.
        seed: of the random numbers within steps.
    """

    def __init__(self, model: LanguageModel, data: Data, optimizer: dict[str, Any], warmup: int, seed: int) -> None:
        super().__init__()
        self.model, self.data, self.warmup, self.seed = model, data, warmup, seed
        self.settings = optimizer

    def training_step(self, step: Any, _: int) -> Tensor:
        index = self.global_step
        generator = torch.default_generator
        if self.device.type == "cuda":
            generator = torch.cuda.default_generators[self.device.index or 0]
        generator.manual_seed(self.seed * 1_000_003 + index)
        x_BxT, y_BxT = (tokens.to(self.device) for tokens in self.data.batch(index))
        return self.model.loss(x_BxT, y_BxT)

    def configure_optimizers(self) -> Any:
        lr, betas = self.settings["lr"], tuple(self.settings["betas"])
        optimizer = torch.optim.AdamW(
            self.parameters(),
            lr=lr,
            betas=betas,
            eps=self.settings["eps"],
            weight_decay=self.settings["weight_decay"],
            fused=True,
        )
        if not self.warmup:
            return optimizer
        rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / self.warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rate, "interval": "step"}}


class Steps:
    """A loader that only counts: the module fetches batch i by itself. A resumed run needs no place in it."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Any:
        return iter(range(self.steps))

    def state_dict(self) -> dict[str, Any]:
        """Empty: where a run stands is its global step."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""
