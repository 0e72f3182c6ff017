"""Where the project lies, what `params.yaml` says, and how bad input is told."""

import errno
import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, OmegaConfBaseException
from omegaconf.grammar.gen.OmegaConfGrammarParser import OmegaConfGrammarParser
from omegaconf.grammar_parser import parse

ROOT = Path(os.environ.get("ABLATIONS_ROOT", Path(__file__).parents[2])).resolve()
CONF = ROOT / "conf"


TINYSHAKESPEARE = "src/ablations/data/plays.py"  # for corpus.path: a file as any other, so that DVC can watch it
PARAMETERS: dict[str, Any] = {
    "corpus": {"path": TINYSHAKESPEARE, "sha256": None},
    "tokenizer": {"vocabulary": 1024},
    "seeds": 1,
    "studies": {},
}
UNREADABLE = (OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError, AssertionError, RecursionError)
SEEDS = 10_000  # per variant, at most
FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")  # its name: no way out of the one that it lies in
A_NAME = "a name of at most 100 letters, digits, '.', '_', '-'"
SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL")
SHORTEST = 16  # characters of a secret: shorter words may stand in a text for another reason
LONGEST = 390  # characters of a line that tells bad input


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: field, value, what is allowed."""


def parameters(overrides: list[str]) -> Any:
    """`params.yaml` with `key=value` overrides.

    Raises:
        InputError: a damaged file, an unknown key, or an override that is not `key=value`.
    """
    try:
        written: Any = OmegaConf.load(ROOT / "params.yaml")
        for key in written if OmegaConf.is_dict(written) else ():
            if key not in PARAMETERS:
                raise InputError(f"params.yaml: {key}: not known; allowed: {', '.join(PARAMETERS)}")
        params: Any = OmegaConf.merge(PARAMETERS, written)
        OmegaConf.set_struct(params, True)
        for override in overrides:
            key, equals, _ = override.partition("=")
            if not equals or key not in _leaves(params):
                raise InputError(f"{override}: not known; allowed: {', '.join(_leaves(params))} as key=value")
            params.merge_with_dotlist([override])
        for field, text in texts(OmegaConf.to_container(params)):
            if "${" in text:  # DVC reads this file, too, and knows of no interpolation
                raise InputError(f"{field}: {text}; allowed: a plain value")
    except (*UNREADABLE, OSError) as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno):
            raise
        what = " ".join(["params.yaml", *overrides])
        raise InputError(f"{what}: {one_line(error)}; allowed: YAML with {', '.join(PARAMETERS)}") from error
    _judge(params)
    return params


def _judge(params: DictConfig) -> None:
    for section in ("corpus", "tokenizer"):
        known = ", ".join(PARAMETERS[section])
        if not OmegaConf.is_dict(params[section]):
            raise InputError(f"{section}: {params[section]}; allowed: {known}")
        if unknown := set(params[section]) - set(PARAMETERS[section]):
            raise InputError(f"{section}.{min(map(str, unknown))}: not known; allowed: {known}")
    studies = params.studies
    if not OmegaConf.is_dict(studies) or not studies:
        raise InputError(f"studies: {studies}; allowed: names of files in conf/study/, each with a number of seeds")
    for name, least in {"seeds": params.seeds, **{f"studies.{name}": n for name, n in studies.items()}}.items():
        if not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= SEEDS:
            raise InputError(f"{name}: {least}; allowed: a whole number from 1 to {SEEDS}")
    for name, allowed in {"path": f"a text file, or {TINYSHAKESPEARE}", "sha256": "hex, or null"}.items():
        value = params.corpus[name]
        missing = value is None and name == "sha256"
        if not missing and (not isinstance(value, str) or not value.isprintable() or not value):
            raise InputError(f"corpus.{name}: {value}; allowed: {allowed}")
    vocabulary = params.tokenizer.vocabulary
    if not isinstance(vocabulary, int) or isinstance(vocabulary, bool) or not 256 <= vocabulary <= 65536:
        raise InputError(f"tokenizer.vocabulary: {vocabulary}; allowed: 256 to 65536")


def texts(node: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """All texts in a plain config with their fields."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        below = f"{field}.{key}".lstrip(".")
        yield from [(below, value)] if isinstance(value, str) else texts(value, below)


