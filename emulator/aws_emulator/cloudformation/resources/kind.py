"""The interface of resource kinds: create, update in place, delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

Properties = Mapping[str, Any]
# Returns the cached botocore client of a service.
Clients = Callable[[str], Any]


@dataclass(frozen=True)
class Made:
    """An existing resource: the value of `Ref`, and the values of `Fn::GetAtt` by attribute."""

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Kind(Protocol):
    """One type of resource. Errors of the API pass through; the stack adds the resource's name."""

    fixed: frozenset[str]
    """The properties that need another resource when they change ("Update requires: Replacement")."""

    def create(self, name: str, wanted: Properties) -> Made:
        """Creates a resource; `name` is its default name if `wanted` has none."""
        ...

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        """Updates the differing properties in place."""
        ...

    def delete(self, made: Made, properties: Properties) -> None:
        """Deletes the resource; a missing resource is ignored."""
        ...


@contextmanager
def delete_on_failure(kind: Kind, made: Made, wanted: Properties) -> Iterator[Made]:
    """Deletes a partly created resource if the block fails, because the stack does not know it yet."""
    try:
        yield made
    except Exception:
        with suppress(Exception):
            kind.delete(made, wanted)
        raise


def changed_properties(before: Properties, after: Properties) -> dict[str, Any]:
    """The changed properties with their new values; None for removed ones."""
    return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
