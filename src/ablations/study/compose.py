"""From overrides to runs: what Hydra composes, named and identified. One line for what it refuses."""

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ablations.settings import CONF, FOLDER, ROOT, InputError, asks_outside, one_line, texts
from ablations.study.fingerprint import Config, fingerprint, science
from ablations.study.rules import enforce
from ablations.study.trust import launching
from ablations.study.variants import HEADER, SWEEP, chosen_of, well_placed

# Overrides of these leave a variant what it is; any other makes a sweep by hand of it.
NOT_A_CHANGE = ("seed", "budget", "logger", "runtime", "variant", "hydra")
OF_HYDRA = re.compile(r"hydra/launcher|hydra\.launcher(\.[A-Za-z]\w*)+")  # what can be set of it
JOBS = 10_000  # of one sweep, at most
DIGITS = 10  # of the hash in a name: with six, two of so many would share one


# What YAML and Hydra make of damaged files, groups set to null, and the like.
DAMAGED = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, AssertionError, RecursionError, OSError)


@dataclasses.dataclass(frozen=True)
class Run:
    """One variant, one seed, one budget, with its resolved config and its identity."""

    study: str
    variant: str
    seed: int
    budget: str
    fingerprint: str
    config: Config

    @property
    def name(self) -> str:
        """As people read it."""
        return f"{self.study}/{self.variant} seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Its place in the ledger."""
        results = ROOT / str(self.config["runtime"]["results"])
        return results / self.budget / self.study / self.variant / f"seed-{self.seed}"

    @property
    def work(self) -> Path:
        """Where its checkpoint lies while it trains; runs of the same identity share it."""
        return ROOT / str(self.config["runtime"]["work"]) / "runs" / self.fingerprint


@contextmanager
def hydra() -> Iterator[None]:
    """Within it, `composed` and `expand` work.

    Raises:
        InputError: a file for a variant that cannot be one, or would be passed over without a word.
    """
    well_placed()
    if os.environ.get("LAUNCHER") == "":
        del os.environ["LAUNCHER"]  # an empty word says nothing
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def composed(overrides: Sequence[str]) -> Run:
    """The run that `overrides` describe.

    Raises:
        InputError: an unknown key or option, or a value that does not parse.
    """
    with _told(overrides):
        config = settings(overrides)
        return describe(config, config.hydra.runtime.choices, overrides)


def settings(overrides: Sequence[str]) -> DictConfig:
    """What Hydra composes, its own node included, which alone is looked at.

    Raises:
        InputError: an unknown key or option, or a value that does not parse.
    """
    parse(overrides)
    with _told(overrides):
        config = compose("config", list(overrides), return_hydra_config=True)
        own: Any = OmegaConf.to_container(config.hydra)
        launching(own)
    return config