def _leaves(node: DictConfig, prefix: str = "") -> list[str]:
    leaves: list[str] = []
    for key in map(str, node):
        below = _leaves(node[key], f"{prefix}{key}.") if isinstance(node[key], DictConfig) else [f"{prefix}{key}"]
        leaves += below
    return leaves


def one_line(error: BaseException) -> str:
    """The message of an error on one line, or its type where it has none: no break, control character, or secret."""
    words = " ".join(without_secrets(str(error)).split())
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return "".join(shown) or type(error).__name__


def secrets() -> dict[str, str]:
    """The variables of the environment that are named like secrets, with their values."""
    return {k: v for k, v in os.environ.items() if len(v) >= SHORTEST and SECRET.search(k.upper())}


def without_secrets(text: str) -> str:
    """A text with `<NAME>` in place of each of their values."""
    for name, value in secrets().items():
        text = text.replace(value, f"<{name}>")
    return text


def asks_outside(text: str) -> bool:
    """Whether a text has an interpolation that is no other field's name, as `${oc.env:HOME}`, or a damaged one."""
    if "${" not in text:
        return False
    try:
        waiting = [parse(text)]
    except GrammarParseError:
        return True
    while waiting:
        node = waiting.pop()
        if isinstance(node, OmegaConfGrammarParser.InterpolationResolverContext):
            return True
        waiting += getattr(node, "children", None) or []
    return False


def folder_name(field: str, name: str) -> str:
    """`name`, where it can be that of a folder.

    Raises:
        InputError: it would lead elsewhere.
    """
    if not FOLDER.fullmatch(name):
        raise InputError(f"{field}: {name}; allowed: {A_NAME}")
    return name


def _cut(line: str) -> str:
    """A line of bad input at most so long: the value, and what is allowed, lose their middles."""
    told, mark, allowed = line.partition("; allowed: ")
    told = _shortened(told, max(LONGEST - len(mark + allowed), LONGEST // 2))
    return told + mark + _shortened(allowed, LONGEST - len(told + mark))


def _shortened(text: str, length: int) -> str:
    half = (length - 5) // 2
    return text if len(text) <= length else f"{text[:half]} ... {text[-half:]}"


def options(arguments: list[str], *forms: str, **defaults: str) -> dict[str, str]:
    """What a command is given as `key=value`, over its defaults.

    Args:
        arguments: of the command line.
        forms: what it takes: `key=NAME`, which may be anything but empty, or `key=yes|no`, one of these words.
        defaults: of what need not be given.

    Raises:
        InputError: another key, an empty value, or another word.
    """
    takes = dict(form.split("=") for form in forms)
    found = dict(defaults)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in takes:
            raise InputError(f"{argument}: not known; allowed: {', '.join(forms)}")
        words = takes[key].split("|")
        if not value or (takes[key].islower() and value not in words):
            raise InputError(f"{key}: {value or 'empty'}; allowed: {', '.join(words)}")
        found[key] = value
    return found


def command(function: Callable[[list[str]], Any]) -> Callable[[], int]:
    """A command line entry: gives `function` the arguments. Bad input becomes one line and exit code 2, as does a file
    that cannot be used; a full or failing disk 1, an interrupt 130, a closed pipe 141.
    """

    @functools.wraps(function)
    def entry() -> int:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see the package's __init__
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if sys.stdout is None:  # closed by whoever called
            sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        try:
            return int(function(sys.argv[1:]) or 0)
        except InputError as error:
            print(f"error: {_cut(one_line(error))}", file=sys.stderr)
            return 2
        except BrokenPipeError:  # whoever read it has read enough, as `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it ends
            return 128 + signal.SIGPIPE
        except OSError as error:  # no permission, a full disk, a missing file: the reader's to mend, no traceback
            told = InputError(f"{error.filename or 'file system'}: {error.strerror or error}")
            print(f"error: {_cut(one_line(told))}", file=sys.stderr)
            return 1 if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else 2
        except KeyboardInterrupt:
            return 130

    return entry
