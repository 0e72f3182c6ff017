"""The files of studies and variants: which there are, and where they have to be."""

import re
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from ablations.settings import A_NAME, CONF, FOLDER, ROOT, InputError, one_line

SWEEP = "sweep"  # the study that sweeps by hand are of
# What Hydra would take for a number or the like, where a command names the variant.
VALUE = re.compile(r"[0-9_]+(\.[0-9_]*)?(e[+-]?[0-9_]+)?|true|false|null|nan|inf", re.IGNORECASE)
HEADER = "a file whose first line is '# @package _global_'"


def well_placed() -> None:
    """Looks for files that Hydra would stumble on, or pass over without a word.

    Raises:
        InputError: one that cannot be a variant's.
    """
    if (CONF / "study" / f"{SWEEP}.yaml").exists():
        raise InputError(f"study: conf/study/{SWEEP}.yaml; allowed: another name, since sweeps by hand have this one")
    place = CONF / "variant"
    for file in sorted(place.rglob("*.y*ml")):
        if file.parent.name.startswith("."):  # a tool's own folder, where Hydra does not look
            continue
        named = file.suffix == ".yaml" and FOLDER.fullmatch(file.stem) and not VALUE.fullmatch(file.stem)
        if not named or file.parents[1] != place or file.is_dir():
            allowed = f"conf/variant/<study>/<name>.yaml with {A_NAME}, that is no number or other value"
            raise InputError(f"variant: {file.relative_to(ROOT)}; allowed: {allowed}")


def variants(study: str) -> list[str]:
    """The variants of a study: the rows of its file in their order, then further files in its folder by name.

    Raises:
        InputError: no such study, or a row without a variant file.
    """
    file = CONF / "study" / f"{study}.yaml"
    known = sorted(path.stem for path in (CONF / "study").glob("*.yaml"))
    if study not in known:
        raise InputError(f"study: {study}; allowed: {', '.join(known)}")
    try:
        node: Any = OmegaConf.load(file)
        described = (node or {}).get("study") or {}
        rows: list[Any] = list((described.get("rows") or {}).keys())
    except Exception as error:  # whatever YAML makes of a damaged file
        reason = f"conf/study/{study}.yaml cannot be read ({one_line(error)})"
        raise InputError(f"study: {reason}; allowed: YAML as its neighbours have it") from error
    if described.get("name") != study:
        raise InputError(f"study.name: {described.get('name')}; allowed: {study}, as its file is called")
    files = sorted(path.stem for path in (CONF / "variant" / study).glob("*.yaml"))
    if lost := [row for row in rows if row not in files]:
        raise InputError(f"study.rows: {study} names {lost[0]}; allowed: {', '.join(files) or 'no variant is there'}")
    if not files:
        raise InputError(f"study: {study} has no variant; allowed: a file at least in conf/variant/{study}/")
    known = rows + [name for name in files if name not in rows]
    if described.get("baseline", known[0]) not in known:
        raise InputError(f"study.baseline: {described['baseline']}; allowed: {', '.join(known)}")
    if described.get("compare", "baseline") not in ("baseline", "row_above"):
        raise InputError(f"study.compare: {described['compare']}; allowed: baseline, row_above")
    return known


def chosen_of(choices: Mapping[str, Any]) -> list[str]:
    """The variants that a command names, as `<study>/<name>`."""
    return [
        f"{group}/{choice}".removeprefix("variant/")
        for group, choice in choices.items()
        if (group == "variant" or group.startswith("variant/")) and choice not in (None, "null")
    ]
