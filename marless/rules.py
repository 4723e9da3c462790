"""The interface for your rules: a `Rule` is a line that explains it and a function or object of its family.

A package offers a rule by an entry point of the group ``marless.rules``. Its name is ``<family>.<name>``, and its value
is a `Rule`. Families: ``trend`` (`TrendRule`), ``distance`` (`DistanceRule`), ``grouping`` (`GroupingRule`), ``base``
(`BaseRule`), ``sharing`` (`SharingMode`), ``scaling`` (`ScalingRule`), ``placement`` (`PlacementRule`) and ``league``
(`LeagueRule`).

Examples:
    >>> from marless.rules import Bounds, Rule, ScalingRule
    >>> HALF = Rule("half of the most", ScalingRule(lambda history, bounds, rng: bounds.most // 2, adapts=False))
"""

from marless.coordinator.placement.placement_rules import PlacementRule, Work
from marless.coordinator.rules.grouping import GroupingRule
from marless.coordinator.rules.league import LeagueRule
from marless.coordinator.rules.scaling import Bounds, ScalingRule
from marless.coordinator.rules.sharing import BaseRule, SharingMode
from marless.coordinator.rules.similarity import DistanceRule
from marless.coordinator.rules.trend import TrendRule, slope
from marless.functions.plug_in_registry import Rule

__all__ = [
    "BaseRule",
    "Bounds",
    "DistanceRule",
    "GroupingRule",
    "LeagueRule",
    "PlacementRule",
    "Rule",
    "ScalingRule",
    "SharingMode",
    "TrendRule",
    "Work",
    "slope",
]

__dir__ = __all__.copy
