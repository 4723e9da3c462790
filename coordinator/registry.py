"""Rules by family and name: ours, and those that other packages offer.

A package offers a rule by an entry point of the group `marless.rules` whose name is ``<family>.<name>``, such as
``scaling.every_third``, and whose value is a `Rule`. A plug-in cannot take a name of ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from functions.contract import BadRequest
from functions.plug_ins import plug_ins

GROUP = "marless.rules"

T = TypeVar("T")


@dataclass(frozen=True)
class Rule(Generic[T]):
    """A rule and the line that explains it in help texts and in the documentation."""

    summary: str
    rule: T


class Family(Mapping[str, T]):
    """All rules of one kind by name, ours first. `expected` is the class of a rule, for plug-ins."""

    def __init__(self, name: str, built_in: Mapping[str, Rule[T]], expected: type | None = None) -> None:
        self.name, self._built_in, self._expected = name, dict(built_in), expected

    def __getitem__(self, name: str) -> T:
        """Raises `KeyError` for a rule that nobody knows, `BadRequest` for a plug-in that cannot be used."""
        return self._entry(name).rule

    def __iter__(self) -> Iterator[str]:
        return iter([*self._built_in, *sorted(self._plug_ins() - self._built_in.keys())])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._plug_ins()

    @property
    def built_in(self) -> tuple[str, ...]:
        """Our rules' names."""
        return tuple(self._built_in)

    def summary(self, name: str) -> str:
        """The line that explains a rule; raises as indexing does."""
        return self._entry(name).summary

    def described(self, plug_ins: bool = False) -> str:
        """All names with their lines; with `plug_ins` those of other packages too. Raises `BadRequest`."""
        return "; ".join(f"{name}: {self._entry(name).summary}" for name in (self if plug_ins else self._built_in))

    def unknown(self, name: str) -> str:
        """What to say of a name that nobody knows."""
        return f"there is no {self.name} rule {name!r}; known are {', '.join(self)}"

    def _entry(self, name: str) -> Rule[T]:
        if name in self._built_in:
            return self._built_in[name]
        offers = plug_ins(GROUP).get(f"{self.name}.{name}", ())
        if not offers:
            raise KeyError(name)
        if len(offers) > 1:
            raise BadRequest(f"several packages offer the {self.name} rule {name!r}; uninstall all but one")
        try:
            loaded = offers[0].load()
        except Exception as error:
            raise BadRequest(f"{self.name} rule {name!r} ({offers[0].value}) cannot be loaded: {error}") from error
        if not isinstance(loaded, Rule) or (self._expected and not isinstance(loaded.rule, self._expected)):
            kind = f" of a {self._expected.__name__}" if self._expected else ""
            raise BadRequest(f"{self.name} rule {name!r}: {offers[0].value} is no Rule{kind}; see marless.rules")
        return cast(Rule[T], loaded)

    def _plug_ins(self) -> set[str]:
        start = f"{self.name}."
        return {name.removeprefix(start) for name in plug_ins(GROUP) if name.startswith(start)}
