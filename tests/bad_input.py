"""Bad configs by construction, from the tree that `conf/` composes. What is bad is said here, by what each field means:
nothing of the package decides it.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hypothesis import strategies as st
from omegaconf import OmegaConf

CONF = Path(__file__).parents[1] / "conf"
LISTED: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
OWN = "conf/variant/depth/own.yaml"
HEAD = "# @package _global_\ndefaults: [/study/depth, _self_]\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """A command that is to be refused: its arguments, what its line has to name, and files of the user's own."""

    arguments: tuple[str, ...]
    names: str = ""
    files: tuple[tuple[str, bytes], ...] = ()


BASES = (
    (),
    ("model/mixer=head", "model.norm.placement=post"),
    ("variant=norm/post",),
    ("variant=coreference/easy_average",),
    ("variant=stacks/encoder_decoder",),
    ("variant=modern_experts/balanced",),
    ("variant=modern_hybrid/interleaved",),
    ("variant=modern_length/yarn_further",),
    ("variant=modern_attention/latent",),
)
ZERO = ("seed", "schedule.warmup", "data.at", "lengths.")  # may be 0
NULL = ("model.mixer.d_k", "model.mixer.kv_heads", "model.mixer.project", "optimizer.clip")  # may be null
BELOW_ONE = ("dropout",)
CHOICES = ("precision", "data.task", "data.form", "data.operation", "placement", "method", "runtime.accelerator")
ANY_TEXT = ("study.question", "study.section", "study.rows.")  # whatever a reader likes to read
REQUIRED = (
    *("seed", "steps", "precision", "divergence", "probe.every", "probe.windows", "runtime.work", "runtime.threads"),
    *("optimizer.lr", "optimizer.betas", "schedule.warmup", "model.width", "model.blocks", "runtime.results"),
)
OUTSIDE = ("${oc.env:HOME}", "${oc.env:NOPE,5}", "${oc.decode:5}", "${now:%Y}", "${hydra:job.name}", "a${oc.env:HOME}")
NOWHERE = ("${nope}", "${model.nope}", "${.nope}", "${..}", "${")
WORDS = ("many", "½", "٣", "0x10", "1_0 0", "4 ", "𝟜", "a'b", "\x07", "a\nb", "\u202eb", "é" * 300)