@contextmanager
def _told(overrides: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(_explain(error)) from error
    except DAMAGED as error:
        raise InputError(f"{' '.join(overrides)}: {one_line(error)}; allowed: what conf/ has, as YAML") from error


def parse(overrides: Sequence[str]) -> list[Override]:
    """Overrides as Hydra reads them. Of Hydra's own workings only the launcher can be set: the rest could import and
    run anything.

    Raises:
        InputError: one that does not parse, or is not taken.
    """
    with _told(overrides):
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    for override in parsed:
        key, package = override.key_or_group, override.package or ""
        of_hydra = re.match(r"hydra\b", key) and not OF_HYDRA.fullmatch(key)
        if of_hydra or "hydra" in package.split(".") or (package and key.startswith("hydra")):
            raise InputError(f"{override.input_line}: not taken; allowed: hydra/launcher, and hydra.launcher.<option>")
    return parsed


def seed_of(overrides: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """A job's overrides but for its seed, and the seed; None where it is not given, or not once and as a number."""
    given = [override for override in overrides if re.fullmatch(r"seed=[0-9]{1,9}", override)]
    others = tuple(override for override in overrides if override not in given)
    return others, int(given[0].partition("=")[2]) if len(given) == 1 else None


def with_seed(run: Run, seed: int) -> Run:
    """The same run under another seed, which no other setting hangs on: `describe` sees to that."""
    config = {**run.config, "seed": seed}
    enforce(config)
    return dataclasses.replace(run, seed=seed, config=config, fingerprint=fingerprint(config))


def describe(config: DictConfig, choices: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """The run of a composed config.

    Args:
        config: as Hydra gives it, with or without its own node.
        choices: Hydra's `runtime.choices`.
        overrides: those of the task, which name a sweep by hand.
    """
    if config.get("variant"):  # all that a file without the header says, which would change nothing
        raise InputError(f"variant: {', '.join(chosen_of(choices))}; allowed: {HEADER}")
    kept: list[Any] = [key for key in config if key not in ("hydra", "variant")]
    plain = OmegaConf.masked_copy(config, kept)
    for group, choice in choices.items():
        if any(part in ("", ".", "..") for part in str(choice).split("/")):
            allowed = (
                "<study>/<name>, as they stand in conf/variant/" if group == "variant" else "an option of its group"
            )
            raise InputError(f"{group}: {choice}; allowed: {allowed}")
    for field, text in texts(OmegaConf.to_container(plain)):
        if asks_outside(text):
            raise InputError(f"{field}: {text}; allowed: a value, or another field's as ${{field}}")
    resolved: Any = OmegaConf.to_container(plain, resolve=True)
    enforce(resolved)
    _same_for_all_seeds(plain, resolved["seed"])
    if resolved["budget"] != choices["budget"]:  # a variant that brings its own would land where nobody looks for it
        raise InputError(f"budget: {resolved['budget']}; allowed: {choices['budget']}, as the command asks for")
    study, variant = _named(resolved, choices, overrides)
    return Run(study, variant, resolved["seed"], resolved["budget"], fingerprint(resolved), resolved)


def _same_for_all_seeds(plain: DictConfig, seed: int) -> None:
    another = OmegaConf.masked_copy(plain, [str(key) for key in plain])
    another.seed = seed + 1
    for field, text in texts(OmegaConf.to_container(plain)):
        if "${" in text and OmegaConf.select(plain, field) != OmegaConf.select(another, field):
            raise InputError(f"{field}: {text}; allowed: the same for all seeds")


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """What a multirun over `overrides` would run, job by job, in Hydra's order.

    Raises:
        InputError: an override that does not parse.
    """
    if (many := math.prod(_values(override) for override in parse(overrides))) > JOBS:
        raise InputError(f"{' '.join(overrides)}: stands for {many} runs; allowed: at most {JOBS} in a sweep")
    loader = GlobalHydra.instance().config_loader()
    with _told(overrides):
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
        task = [override for override in parsed if not override.key_or_group.startswith("hydra")]
        batches = BasicSweeper.split_arguments(task, max_batch_size=None)
    jobs = [list(job) for batch in batches for job in batch]
    if not jobs:
        raise InputError(f"{' '.join(overrides)}: stands for no run; allowed: a sweep of one run at least")
    return jobs


def _values(override: Override) -> int:
    """How many values an override sweeps over, at least, without making them."""
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    if not isinstance(value, RangeSweep):
        return 1
    start, stop, step = (float(number or 0) for number in (value.start, value.stop, value.step))
    if not step or not all(map(math.isfinite, (start, stop, step))):
        raise InputError(f"{override.input_line}: no range; allowed: range(start,stop,step), with finite numbers")
    return max(0, math.ceil((stop - start) / step))


def _named(config: Config, choices: Mapping[str, Any], overrides: Sequence[str]) -> tuple[str, str]:
    chosen = chosen_of(choices)
    keys = [re.split(r"[=.@/]", override.lstrip("+~"))[0] for override in overrides]
    changes = [override for override, key in zip(overrides, keys, strict=True) if key not in NOT_A_CHANGE]
    study, _, variant = chosen[0].partition("/") if len(chosen) == 1 else ("", "", "")
    if variant:
        included = (config.get("study") or {}).get("name")
        if not FOLDER.fullmatch(study) or not FOLDER.fullmatch(variant):
            raise InputError(f"variant: {chosen[0]}; allowed: <study>/<name>, as they stand in conf/variant/")
        for file in (f"variant/{study}/{variant}.yaml", f"study/{study}.yaml"):
            if not (CONF / file).resolve().is_relative_to(CONF.resolve()):
                raise InputError(f"variant: {chosen[0]}: conf/{file} leads out of conf/; allowed: a file in it")
        if included != study:
            allowed = f"{HEADER} and that includes /study/{study}"
            raise InputError(f"variant: {chosen[0]} is of study {included}; allowed: {allowed}")
        if not [change for change in changes if change != f"study={study}"]:
            return study, variant
    words = [*chosen, *(_word(change) for change in changes)]
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", "_".join(words)).strip("-._")[:60] or "default"
    return SWEEP, f"{readable}-{_config_hash(config)}"


def _word(override: str) -> str:
    key, _, value = override.partition("=")
    return f"{re.split('[./]', key)[-1]}-{value}"


def _config_hash(config: Config) -> str:
    """Same for all seeds, and for all versions of the code: it names a variant, it does not identify a run."""
    kept = science(config) | {"seed": None}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _explain(error: Exception) -> str:
    """One line for an error of Hydra's: the field, the value, what is allowed."""
    text = str(error)
    if found := re.search(r"Could not find '([^']+)'", text):
        path = found[1]
        folder = Path(path.partition("/..")[0]) if ".." in path else Path(path).parent
        while folder.parts and not (CONF / folder).is_dir():
            folder = folder.parent
        options = sorted(str(p.relative_to(CONF / folder).with_suffix("")) for p in (CONF / folder).rglob("*.yaml"))
        if not folder.parts or folder.parts[0] == "hydra":  # one of Hydra's own groups
            folder, options = Path(path).parent, re.findall(r"\t([\w-]+)\n", text)
        return f"{folder}: {Path(path).relative_to(folder)} is not known; allowed: {', '.join(options)}"
    if found := re.search(r"Ambiguous value for argument '([^'=]+)=([^']*)'", text):
        return f"{found[1]}: {found[2]} is several values; allowed: one, or a run of each by -m, or a list as [a,b]"
    if found := re.search(r"Could not override '([^']+)'", text):
        return f"{found[1]}: not known; allowed: {_siblings(found[1])}"
    told = re.sub(r" ?See https?://\S+( for details)?", "", one_line(error))
    told, _, rest = told.partition(" full_key: ")
    field = f"{rest.split()[0]}: " if rest else ""
    return f"{field}{told}; allowed: key=value, with the fields and the options of conf/"


def _siblings(field: str) -> str:
    parent, _, _ = field.rpartition(".")
    node = compose("config", [], return_hydra_config=field.startswith("hydra."))
    selected = OmegaConf.select(node, parent, default=None) if parent else node
    if not isinstance(selected, DictConfig):
        return f"the keys of conf/config.yaml: {', '.join(str(key) for key in node)}"
    return ", ".join(f"{parent}.{key!s}".lstrip(".") for key in selected if not str(key).startswith("_"))
