"""What a run's settings may be, field by field, before anything is built."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ablations.settings import A_NAME, FOLDER, InputError
from ablations.study.trust import trusted

Config = dict[str, Any]


class Rule(NamedTuple):
    """A test of one value, and what it lets pass in words."""

    holds: Callable[[Any], bool]
    allowed: str


def whole(least: int, most: int = 2**31 - 1) -> Rule:
    """A whole number from `least` to `most`."""
    words = f"a whole number from {least}" + ("" if most == 2**31 - 1 else f" to {most}")
    return Rule(lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most, words)


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
TEXT = Rule(lambda v: isinstance(v, str | int | float) and not isinstance(v, bool) and v != "???", "a text")
PATH = Rule(lambda v: isinstance(v, str) and v not in ("", "???") and v.isprintable(), "a path")
PROJECT = Rule(
    lambda v: isinstance(v, str) and 0 < len(v) <= 128 and v.isprintable() and not set(v) & set("/\\#?%:"),
    "a name of at most 128 characters, without / \\ # ? % :",
)
NAME = Rule(lambda v: isinstance(v, str) and FOLDER.fullmatch(v) is not None, A_NAME)
POSITIVE = real(0, open_low=True)

RULES: dict[str, Rule] = {  # a field before those that are made of it
    "runtime.accelerator": one_of("cpu", "gpu"),
    "runtime.slots": whole(1, 1024),
    "runtime.threads": whole(1, 1024),
    "runtime.checkpoint_every": whole(1),
    "runtime.accept_diverged": FLAG,
    "runtime.tokens": PATH,
    "runtime.results": PATH,
    "runtime.work": PATH,
    "seed": whole(0, 2**32 - 1),
    "steps": whole(1),
    "budget": NAME,
    "precision": one_of("fp32", "bf16"),
    "divergence": POSITIVE,
    "probe.every": whole(1),
    "probe.windows": whole(1),
    "data.window": whole(1),
    "data.batch": whole(1),
    "data.also_at": list_of(whole(1)),
    "data.tokens": PATH,
    "data.task": one_of("easy", "closed"),
    "data.form": one_of("decoder", "encoder", "encoder_decoder"),
    "data.operation": one_of("reverse", "sort"),
    "data.length": whole(1, 2**16),
    "data.symbols": whole(1, 2**16),
    "data.at": whole(0),
    "data.longer": whole(1),
    "model.width": whole(1, 2**16),
    "model.blocks": whole(1, 1024),
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
    "model.mixer.expand": real(0, 1024, open_low=True),
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
    "model.feedforward.inner": real(0, 1024, open_low=True),
    "model.feedforward.experts": whole(1, 1024),
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
    "logger.project": PROJECT,
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
STUDY: dict[str, Rule] = {
    "name": NAME,
    "section": TEXT,
    "question": TEXT,
    "baseline": NAME,
    "compare": one_of("baseline", "row_above"),
    "rows": Rule(lambda v: isinstance(v, dict), "the names of its variants, each with a label"),
}
LENGTH = whole(0)
# Arguments that constructors are given by what builds them, whatever a config says.
GIVEN = {"data": ("seed",), "model": ("vocabulary", "placement"), "model.": ("width",)}


def enforce(config: Config) -> None:
    """Checks each field of a resolved config by itself.

    Raises:
        InputError: one line with the field, its value and what is allowed.
    """
    for key in config:
        if key not in TOP:
            raise _unknown(str(key), sorted(TOP))
    trusted(config)
    _described(config)
    for field, rule in RULES.items():
        section, _, last = field.rpartition(".")
        for place, node in _places(config, section):
            if isinstance(node, dict) and last in node:
                if not rule.holds(node[last]):
                    raise InputError(f"{place}.{last}: {node[last]}; allowed: {rule.allowed}".lstrip("."))
            elif place == section and not field.startswith(OPTIONAL):
                raise InputError(f"{field}: missing; allowed: {rule.allowed}")
    for section in CLOSED:
        known = [field.partition(".")[2] for field in RULES if field.startswith(f"{section}.")]
        for key in config[section]:
            if key not in known:
                raise _unknown(f"{section}.{key}", known)


def _described(config: Config) -> None:
    """The sections that show or lengthen, and what a config cannot say since it is said elsewhere."""
    study, lengths = config.get("study"), config.get("lengths")
    if study is not None and not isinstance(study, dict):
        raise InputError(f"study: {study}; allowed: {', '.join(STUDY)}")
    for key, value in (study or {}).items():
        if key not in STUDY:
            raise _unknown(f"study.{key}", list(STUDY))
        if not STUDY[key].holds(value):
            raise InputError(f"study.{key}: {value}; allowed: {STUDY[key].allowed}")
    for name, label in ((study or {}).get("rows") or {}).items():
        if not NAME.holds(name) or not TEXT.holds(label):
            raise InputError(f"study.rows.{name}: {label}; allowed: {STUDY['rows'].allowed}")
    if not isinstance(lengths, dict):
        raise InputError(f"lengths: {lengths}; allowed: numbers of steps by name")
    for key, value in lengths.items():
        if not LENGTH.holds(value):
            raise InputError(f"lengths.{key}: {value}; allowed: {LENGTH.allowed}")
    model: Any = config.get("model")
    parts = {f"model.{name}": part for name, part in model.items()} if isinstance(model, dict) else {}
    for section, node in {"data": config.get("data"), "model": model, **parts}.items():
        for key in GIVEN["model." if section in parts else section] if isinstance(node, dict) else ():
            if key in node:
                raise InputError(f"{section}.{key}: not taken; allowed: seed, model.width or model.norm.placement")


def _places(config: Config, section: str) -> Iterator[tuple[str, Any]]:
    """Where the fields of a section stand: a mixer's in each of several that take turns, and in the encoder's, too."""
    node: Any = config
    for key in filter(None, section.split(".")):
        node = node.get(key) if isinstance(node, dict) else None
    yield section, node
    if section == "model.mixer":
        for name, part in node.items() if isinstance(node, dict) and "_target_" not in node else ():
            yield f"{section}.{name}", part
        if isinstance(config["model"], dict):
            yield "model.encoder_mixer", config["model"].get("encoder_mixer")


def _unknown(field: str, known: list[str]) -> InputError:
    return InputError(f"{field}: not known; allowed: {', '.join(known)}")
