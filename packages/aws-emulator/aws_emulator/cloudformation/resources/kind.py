"""The interface of resource kinds: create, update in place, delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

Properties = Mapping[str, Any]
# Returns the cached botocore client of a service.
Clients = Callable[[str], Any]


@dataclass(frozen=True)
class PhysicalResource:
    """An existing resource: the value of `Ref`, and the values of `Fn::GetAtt` by attribute."""

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Kind(Protocol):
    """One type of resource. Errors of the API pass through. The stack adds the resource's name."""

    create_only: frozenset[str]
    """The properties that need another resource when they change ("Update requires: Replacement")."""

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """Creates a resource. `name` is its default name if `properties` has none."""
        ...

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """Updates the differing properties in place."""
        ...

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        """Deletes the resource. A missing resource is ignored."""
        ...


@contextmanager
def delete_on_failure(kind: Kind, physical: PhysicalResource, properties: Properties) -> Iterator[PhysicalResource]:
    """Deletes a partly created resource if the block fails, because the stack does not know it yet."""
    try:
        yield physical
    except Exception:
        with suppress(Exception):
            kind.delete(physical, properties)
        raise


def changed_properties(before: Properties, after: Properties) -> dict[str, Any]:
    """The changed properties with their new values. None for removed ones."""
    return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
