"""What a config may build, and what it must not tell: nothing outside the project and torch, and no secret."""

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ablations
from ablations.settings import InputError, one_line, secrets

Config = dict[str, Any]

# What a config may build by `_target_`: a class or function that a module of ours defines itself, so that no name leads
# on to what that module imports (`ablations.settings.os.system`), or a layer of torch's.
OURS = re.compile(r"ablations\.(?:data|model)(?:\.[a-z]\w*)+(?=\.[A-Za-z]\w*$)", re.ASCII)
PLUGINS = ("launcher._target_", "sweeper._target_")
PLUGIN = re.compile(
    r"(?:hydra_plugins|hydra\._internal\.core_plugins)(?:\.[a-z]\w*)+\.[A-Z]\w*(?:Launcher|Sweeper)", re.A
)
LAYER = re.compile(r"torch\.nn\.[A-Z][A-Za-z0-9]*")
JOBLIB: dict[str, Callable[[Any], bool]] = {
    "n_jobs": lambda value: value != 0,
    "timeout": lambda value: value is None or value > 0,
    "verbose": lambda value: value >= 0,
    "pre_dispatch": lambda value: re.fullmatch(r"all|[1-9]\d*|([1-9]\d*\*)?n_jobs", str(value)) is not None,
    "batch_size": lambda value: re.fullmatch(r"auto|[1-9]\d*", str(value)) is not None,
}


def trusted(config: Config) -> None:
    """Looks at what a config would build, and at what it would tell. Nothing is imported.

    Raises:
        InputError: a `_target_` that is no part of ours or torch's, another of Hydra's words, or a secret.
    """
    hidden = secrets().values()
    for field, value in _leaves(config):
        last = field.rpartition(".")[2]
        if last == "_target_" and not _known(value):
            allowed = "a class below ablations.data., ablations.model. or torch.nn., by the module that defines it"
            raise InputError(f"{field}: {value}; allowed: {allowed}")
        if last != "_target_" and any(word.startswith("_") for word in field.split(".")):
            raise InputError(f"{field}: not known; allowed: _target_, and what it takes")
        if any(secret in f"{field}: {value}" for secret in hidden):
            raise InputError(f"{field}: {value}; allowed: no secret, since configs are kept and shown")


def launching(hydra: Config) -> None:
    """Looks at what Hydra itself would build and run, as files could set it.

    Raises:
        InputError: anything but its own sweeper and a launcher of a plugin's.
    """
    for field, value in _leaves(hydra):
        if field.endswith("_target_") and not (field in PLUGINS and PLUGIN.fullmatch(str(value))):
            raise InputError(f"hydra.{field}: {value}; allowed: a launcher of hydra_plugins., or basic")
    launcher = hydra["launcher"]
    for option, rule in JOBLIB.items() if str(launcher["_target_"]).endswith(".JoblibLauncher") else ():
        if not rule(value := launcher[option]):
            raise InputError(f"hydra.launcher.{option}: {value}; allowed: what joblib.Parallel takes")
    given = {name: hydra.get(name) for name in ("callbacks", "searchpath")} | {"job.env_set": hydra["job"]["env_set"]}
    for name in ("hydra_logging", "job_logging"):  # of what Python's logging takes, these import nothing
        given[name] = set(hydra[name]) - {"version", "root", "disable_existing_loggers"}
    for name, value in given.items():
        if value:
            raise InputError(f"hydra.{name}: {value}; allowed: as conf/config.yaml has it")


def _known(target: Any) -> bool:
    if not isinstance(target, str):
        return False
    module = OURS.match(target)
    return target.rpartition(".")[2] in _defined(module[0]) if module else LAYER.fullmatch(target) is not None


@functools.cache
def _defined(module: str) -> frozenset[str]:
    """Names of the classes and functions that a module of ours defines."""
    file = Path(ablations.__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py")
    try:
        tree = ast.parse(file.read_text())
    except OSError:
        return frozenset()
    except (ValueError, SyntaxError) as error:
        raise InputError(f"_target_: {module}: {one_line(error)}; allowed: a module that Python can read") from error
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))


def _leaves(node: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        below = f"{field}.{key}".lstrip(".")
        yield from (
            [(below, value)] if key == "_target_" or not isinstance(value, dict | list) else _leaves(value, below)
        )
