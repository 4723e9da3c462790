"""How many units a round samples."""

from typing import Literal, Protocol

Rule = Literal["constant"]


class ScalingRule(Protocol):
    """The number of units of the coming round; `units` is what the user asked for."""

    def __call__(self, units: int) -> int: ...


def constant(units: int) -> int:
    """The same number every round."""
    return units


SCALING_RULES: dict[Rule, ScalingRule] = {"constant": constant}
