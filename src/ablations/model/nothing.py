"""The part that is not there."""

from typing import Any


def nothing(*_: Any, **__: Any) -> None:
    """Builds no module: `model/mixer=none`, `model/feedforward=none`."""
