"""One run: exact resume, divergence, and that neither Lightning nor the probes change a bit of it."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ablations.model.language_model import LanguageModel
from ablations.settings import InputError
from ablations.training import CHECKPOINT
from ablations.training.build import build_data, build_model, seeds
from ablations.training.resume import CorruptCheckpoint, VerifiedCheckpointIO, usable
from ablations.training.run import WEIGHTS, Outcome, train

Config = dict[str, Any]


@pytest.fixture
def config(small_tokens: Path) -> Config:
    """One small block for 30 steps, checkpoint every 7."""
    return {
        "seed": 3,
        "steps": 30,
        "precision": "fp32",
        "divergence": 10,
        "probe": {"every": 10, "windows": 2},
        "data": {
            "_target_": "ablations.data.windows.Windows",
            "tokens": str(small_tokens),
            "window": 12,
            "batch": 4,
            "also_at": [24],
        },
        "model": {
            "_target_": "ablations.model.language_model.LanguageModel",
            "blocks": 2,
            "width": 16,
            "residual": True,
            "dropout": 0.1,
            "mixer": {"_target_": "ablations.model.mixer.attention.Attention", "heads": 2, "dropout": 0.1},
            "position": {"_target_": "ablations.model.position.learned.Learned", "length": 12},
            "norm": {"_target_": "torch.nn.LayerNorm", "placement": "pre"},
            "feedforward": {"_target_": "ablations.model.feedforward.gelu.FeedForward", "inner": 4.0},
        },
        "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip": None},
        "schedule": {"warmup": 5},
        "runtime": {"accelerator": "cpu", "threads": 1, "checkpoint_every": 7},
    }


def weights(folder: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = torch.load(folder / WEIGHTS, weights_only=True)
    return loaded


def same_bits(one: Outcome, other: Outcome, folders: tuple[Path, Path]) -> None:
    assert one.metrics == other.metrics and one.history == other.history
    for (name, a), b in zip(weights(folders[0]).items(), weights(folders[1]).values(), strict=True):
        assert torch.equal(a, b), name


class Crash(Exception):
    """Stands for anything that ends a process."""


def crash_at(step: int) -> Any:
    def on_step(done: int, loss: float) -> None:
        if done == step:
            raise Crash

    return on_step


@pytest.mark.parametrize("steps", [(3,), (9, 20), (14, 21, 29)])
def test_a_resumed_run_is_bit_for_bit_the_run_never_interrupted(
    config: Config, tmp_path: Path, steps: tuple[int, ...]
) -> None:
    """With dropout and warmup, whose random numbers and rate must go on too."""
    whole = train(config, tmp_path / "whole")
    for step in steps:
        with pytest.raises(Crash):
            train(config, tmp_path / "broken", on_step=crash_at(step))
    resumed = train(config, tmp_path / "broken")
    assert resumed.resumed_at == (steps[-1] - 1) // 7 * 7 or (resumed.resumed_at is None and steps == (3,))
    same_bits(whole, resumed, (tmp_path / "whole", tmp_path / "broken"))


def test_a_rerun_is_bit_for_bit_the_same_and_another_seed_is_not(config: Config, tmp_path: Path) -> None:
    one, two = train(config, tmp_path / "1"), train(config, tmp_path / "2")
    same_bits(one, two, (tmp_path / "1", tmp_path / "2"))
    other = train(config | {"seed": 4}, tmp_path / "3")
    assert other.metrics["heldout_loss"] != one.metrics["heldout_loss"]


def test_probing_changes_no_training_bit(config: Config, tmp_path: Path) -> None:
    """Read at each step, or at the first alone: the same weights."""
    train(config | {"probe": {"every": 1, "windows": 2}}, tmp_path / "often")
    train(config | {"probe": {"every": 1000, "windows": 1}}, tmp_path / "once")
    for (name, a), b in zip(weights(tmp_path / "often").items(), weights(tmp_path / "once").values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("clip", [None, 0.05])
def test_it_is_the_plain_loop(config: Config, tmp_path: Path, clip: float | None) -> None:
    """Lightning's run against AdamW in a loop, in which nothing is ours but data and model: 200 steps, one loss."""
    config["steps"] = 200
    config["model"]["dropout"] = config["model"]["mixer"]["dropout"] = 0.0
    config["optimizer"]["clip"] = clip
    outcome = train(config, tmp_path)
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, norms = [], []
    for i in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, (i + 1) / 5)
        x, y = data.batch(i)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf).item())
        optimizer.step()
        losses.append(loss.item())
    recorded = {row["step"]: row for row in outcome.history}
    assert sorted(recorded) == list(range(0, 201, 10))
    for step in range(0, 200, 10):
        assert recorded[step]["train_loss"] == pytest.approx(losses[step], rel=1e-5)
        assert recorded[step]["gradient_norm"] == pytest.approx(norms[step], rel=1e-4)  # before clipping
    assert recorded[0]["lr"] == pytest.approx(2e-4) and recorded[10]["lr"] == pytest.approx(1e-3)
    for (name, a), b in zip(weights(tmp_path).items(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3, msg=name)


def test_a_run_that_diverges_is_a_result(config: Config, tmp_path: Path) -> None:
    config["optimizer"]["lr"] = 1e4
    outcome = train(config, tmp_path)
    assert outcome.status == "diverged" and 0 < outcome.metrics["steps"] < 30  # type: ignore[operator]
    assert "heldout_perplexity" not in outcome.metrics
    assert outcome.history[0]["step"] == 0 and outcome.history[-1]["step"] == outcome.metrics["steps"]
    assert all(value is None or math.isfinite(value) for row in outcome.history for value in row.values())


def test_a_loss_that_is_no_number_is_divergence(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LanguageModel.loss
    monkeypatch.setattr(LanguageModel, "loss", lambda *a: real(*a) * math.nan)
    outcome = train(config, tmp_path)
    assert outcome.status == "diverged" and outcome.metrics["steps"] == 1


def test_golden_numbers_after_one_step(config: Config, tmp_path: Path) -> None:
    """Renew these only for a change that is meant to change results; each renewal retrains the study."""
    outcome = train(config | {"steps": 1}, tmp_path)
    found = {name: outcome.history[0][name] for name in GOLDEN}
    assert found == pytest.approx(GOLDEN, rel=1e-4)
    assert outcome.metrics["heldout_loss"] == pytest.approx(GOLDEN_HELDOUT_LOSS, rel=1e-4)


GOLDEN = {
    "train_loss": 5.795106,
    "gradient_norm": 1.228060,
    "block2/gradient_norm": 0.4734703,
    "block2/entropy": 1.766644,
    "block1/head2/score_std": 0.4275828,
}
GOLDEN_HELDOUT_LOSS = 5.860357


def test_perplexity_is_over_the_whole_text_in_windows_that_do_not_overlap(config: Config, tmp_path: Path) -> None:
    outcome = train(config | {"steps": 2}, tmp_path)
    data: Any = build_data(config)
    model = build_model(config, data.vocabulary)
    model.load_state_dict(weights(tmp_path))
    model.eval()
    for window, name in ((12, "heldout_perplexity"), (24, "heldout_perplexity_at_24")):
        losses = []
        for start in range(0, len(data.heldout) - 1, window):
            piece = data.heldout[start : start + window + 1]
            with torch.no_grad():
                losses += F.cross_entropy(model(piece[None, :-1])[0], piece[1:], reduction="none").tolist()
        assert len(losses) == len(data.heldout) - 1
        assert outcome.metrics[name] == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)


def test_a_seed_is_two(config: Config) -> None:
    assert seeds(0) != seeds(1) and len({*seeds(0), *seeds(1)}) == 4
    one, other = build_data(config), build_data(config | {"seed": 4})
    assert not torch.equal(one.batch(0)[0], other.batch(0)[0])


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_set_aside_and_said_so(config: Config, tmp_path: Path, damage: str) -> None:
    whole = train(config, tmp_path / "whole")
    with pytest.raises(Crash):
        train(config, tmp_path / "broken", on_step=crash_at(9))
    file = tmp_path / "broken" / CHECKPOINT
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"truncate": data[:-100], "flip": data, "empty": b"", "text": b"not a checkpoint"}[damage]
    file.write_bytes(bytes(damaged))
    with pytest.raises(CorruptCheckpoint, match=r"set aside as last\.ckpt\.corrupt"):
        train(config, tmp_path / "broken")
    assert not usable(file) and (tmp_path / "broken" / "last.ckpt.corrupt").read_bytes() == bytes(damaged)
    same_bits(whole, train(config, tmp_path / "broken"), (tmp_path / "whole", tmp_path / "broken"))


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    file = tmp_path / "evil.ckpt"
    VerifiedCheckpointIO().save_checkpoint({"weights": Path("x")}, file)
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        VerifiedCheckpointIO().load_checkpoint(file)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    VerifiedCheckpointIO().save_checkpoint({"step": 1}, file)
    with pytest.raises(Exception):  # noqa: B017
        VerifiedCheckpointIO().save_checkpoint({"step": lambda: 2}, file)
    assert VerifiedCheckpointIO().load_checkpoint(file) == {"step": 1}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("model.mixer.heads", 3, "model.mixer.heads: 3 does not divide the width 16; allowed: 1, 2, 4, 8, 16"),
        ("model.mixer.depth", 3, "model.mixer: "),
        ("model.norm.placement", "past", "model.norm.placement: past; allowed: pre, post, none"),
        ("model.mixer._target_", "os.system", "model.mixer._target_: os.system; allowed: a class below"),
        ("model.mixer._target_", "ablations.model.mixer.none.Such", "model.mixer._target_: .* cannot be found"),
        ("data.window", 10**6, "data.window: 1000000; allowed: 1 to"),
        ("data.also_at", [10**6], "data.also_at: 1000000; allowed: 1 to"),
    ],
)
def test_what_cannot_be_built_is_named_by_its_field(config: Config, field: str, value: Any, says: str) -> None:
    changed = copy.deepcopy(config)
    node = changed
    *path, last = field.split(".")
    for key in path:
        node = node[key]
    node[last] = value
    with pytest.raises(InputError, match=f"^{says}"):
        build_model(changed, build_data(changed).vocabulary, device="meta")