@functools.cache
def leaves(base: tuple[str, ...]) -> dict[str, Any]:
    """All fields of the config that the overrides compose, resolved."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", [*base, "budget=quick"])
    plain = OmegaConf.masked_copy(config, [str(key) for key in config if key not in ("variant", "budget")])
    found: dict[str, Any] = {}

    def walk(node: Any, field: str) -> None:
        for key, value in node.items():
            below = f"{field}.{key}".lstrip(".")
            walk(value, below) if isinstance(value, dict) and value else found.update({below: value})

    walk(OmegaConf.to_container(plain, resolve=True), "")
    return {field: value for field, value in found.items() if field != "study"}


def wrong(field: str, value: Any) -> list[Any]:
    """Values that the field cannot have, whatever the other fields are."""
    last = field.rpartition(".")[2]
    if last == "_target_":
        return [*LISTED["targets"], None, 5, ["os.system"], {"_target_": "os.system"}]
    if field.startswith(ANY_TEXT):
        return [{"a": 1}, [1], None]
    structures = [{"a": 1}, [[1]], [None], ""]
    if value is None or field in NULL:
        return [*WORDS, *structures, -1, 0.0, float("nan"), float("inf"), 10**30] + ([2.5] if last != "clip" else [])
    nothing = [None]
    if isinstance(value, bool):
        return [*WORDS, *structures, *nothing, 0, 1, 2, 1.0, "yes"]
    if isinstance(value, int):
        zero = [] if field.startswith(ZERO) else [0]
        return [*WORDS, *structures, *nothing, *zero, -1, 1.5, 1e3, float("nan"), float("-inf"), True, 2**32, 10**30]
    if isinstance(value, float):
        more = [1.0, 1.5] if last in BELOW_ONE else [0.0] if last in ("lr", "eps", "base", "expand", "inner") else []
        return [*WORDS, *structures, *nothing, *more, -0.5, float("nan"), float("inf"), float("-inf"), True]
    if isinstance(value, list):
        return [*WORDS, *structures, *nothing, 5, [-1], [float("nan")], ["a"], [0.9, 1.0], [True, True], {}]
    if last in CHOICES or field in CHOICES:
        return [*WORDS, *structures, *nothing, 5, True, f"{value} ", str(value).upper()]
    if field == "logger.project":
        return [*structures, *nothing, 5, "a/b", "a#b", "a\nb", "x" * 129, "\x1b[31m"]
    if field in ("study.name", "study.baseline"):
        return [*structures, *nothing, "../x", "/x", "a b", ".", "..", "x" * 101]
    if field == "study.compare":
        return [*WORDS, *structures, *nothing]
    return [*structures, *nothing, 5, True, "a\nb", "\x07"]  # a path


def quoted(value: Any) -> str:
    """A value as Hydra's command line takes it, each text in quotes."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\") if value.endswith("\\") else value
        return "'" + escaped.replace("'", "\\'") + "'"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}: {quoted(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(quoted, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def nested(field: str, value: Any) -> dict[str, Any]:
    """The same as YAML has it."""
    for key in reversed(field.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


@st.composite
def of_a_field(draw: Any) -> Case:
    """A value that its field cannot have, on the command line or in a variant file of one's own."""
    base = draw(st.sampled_from(BASES))
    field, value = draw(st.sampled_from(sorted(leaves(base).items(), key=lambda item: item[0])))
    value = draw(st.sampled_from(wrong(field, value)))
    if draw(st.integers(0, 3)) == 0 and field in leaves(("variant=depth/one_block",)):
        text = HEAD + yaml.safe_dump(nested(field, value), allow_unicode=True)
        return Case(("variant=depth/own",), field, ((OWN, text.encode()),))
    return Case((*base, f"{draw(st.sampled_from(['', '++']))}{field}={quoted(value)}"), field)


@st.composite
def misspelt(draw: Any) -> Case:
    """A key that is not there, by a slip of the keyboard."""
    base = draw(st.sampled_from(BASES))
    fields = leaves(base)
    parts = draw(st.sampled_from([f for f in sorted(fields) if not f.startswith(("lengths", "study.rows"))])).split(".")
    at = draw(st.integers(0, len(parts) - 1))
    word, i = parts[at], draw(st.integers(0, len(parts[at]) - 1))
    slips = [word[:i] + word[i + 1 :], word[: i + 1] + word[i:], word[:i] + word[i : i + 2][::-1] + word[i + 2 :]]
    slip = draw(st.sampled_from([*slips, f"{word}x", word.upper(), f"{word[:i]}é{word[i:]}"]))
    key = ".".join([*parts[:at], slip, *parts[at + 1 :]])
    known = {".".join(field.split(".")[: n + 1]) for field in fields for n in range(field.count(".") + 1)}
    if not slip or ".".join([*parts[:at], slip]) in known:
        slip, key = "nope", "nope"
    mark = draw(st.sampled_from(["", "+", "++", "~"]))
    return Case((*base, f"{mark}{key}" + ("" if mark == "~" else "=1")), slip if slip.isascii() else "")


@st.composite
def missing(draw: Any) -> Case:
    """A field that every run has, taken away or left open."""
    field = draw(st.sampled_from(REQUIRED))
    return Case((*draw(st.sampled_from(BASES)), draw(st.sampled_from([f"~{field}", f"{field}=???"]))), field)


@st.composite
def unknown_option(draw: Any) -> Case:
    """An option that a group does not have, or a way out of its folder."""
    groups = sorted(str(f.parent.relative_to(CONF)) for f in CONF.rglob("*.yaml") if f.parent != CONF)
    group = draw(st.sampled_from([g for g in sorted(set(groups)) if not g.startswith(("variant/", "hydra"))]))
    letters = st.text("abcxyz_-é", min_size=1, max_size=20).map(lambda word: f"{word}-nope")
    word = draw(letters)
    out = [f"../{word}", f"/{word}", f"../../conf/{word}", f"{word}/{word}", "../config", "..", f"[{word},{word}]"]
    option = draw(
        st.sampled_from(
            [
                word,
                word,
                word,
                *out,
                f"../{group}/{sorted(CONF.joinpath(group).glob('*.yaml'))[0].stem}"
                if list(CONF.joinpath(group).glob("*.yaml"))
                else "..",
            ]
        )
    )
    return Case((f"{group}={option}",), group)


@st.composite
def outside(draw: Any) -> Case:
    """An interpolation that asks the machine, or one that leads nowhere."""
    base = draw(st.sampled_from(BASES))
    field = draw(st.sampled_from(sorted(leaves(base))))
    asks = draw(st.booleans())
    text = draw(
        st.sampled_from(
            [*OUTSIDE, f"${{oc.env:{draw(st.text('ABC', min_size=1))}}}"] if asks else [*NOWHERE, f"${{{field}}}"]
        )
    )
    return Case((*base, f"{field}='{text}'"), field if asks else "")


def told(names: str, *arguments: str) -> Any:
    """Numbers to a case whose arguments have them for `#`; `names` is what does not fit."""
    return lambda number: Case(tuple(argument.replace("#", str(number)) for argument in arguments), names)


NUMBERS = st.integers(1, 10**6)
ODD = st.integers(1, 500).map(lambda n: 2 * n + 1)
NO_DIVISOR = NUMBERS.filter(lambda n: 128 % n)
HUGE = st.integers(2**28, 2**31 - 1)
TOGETHER = st.one_of(
    NO_DIVISOR.map(told("model.mixer.heads", "model.mixer.heads=#")),
    NO_DIVISOR.map(told("cross_heads", "variant=stacks/encoder_decoder", "model.cross_heads=#")),
    NO_DIVISOR.map(told("kv_heads", "model.mixer.kv_heads=#")),
    ODD.map(told("d_k", "model/position=rotary", "model.mixer.d_k=#")),
    ODD.map(told("width", "model/position=sinusoidal", "model/mixer=head", "model.width=#")),
    HUGE.map(told("data.window", "data.window=#")),
    HUGE.map(told("data.also_at", "data.also_at=[8,#]")),
    HUGE.map(told("data.batch", "data.batch=#")),
    HUGE.map(told("model", "model.mixer.d_k=#")),
    HUGE.map(told("model", "model.position.length=#")),
    st.integers(128, 512).map(lambda n: 128 * n).map(told("model", "model.width=#", "model.blocks=512")),
    st.integers(3, 9).map(
        told("chosen", "model/feedforward=experts", "model.feedforward.experts=2", "model.feedforward.chosen=#")
    ),
    NUMBERS.filter(lambda n: n != 24).map(told("data.window", "data=sequences", "data.window=#")),
    NUMBERS.filter(lambda n: n != 17).map(told("data.window", "data=coreference", "data.window=#")),
    st.integers(1, 127).map(told("data.longer", "data=lengthened", "data.longer=#")),
)


def arguments(text: str) -> Case:
    """Arguments with blanks between them, of Hydra's own or a sweep's."""
    return Case(tuple(text.split()), "hydra" if text.startswith(("hydra", "+hydra", "++hydra", "~hydra")) else "")


def file(name: str, *choice: str) -> Any:
    """A file's text, after what it begins with, to the command that reads it."""
    begin = "".join(choice[1:])
    return lambda text: Case(
        (choice[0],), files=((name, text if isinstance(text, bytes) else f"{begin}{text}\n".encode()),)
    )


LONG = ("x" * 5000, "x" * 5000 + "=1", "steps=" + "[" * 400 + "]" * 400, "steps=" + "9" * 5000)
BROKEN = ("\udcff=1", "steps='\udcff'")  # as bytes that are no UTF-8 come to Python
TOO_LONG = b"# @package _global_\nbudget: " + b"x" * 300 + b"\nlengths: {long: 3, probe: 3}\n"
GLOBAL = "# @package _global_\n"
BUDGET = "conf/budget/own.yaml"
CASES = st.one_of(
    of_a_field(),
    of_a_field(),
    misspelt(),
    missing(),
    unknown_option(),
    outside(),
    TOGETHER.map(lambda case: case),  # as one
    st.sampled_from([*LISTED["arguments"], *LONG, *BROKEN]).map(lambda text: Case((text,))),
    st.sampled_from(LISTED["of_hydra"]).map(arguments),
    st.sampled_from([f"-m {text}" for text in LISTED["sweeps"]]).map(arguments),
    st.sampled_from([*LISTED["variants"], b"\xff\xfe\0"]).map(file(OWN, "variant=depth/own")),
    st.sampled_from(LISTED["bodies"]).map(file(OWN, "variant=depth/own", HEAD)),
    st.sampled_from(LISTED["defaults"]).map(file(OWN, "variant=depth/own", GLOBAL, "defaults: ")),
    st.sampled_from([*LISTED["budgets"], TOO_LONG]).map(file(BUDGET, "budget=own")),
    st.sampled_from(LISTED["budget"]).map(file(BUDGET, "budget=own", GLOBAL, "budget: ")),
)
