"""Where the project lies, what `params.yaml` says, and how bad input is told."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

ROOT = Path(os.environ.get("ABLATIONS_ROOT", Path(__file__).parents[2])).resolve()
CONF = ROOT / "conf"


PARAMETERS = {"corpus": {"path": None, "sha256": None}, "tokenizer": {"vocabulary": 1024}, "seeds": 1, "studies": {}}


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: field, value, what is allowed."""


def parameters(overrides: list[str]) -> Any:
    """`params.yaml` with `key=value` overrides.

    Raises:
        InputError: a damaged file, an unknown key, or an override that is not `key=value`.
    """
    try:
        params: Any = OmegaConf.merge(PARAMETERS, OmegaConf.load(ROOT / "params.yaml"))
        OmegaConf.set_struct(params, True)
        for override in overrides:
            key, equals, _ = override.partition("=")
            if not equals or key not in _leaves(params):
                raise InputError(f"{override}: not known; allowed: {', '.join(_leaves(params))} as key=value")
            params.merge_with_dotlist([override])
        OmegaConf.resolve(params)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError, AssertionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"params.yaml {' '.join(overrides)}: {one_line(error)}"[:400]) from error
    studies = params.studies
    if not OmegaConf.is_dict(studies) or not studies:
        raise InputError(f"studies: {studies}; allowed: names of files in conf/study/, each with a number of seeds")
    for name, least in {"seeds": params.seeds, **{f"studies.{name}": n for name, n in studies.items()}}.items():
        if not isinstance(least, int) or isinstance(least, bool) or least < 1:
            raise InputError(f"{name}: {least}; allowed: a whole number from 1")
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
