"""Rules by family and name: ours, and those that other packages offer.

A package offers a rule by an entry point of the group `marless.rules` whose name is ``<family>.<name>``, such as
``scaling.every_third``, and whose value is a `Rule`. A plug-in cannot take a name of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from marless.functions.plug_in_registry import Registry

T = TypeVar("T")


@dataclass(frozen=True)
class Rule(Generic[T]):
    """A rule and the line that explains it in help texts and in the documentation."""

    summary: str
    rule: T


class Family(Registry[T]):
    """All rules of one kind by name, ours first. `rule_type` is the class of a rule, for plug-ins."""

    def __init__(self, name: str, built_in: Mapping[str, Rule[T]], rule_type: type = object) -> None:
        kind = "" if rule_type is object else f" of a {rule_type.__name__}"

        def problem(value: object) -> str:
            fits = isinstance(value, Rule) and isinstance(value.rule, rule_type)
            return "" if fits else f"is no Rule{kind}; see marless.rules"

        def label(rule: str) -> str:
            return f"{name} rule {rule!r}"

        rules = cast(dict[str, T | str], {**built_in})
        super().__init__("marless.rules", rules, label, problem, prefix=f"{name}.")

    def __getitem__(self, name: str) -> T:
        return cast(Rule[T], super().__getitem__(name)).rule

    def summary(self, name: str) -> str:
        """The line that explains a rule; raises as indexing does."""
        return cast(Rule[T], super().__getitem__(name)).summary

    def listing(self, plug_ins: bool = False) -> str:
        """All names with their lines; with `plug_ins` those of other packages too. Raises `BadRequest`."""
        return "; ".join(f"{name}: {self.summary(name)}" for name in (self if plug_ins else self.built_in))
