"""Where the project lies, what `params.yaml` says, and how bad input is told."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

ROOT = Path(os.environ.get("ABLATIONS_ROOT", Path(__file__).parents[2])).resolve()
CONF = ROOT / "conf"


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: field, value, what is allowed."""


def parameters(overrides: list[str]) -> DictConfig:
    """`params.yaml` with `key=value` overrides.

    Raises:
        InputError: an unknown key, or an override that is not `key=value`.
    """
    params = OmegaConf.load(ROOT / "params.yaml")
    assert isinstance(params, DictConfig)
    OmegaConf.set_struct(params, True)
    for override in overrides:
        key, equals, _ = override.partition("=")
        known = OmegaConf.select(params, key, default=params, throw_on_missing=False) is not params
        if not equals or not known:
            raise InputError(f"{override}: not known; allowed: {', '.join(_leaves(params))} as key=value")
        try:
            params.merge_with_dotlist([override])
        except OmegaConfBaseException as error:
            raise InputError(f"{override}: {one_line(error)}") from error
    return params


def _leaves(node: DictConfig, prefix: str = "") -> list[str]:
    leaves: list[str] = []
    for key in map(str, node):
        below = _leaves(node[key], f"{prefix}{key}.") if isinstance(node[key], DictConfig) else [f"{prefix}{key}"]
        leaves += below
    return leaves


def one_line(error: BaseException) -> str:
    """The message of an error without its line breaks, or its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def command(function: Callable[[list[str]], Any]) -> Callable[[], int]:
    """A command line entry: gives `function` the arguments; bad input becomes one line and exit code 2."""

    @functools.wraps(function)
    def entry() -> int:
        try:
            return int(function(sys.argv[1:]) or 0)
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except OSError as error:  # no permission, a full disk, a missing file: the reader's to mend, no traceback
            print(f"error: {error.filename or 'file system'}: {error.strerror or one_line(error)}", file=sys.stderr)
            return 2 if isinstance(error, PermissionError | FileNotFoundError) else 1
        except KeyboardInterrupt:
            return 130

    return entry
