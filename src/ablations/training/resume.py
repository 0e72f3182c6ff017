"""Checkpoints that are either whole or not there, and are not trusted when they are neither."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO

MARK = b"ablations-checkpoint-1\n"


class CorruptCheckpoint(Exception):
    """A checkpoint file that is not what was written."""


class VerifiedCheckpointIO(CheckpointIO):
    """A mark, the SHA-256 of what follows, and what `torch.save` wrote. Replaced in one step, never in place."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        content = buffer.getvalue()
        part = Path(f"{path}.part")
        with part.open("wb") as file:
            file.write(MARK + hashlib.sha256(content).digest() + content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """The checkpoint, loaded without running any code in it.

        Raises:
            CorruptCheckpoint: truncated or altered.
        """
        data = Path(path).read_bytes()
        start = len(MARK) + hashlib.sha256().digest_size
        content = data[start:]
        if data[: len(MARK)] != MARK or data[len(MARK) : start] != hashlib.sha256(content).digest():
            raise CorruptCheckpoint(f"{path}: truncated or altered")
        loaded: dict[str, Any] = torch.load(io.BytesIO(content), map_location=map_location or "cpu", weights_only=True)
        return loaded

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def usable(path: Path) -> bool:
    """Whether there is a checkpoint to go on from. One that is corrupt is set aside as `<name>.corrupt`.

    Raises:
        CorruptCheckpoint: it was corrupt; it is set aside already, so that a next call returns False.
    """
    if not path.exists():
        return False
    try:
        VerifiedCheckpointIO().load_checkpoint(path)
    except Exception as error:  # whatever a damaged file makes torch say
        os.replace(path, f"{path}.corrupt")
        raise CorruptCheckpoint(f"{path.name}: truncated or altered; set aside as {path.name}.corrupt") from error
    return True
