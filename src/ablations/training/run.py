"""One run: from a config to its status, metrics and history. Knows nothing of Hydra's sweeps, wandb or the ledger."""

import dataclasses
import logging
import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from ablations.training import CHECKPOINT
from ablations.training.build import PRECISIONS, Config, build_data, build_model, seeds
from ablations.training.module import Steps, Training
from ablations.training.record import Keeper, Recorder, Row
from ablations.training.resume import VerifiedCheckpointIO, usable

WEIGHTS = "weights.pt"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to: `done` or `diverged`, numbers, what is more than a number, and one row per reading."""

    status: str
    metrics: dict[str, float | int | None]
    details: dict[str, Any]
    history: list[Row]
    resumed_at: int | None


def train(
    config: Config,
    work: Path,
    on_row: Callable[[Row], None] = lambda row: None,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
    gpu: int = 0,
) -> Outcome:
    """Trains a run, or goes on with it where `work` has its checkpoint.

    Args:
        config: of the run, resolved.
        work: folder for its checkpoint and, in the end, its weights; it belongs to this run's identity alone.
        on_row: is given each row of the history when it is read (again, after a resume).
        on_step: is given the steps done and the last loss.
        gpu: number of the one to use, where the accelerator is `gpu`.

    Raises:
        InputError: a config that cannot be built.
        CorruptCheckpoint: the checkpoint was damaged and is set aside; another call trains anew.
    """
    _quiet()
    torch.set_num_threads(config["runtime"]["threads"])
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    work.mkdir(parents=True, exist_ok=True)
    checkpoint = work / CHECKPOINT
    resume = usable(checkpoint)
    module = Training(model, data, config["optimizer"], config["schedule"]["warmup"], seeds(config["seed"])[0])
    recorder = Recorder(
        config["probe"]["every"],
        data.probe(config["probe"]["windows"]),
        config["divergence"] * math.log(data.vocabulary),
        on_row,
        on_step,
    )
    trainer = _trainer(config, work, gpu, [recorder, Keeper(checkpoint, config["runtime"]["checkpoint_every"])])
    module.train()
    resumed_at = _fit(trainer, module, config["steps"], checkpoint if resume else None)
    metrics: dict[str, float | int | None] = {"parameters": parameters, "steps": trainer.global_step}
    details: dict[str, Any] = {}
    if recorder.diverged_at is None:
        module.eval()
        module.to(f"cuda:{gpu}" if config["runtime"]["accelerator"] == "gpu" else "cpu")
        recorder.close(config["steps"], module)
        scores = data.evaluate(module.model, module.device)
        metrics |= {name: value if math.isfinite(value) else None for name, value in scores.items()}
        details = data.details(module.model, module.device)
        torch.save(module.model.state_dict(), work / WEIGHTS)
    diverged = recorder.diverged_at is not None or None in metrics.values()
    return Outcome("diverged" if diverged else "done", metrics, details, recorder.rows, resumed_at)


def _fit(trainer: pl.Trainer, module: Training, steps: int, checkpoint: Path | None) -> int | None:
    at = None
    if checkpoint is not None:
        at = VerifiedCheckpointIO().load_checkpoint(checkpoint)["global_step"]
    trainer.fit(module, Steps(steps), ckpt_path=checkpoint, weights_only=True)
    return at


def _trainer(config: Config, work: Path, gpu: int, callbacks: list[Any]) -> pl.Trainer:
    on_gpu = config["runtime"]["accelerator"] == "gpu"
    precision: Any = PRECISIONS[config["precision"]]
    return pl.Trainer(
        max_steps=config["steps"],
        accelerator=config["runtime"]["accelerator"],
        devices=[gpu] if on_gpu else 1,
        precision=precision,
        gradient_clip_val=config["optimizer"]["clip"],
        deterministic=on_gpu,  # a processor's kernels are deterministic as they are
        plugins=[VerifiedCheckpointIO(), LightningEnvironment()],
        callbacks=callbacks,
        default_root_dir=work,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


def autocast(config: Config) -> AbstractContextManager[Any]:
    """What the trainer wraps a step in."""
    device = "cuda" if config["runtime"]["accelerator"] == "gpu" else "cpu"
    return torch.autocast(device, torch.bfloat16) if config["precision"] == "bf16" else nullcontext()


def _quiet() -> None:
    """Lightning's hints and its doubts about a loader that is ours on purpose."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    warnings.filterwarnings("ignore", module="lightning_fabric")
