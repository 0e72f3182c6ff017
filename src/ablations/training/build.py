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
    model = dict(config["model"])
    norm = dict(model.pop("norm"))
    placement = norm.pop("placement")
    for name in _parts(model):
        model[name] = _named(f"model.{name}", _factory(f"model.{name}", model[name]))
    model |= {"norm": _named("model.norm", _factory("model.norm", norm)), "placement": placement}
    torch.default_generator.manual_seed(seeds(config["seed"])[0])
    with torch.device(device):
        built: LanguageModel = _named("model", LanguageModel)(vocabulary, **model)
    return built


def _parts(model: Config) -> list[str]:
    return [name for name, value in model.items() if isinstance(value, dict) and "_target_" in value]


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
