"""From a run's config to its data and model. What a constructor refuses is told by the config's own field names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from ablations.data.interface import Data
from ablations.model.language_model import LanguageModel
from ablations.settings import ROOT, InputError, one_line

Config = dict[str, Any]
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}  # ours, and Lightning's word for it
PARTS = ("mixer", "position", "norm", "feedforward")
TRUSTED = ("ablations.", "torch.nn.")


def seeds(seed: int) -> tuple[int, int]:
    """The initialisation seed and the data seed that one seed stands for."""
    initialisation, data = np.random.SeedSequence(seed).generate_state(2)
    return int(initialisation), int(data)


def build_data(config: Config) -> Data:
    """The run's data, ordered by its data seed.

    Raises:
        InputError: what the data's constructor refuses.
    """
    arguments = dict(config["data"], seed=seeds(config["seed"])[1])
    if "tokens" in arguments:
        arguments["tokens"] = str(ROOT / arguments["tokens"])
    data: Data = _named("data", _factory("data", arguments))()
    return data


def build_model(config: Config, vocabulary: int, device: str = "cpu") -> LanguageModel:
    """The run's model, initialised by its initialisation seed.

    Args:
        config: of the run.
        vocabulary: kinds of tokens, from the data.
        device: `meta` builds without memory, to check or to count.

    Raises:
        InputError: what a constructor refuses.
    """
    for name in PARTS:
        if not isinstance(part := config["model"].get(name), dict):
            raise InputError(f"model.{name}: {part}; allowed: an option of its group, given as model/{name}=<option>")
    model = {name: _part(f"model.{name}", value) for name, value in config["model"].items() if name != "_target_"}
    norm = dict(config["model"]["norm"])
    model |= {"placement": norm.pop("placement"), "norm": _part("model.norm", norm)}
    language_model = _factory("model", {"_target_": config["model"].get("_target_")})
    torch.default_generator.manual_seed(seeds(config["seed"])[0])
    with torch.device(device):
        built: LanguageModel = _named("model", language_model)(vocabulary, **model)
    return built


def _part(field: str, value: Any) -> Any:
    """A setting as it is, a part's factory, or the factories of parts that take turns."""
    if not isinstance(value, dict):
        return value
    if "_target_" in value:
        return _named(field, _factory(field, value))
    return [_part(f"{field}.{name}", part) for name, part in value.items()]


def _factory(field: str, node: Config) -> Callable[..., Any]:
    target = str(node.get("_target_"))
    if not target.startswith(TRUSTED):
        raise InputError(f"{field}._target_: {target}; allowed: a class below {' or '.join(TRUSTED)}")
    try:
        factory: Callable[..., Any] = instantiate({**node, "_partial_": True})
    except InstantiationException as error:
        raise InputError(f"{field}._target_: {target} cannot be found ({one_line(error)})") from error
    return factory


def _named(field: str, factory: Callable[..., Any]) -> Callable[..., Any]:
    """`factory`, whose ValueError and TypeError come out as the field's InputError."""

    def build(*args: Any, **kwargs: Any) -> Any:
        try:
            return factory(*args, **kwargs)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{field}.{one_line(error)}") from error
        except TypeError as error:
            raise InputError(f"{field}: {one_line(error)}") from error

    return build
