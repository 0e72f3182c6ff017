"""What a run's settings may be, field by field, before anything is built."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ablations.settings import InputError

Config = dict[str, Any]


SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class Rule(NamedTuple):
    """A test of one value, and what it lets pass in words."""

    holds: Callable[[Any], bool]
    allowed: str


def whole(least: int) -> Rule:
    """A whole number of at least `least`."""
    return Rule(
        lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v < 2**31, f"a whole number from {least}"
    )


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
WORD = Rule(lambda value: isinstance(value, str) and value != "", "a path")
NAME = Rule(lambda v: isinstance(v, str) and SAFE.fullmatch(v) is not None, "a name of letters, digits, '.', '_', '-'")
POSITIVE = real(0, open_low=True)

RULES: dict[str, Rule] = {
    "seed": Rule(lambda v: whole(0).holds(v) and v < 2**32, "a whole number from 0 to 4294967295"),
    "steps": whole(1),
    "budget": NAME,
    "precision": one_of("fp32", "bf16"),
    "divergence": POSITIVE,
    "probe.every": whole(1),
    "probe.windows": whole(1),
    "data.window": whole(1),
    "data.batch": whole(1),
    "data.also_at": list_of(whole(1)),
    "data.tokens": WORD,
    "data.task": one_of("easy", "closed"),
    "data.form": one_of("decoder", "encoder", "encoder_decoder"),
    "data.operation": one_of("reverse", "sort"),
    "data.length": whole(1),
    "data.symbols": whole(1),
    "data.at": whole(0),
    "data.longer": whole(1),
    "model.width": whole(1),
    "model.blocks": whole(1),
    "model.residual": FLAG,
    "model.dropout": real(0, 1),
    "model.mixer.heads": whole(1),
    "model.mixer.kv_heads": or_null(whole(1)),
    "model.mixer.d_k": or_null(whole(1)),
    "model.mixer.window": whole(1),
    "model.mixer.latent": whole(1),
    "model.mixer.turned": whole(1),
    "model.mixer.state": whole(1),
    "model.mixer.kernel": whole(1),
    "model.mixer.expand": POSITIVE,
    "model.mixer.scaled": FLAG,
    "model.mixer.project": or_null(FLAG),
    "model.mixer.bias": FLAG,
    "model.mixer.causal": FLAG,
    "model.mixer.dropout": real(0, 1),
    "model.position.length": whole(1),
    "model.position.base": real(1, open_low=True),
    "model.position.method": one_of("interpolation", "ntk", "yarn"),
    "model.position.trained": whole(1),
    "model.norm.placement": one_of("pre", "post", "none"),
    "model.feedforward.inner": POSITIVE,
    "model.feedforward.experts": whole(1),
    "model.feedforward.chosen": whole(1),
    "model.auxiliary": real(0),
    "model.source": whole(1),
    "model.cross_heads": whole(1),
    "optimizer.lr": POSITIVE,
    "optimizer.betas": list_of(real(0, 1), 2),
    "optimizer.eps": POSITIVE,
    "optimizer.weight_decay": real(0),
    "optimizer.clip": or_null(POSITIVE),
    "schedule.warmup": whole(0),
    "logger.wandb": FLAG,
    "logger.project": WORD,
    "runtime.accelerator": one_of("cpu", "gpu"),
    "runtime.slots": whole(1),
    "runtime.threads": Rule(lambda v: whole(1).holds(v) and v <= 1024, "a whole number from 1 to 1024"),
    "runtime.checkpoint_every": whole(1),
    "runtime.accept_diverged": FLAG,
    "runtime.tokens": WORD,
    "runtime.results": WORD,
    "runtime.work": WORD,
}


# Fields that not every run has: they belong to one option of a group.
OPTIONAL = (
    *("data.also_at", "data.task", "data.tokens", "data.window", "data.form", "data.operation", "data.length"),
    *("data.symbols", "data.at", "data.longer", "logger.project"),
    *("model.mixer.", "model.position.", "model.feedforward.", "model.auxiliary", "model.source", "model.cross_heads"),
)
# Sections that no constructor reads, so that a misspelt key would go unseen; at the top level, too.
CLOSED = ("probe", "optimizer", "schedule", "logger", "runtime")
TOP = {field.partition(".")[0] for field in RULES} | {"study", "lengths"}


def enforce(config: Config) -> None:
    """Checks each field of a resolved config by itself.

    Raises:
        InputError: one line with the field, its value and what is allowed.
    """
    for key in config:
        if key not in TOP:
            raise InputError(f"{key}: not known; allowed: {', '.join(sorted(TOP))}")
    for field, rule in RULES.items():
        node: Any = config
        *path, last = field.split(".")
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict) and last in node:
            if not rule.holds(node[last]):
                raise InputError(f"{field}: {node[last]}; allowed: {rule.allowed}")
        elif not field.startswith(OPTIONAL):
            raise InputError(f"{field}: missing; allowed: {rule.allowed}")
    for section in CLOSED:
        known = [field.partition(".")[2] for field in RULES if field.startswith(f"{section}.")]
        for key in config[section]:
            if key not in known:
                raise InputError(f"{section}.{key}: not known; allowed: {', '.join(known)}")
