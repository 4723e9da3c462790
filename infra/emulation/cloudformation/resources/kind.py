"""The interface of resource kinds: create, update in place, delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

Properties = Mapping[str, Any]
# A botocore client of the service, made once.
Clients = Callable[[str], Any]


@dataclass(frozen=True)
class Made:
    """A resource that exists: what `Ref` gives for it, and what `Fn::GetAtt` gives by attribute."""

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Kind(Protocol):
    """One type of resource. Errors of the API are raised as they come; the stack says where they happened."""

    fixed: frozenset[str]
    """The properties that need another resource when they change ("Update requires: Replacement")."""

    def create(self, name: str, wanted: Properties) -> Made:
        """Makes one; `name` is for where `wanted` names none."""
        ...

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        """Changes in place what differs."""
        ...

    def delete(self, made: Made, properties: Properties) -> None:
        """Deletes it; a missing resource is ignored."""
        ...


@contextmanager
def whole(kind: Kind, made: Made, wanted: Properties) -> Iterator[Made]:
    """What has been begun is furnished inside, or goes: a stack does not know of what it never got."""
    try:
        yield made
    except Exception:
        with suppress(Exception):
            kind.delete(made, wanted)
        raise


def changed(before: Properties, after: Properties) -> dict[str, Any]:
    """The properties that differ, with their new values; None for those that are no longer there."""
    return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
