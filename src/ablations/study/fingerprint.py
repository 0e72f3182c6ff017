"""A run's identity: its resolved science config, the source it imports, and its data. A measurement's: its source.

Names, budget labels, devices, loggers and launchers are not in it; neither are comments, docstrings and layout.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ablations
from ablations.data.meta import meta_digest
from ablations.settings import CONF, ROOT, InputError

Config = dict[str, Any]

SHOW_AND_SPEED = ("budget", "lengths", "study", "logger", "runtime")
SCIENCE = ("ablations.data", "ablations.model", "ablations.training", "ablations.measure")
ENTRY = "ablations.training.run"


def science(config: Config) -> Config:
    """What of a resolved config can change a result. The token folder is replaced by what is in it."""
    kept = {key: value for key, value in config.items() if key not in SHOW_AND_SPEED}
    if "tokens" in kept["data"]:
        kept["data"] = dict(kept["data"], tokens=tokens_sha256(ROOT / kept["data"]["tokens"]))
    return kept


def fingerprint(config: Config) -> str:
    """16 hexadecimal digits that two runs share only if they compute the same thing."""
    kept = science(config)
    identity = {"config": kept, "sources": sources([ENTRY, *targets(kept)])}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def measurement_fingerprint(module: str, runs: list[str], data: str | None = None) -> str:
    """The same for a measurement: the source it imports, the identities of the runs whose models it builds, and what is
    in the folder of `conf/` that it reads.
    """
    identity: dict[str, Any] = {"runs": runs, "sources": sources([module])}
    if data is not None:
        identity["data"] = {file.name: json.loads(file.read_text()) for file in sorted((CONF / data).glob("*.json"))}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def tokens_sha256(folder: Path) -> str:
    """Checksum of the tokens in a folder, from its meta data."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        if meta["digest"] != meta_digest(meta):
            raise ValueError("altered")
        if min(int(meta[name]) for name in ("vocabulary", "train_tokens", "heldout_tokens")) < 2:
            raise ValueError("too little text")
        return str(meta["tokens_sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"data.tokens: {folder}/meta.json cannot be read; allowed: as `tokenize` writes it, from text enough"
        ) from error


def targets(node: Any) -> Iterator[str]:
    """The modules that `_target_` keys below `node` name."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield str(node["_target_"]).rpartition(".")[0]
        for value in node.values():
            yield from targets(value)


def sources(roots: list[str]) -> dict[str, str]:
    """Module name to hash of its code, for all science modules that `roots` import, directly or not."""
    found: dict[str, str] = {}
    waiting = [root for root in roots if _is_science(root)]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module], imports = _read(module)
            waiting += imports
    return found


def code_hash(source: str) -> str:
    """Hash of a module's syntax tree: blind to comments, docstrings, layout, and Python's minor version."""
    return hashlib.sha256(json.dumps(_tree(ast.parse(source))).encode()).hexdigest()


def _is_science(module: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in SCIENCE)


@functools.cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    file = _file(module)
    if file is None:
        raise InputError(f"_target_: {module} is no module; allowed: one below {', '.join(SCIENCE)}")
    source = file.read_text()
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            below = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name for name in below if _is_science(name) and _file(name)}
    return code_hash(source), tuple(sorted(name for name in names if _is_science(name) and name not in SCIENCE))


def _file(module: str) -> Path | None:
    """Where a module of this package lies, found without importing anything."""
    stem = Path(ablations.__file__).parents[1].joinpath(*module.split("."))
    return next((file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None)


def _tree(node: Any) -> Any:
    if isinstance(node, list):
        return [_tree(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: _tree(value) for name, value in ast.iter_fields(node) if value not in (None, [])}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        fields["body"] = _tree(node.body[1:])
    return [type(node).__name__, fields]
