"""What a run's settings may be, field by field. What depends on several fields, the parts' constructors check."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf

from ablations.settings import InputError, one_line
from ablations.training.build import PRECISIONS, build_data, build_model

Config = dict[str, Any]


class Rule(NamedTuple):
    """A test of one value, and what it lets pass in words."""

    holds: Callable[[Any], bool]
    allowed: str


def whole(least: int) -> Rule:
    """A whole number of at least `least`."""
    return Rule(lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least, f"a whole number from {least}")


def real(low: float, high: float = math.inf, open_low: bool = False) -> Rule:
    """A finite number from `low` (or above it) to below `high`."""

    def holds(value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return number and (low < value if open_low else low <= value) and value < high

    words = f"a number {'above' if open_low else 'from'} {low:g}" + ("" if high == math.inf else f" and below {high:g}")
    return Rule(holds, words)


def one_of(*values: str) -> Rule:
    """One of the words."""
    return Rule(lambda value: value in values, ", ".join(values))


def or_null(rule: Rule) -> Rule:
    """The rule's values, and null."""
    return Rule(lambda value: value is None or rule.holds(value), f"{rule.allowed}, or null")


def list_of(rule: Rule, length: int | None = None) -> Rule:
    """A list whose items keep the rule."""

    def holds(value: Any) -> bool:
        return isinstance(value, list) and length in (None, len(value)) and all(rule.holds(item) for item in value)

    return Rule(holds, f"a list of {'' if length is None else f'{length} times '}{rule.allowed}")


FLAG = Rule(lambda value: isinstance(value, bool), "true, false")
WORD = Rule(lambda value: isinstance(value, str) and value != "", "a name")
POSITIVE = real(0, open_low=True)

RULES: dict[str, Rule] = {
    "seed": Rule(lambda v: whole(0).holds(v) and v < 2**32, "a whole number from 0 to 4294967295"),
    "steps": whole(1),
    "budget": WORD,
    "precision": one_of(*PRECISIONS),
    "divergence": POSITIVE,
    "probe.every": whole(1),
    "probe.windows": whole(1),
    "data.window": whole(1),
    "data.batch": whole(1),
    "data.also_at": list_of(whole(1)),
    "data.task": one_of("easy", "closed"),
    "model.width": whole(1),
    "model.blocks": whole(1),
    "model.residual": FLAG,
    "model.dropout": real(0, 1),
    "model.mixer.heads": whole(1),
    "model.mixer.d_k": or_null(whole(1)),
    "model.mixer.scaled": FLAG,
    "model.mixer.project": or_null(FLAG),
    "model.mixer.bias": FLAG,
    "model.mixer.causal": FLAG,
    "model.mixer.dropout": real(0, 1),
    "model.position.length": whole(1),
    "model.position.base": real(1, open_low=True),
    "model.norm.placement": one_of("pre", "post", "none"),
    "model.feedforward.inner": POSITIVE,
    "optimizer.lr": POSITIVE,
    "optimizer.betas": list_of(real(0, 1), 2),
    "optimizer.eps": POSITIVE,
    "optimizer.weight_decay": real(0),
    "optimizer.clip": or_null(POSITIVE),
    "schedule.warmup": whole(0),
    "logger.wandb": FLAG,
    "runtime.accelerator": one_of("cpu", "gpu"),
    "runtime.threads": whole(1),
    "runtime.checkpoint_every": whole(1),
    "runtime.accept_diverged": FLAG,
    "runtime.tokens": WORD,
    "runtime.results": WORD,
    "runtime.work": WORD,
}


def check(config: Config) -> int:
    """Checks a resolved config without training anything.

    Returns:
        The model's weights that take part in products: all parameters but the embedding, which is a look-up.

    Raises:
        InputError: one line with the field, its value and what is allowed.
    """
    node = OmegaConf.create(config)
    missing = object()
    for field, rule in RULES.items():
        value = OmegaConf.select(node, field, default=missing)
        value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        if value is not missing and not rule.holds(value):
            raise InputError(f"{field}: {value}; allowed: {rule.allowed}")
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    try:
        with torch.no_grad():
            model(torch.zeros(1, 2, dtype=torch.long))  # what parts refuse only together, as an odd d_k under RoPE
    except (ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"model: {one_line(error)}") from error
    return sum(parameter.numel() for parameter in model.parameters()) - model.embedding.weight.numel()
