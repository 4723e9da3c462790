"""Makes names of metrics valid for a store that does not take every name."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from typing import TypeVar

_Value = TypeVar("_Value")


class Names:
    """A store's valid names for our names. A name always gets the same one, and no two are alike.

    `make_valid` changes a name into one that the store takes, and leaves such a one as it is. Names that `make_valid`
    makes equal get a number, in the order of their first use. Names of one call that need no change come first. A log
    is written from its first point on, so every command gives the same names.
    """

    def __init__(self, make_valid: Callable[[str], str]) -> None:
        self._make_valid = make_valid
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    @property
    def replacements(self) -> dict[str, str]:
        """The names that the store refuses, with their replacements."""
        return {name: other for name, other in self._names.items() if name != other}

    def of(self, values: Mapping[str, _Value]) -> dict[str, _Value]:
        """The values under the names of the store."""
        self._learn(name for name in values if name not in self._names)
        return {self._names[name]: value for name, value in values.items()}

    def _learn(self, names: Iterable[str]) -> None:
        plain = {name: self._make_valid(name) for name in names}
        for name in sorted(plain, key=lambda name: plain[name] != name):
            serials = (f"{plain[name]}_{serial}" for serial in count(2))
            self._names[name] = next(other for other in chain([plain[name]], serials) if other not in self._taken)
            self._taken.add(self._names[name])


def renaming_text(logger: str, new_names: Mapping[str, str]) -> str:
    """That a logger has other names, in a line."""
    (name, other), *more = new_names.items()
    rest = f", and {len(more):,} more" if more else ""
    return f"{logger} does not take every name: {name!r} is {other!r} there{rest}"
