"""The measurements by name: where each is, and which variants' models it builds."""

from typing import NamedTuple


class Measurement(NamedTuple):
    """A module with a `measure()`, the variants whose configs it composes, and the folder of `conf/` that it reads."""

    module: str
    variants: tuple[str, ...] = ()
    data: str | None = None


MEASUREMENTS = {
    "one_operation": Measurement("ablations.measure.operation"),
    "scores": Measurement("ablations.measure.scores"),
    "equivalence": Measurement("ablations.measure.equivalence"),
    "parameters": Measurement("ablations.measure.parameters"),
    "gradients": Measurement("ablations.measure.gradients", ("norm/pre", "norm/post")),
    "cost": Measurement("ablations.measure.cost"),
    "generation": Measurement("ablations.measure.generation"),
    "accounting": Measurement("ablations.measure.accounting", data="accounting"),
}
