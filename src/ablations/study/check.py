"""Whether a run can be built as it is: what depends on several fields, the parts' own constructors say."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from hydra.utils import get_object
from torch.overrides import TorchFunctionMode

from ablations.data.interface import Data
from ablations.settings import InputError, one_line
from ablations.study.fingerprint import Config
from ablations.study.rules import GIVEN
from ablations.training.build import build_data, build_model

ALLOWED = "allowed: parts that fit together"
EXPERTS = 4096  # of a whole model: each takes a moment to build
LARGE = 4096  # width x blocks, or any number of a model's, from which on its size is looked at first
WORDS = 4  # numbers of 32 bits per weight: itself, its gradient, and AdamW's two


def check(config: Config, here: bool = True) -> int:
    """Builds a run's data and model, and looks whether the model takes two tokens. Trains nothing.

    Args:
        config: resolved, each field of it enforced already.
        here: whether the run is to be on this machine, rather than on a cluster's node, which may have another GPU.

    Returns:
        The model's weights that take part in products: all parameters but the embedding, which is a look-up.

    Raises:
        InputError: one line with the field, its value and what is allowed.
    """
    if here and config["runtime"]["accelerator"] == "gpu" and not torch.cuda.is_available():
        raise InputError("runtime.accelerator: gpu; allowed: cpu, since torch finds no GPU here")
    try:
        data = build_data(config)
        if here:
            _fits(config, data)
        model = build_model(config, data.vocabulary)
        with torch.no_grad():
            model(torch.zeros(1, 2, dtype=torch.long))  # what parts refuse only together, as an odd d_k under RoPE
    except InputError as error:
        raise _with_what_is_allowed(error, config) from error
    except ValueError as error:
        raise _with_what_is_allowed(InputError(f"model: {one_line(error)}"), config) from error
    except Exception as error:  # whatever a part that does not fit makes torch say
        raise InputError(f"model: {type(error).__name__}: {one_line(error)}; {ALLOWED}") from error
    return sum(parameter.numel() for parameter in model.parameters()) - model.embedding.weight.numel()


def _fits(config: Config, data: Data) -> None:
    """Refuses what this machine's memory cannot hold by far, before it is asked for it: the weights without their
    numbers, and of what a step keeps only the input of each block.
    """
    size, width, blocks = config["data"], config["model"]["width"], config["model"]["blocks"]
    experts = (config["model"].get("feedforward") or {}).get("experts", 1)
    if blocks * experts > EXPERTS:
        raise InputError(f"model.feedforward.experts: {experts} in {blocks} blocks; allowed: {EXPERTS} in all")
    there = psutil.virtual_memory().total
    if config["runtime"]["accelerator"] == "gpu":
        there = torch.cuda.get_device_properties(0).total_memory
    numbers = {}
    step = int(size["batch"]) * int(size.get("window", 1)) * (2 + width * blocks)
    if max(data.vocabulary, blocks * width, *_numbers(config["model"])) > LARGE:  # small ones need no second building
        try:
            with _Unfilled():
                model = build_model(config, data.vocabulary, device="meta")
            weights = sum(value.numel() for value in model.state_dict().values())
            numbers[f"model: {weights:.2g} weights"] = WORDS * weights
        except Exception:  # told where it is built for good
            pass
    numbers[f"data.batch: {size['batch']}"] = step
    for field, needed in numbers.items():
        if 4 * needed > there:
            raise InputError(f"{field}; allowed: what fits in {there / 2**30:.0f} GiB of memory")


class _Unfilled(TorchFunctionMode):
    """Draws nothing where sizes are all that is asked for: drawing without memory makes torch import for seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "normal_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _numbers(node: Any) -> Iterator[float]:
    for value in node.values() if isinstance(node, dict) else ():
        yield from [value] if isinstance(value, int | float) else _numbers(value)


def _with_what_is_allowed(error: InputError, config: Config) -> InputError:
    """The same error; one of Python's about an argument gets the names of those that there are."""
    told = str(error)
    if "allowed:" in told:
        return error
    node: Any = config
    for key in told.partition(":")[0].split("."):
        node = node.get(key) if isinstance(node, dict) else None
    if not re.search("argument", told) or not isinstance(node, dict) or "_target_" not in node:
        return InputError(f"{told}; {ALLOWED}")
    return InputError(f"{told}; allowed: {', '.join(_arguments(told.partition(':')[0], node))}")


def _arguments(section: str, node: Config) -> list[str]:
    """What a part can be given by a config: its own arguments and, where it hands on the rest, those of its bases."""
    names: dict[str, None] = {}
    part: Any = get_object(node["_target_"])
    levels: Any = (
        [level.__dict__.get("__init__") for level in inspect.getmro(part)] if isinstance(part, type) else [part]
    )
    for level in filter(None, levels):
        taken = inspect.signature(level).parameters.values()
        names |= dict.fromkeys(p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        if not any(p.kind is p.VAR_KEYWORD for p in taken):
            break
    return [name for name in names if name not in ("self", *GIVEN.get(section, GIVEN["model."]))]
