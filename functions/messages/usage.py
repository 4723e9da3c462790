"""The use of a task: operations of storage, and calls of resources."""

from collections.abc import Mapping
from typing import Annotated, Self, TypeVar

import msgspec

from marless.functions.messages.message import Message

_Amount = TypeVar("_Amount", int, float, "CallUse")


def sums_by_name(first: Mapping[str, _Amount], second: Mapping[str, _Amount]) -> dict[str, _Amount]:
    """The amounts of both, added up where both have one."""
    return {**first, **{name: first[name] + value if name in first else value for name, value in second.items()}}


# More than any task can have of anything. Larger counts in a message are refused.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=2**40)]


class CallUse(Message, frozen=True, kw_only=True):
    """The use of a resource by tasks."""

    count: _Count = 0
    """Actions that they pay for."""
    hits: _Count = 0
    """Questions whose kept answer was paid for before, by another task or for an earlier question of this one."""
    ms: _Count = 0
    """Milliseconds that the resource worked at the actions they pay for; those of each are rounded up."""
    puts: _Count = 0
    """Objects that keeping answers stored."""
    gets: _Count = 0
    """Objects that it looked for."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def beyond(self, other: Self) -> Self:
        """Return its surplus over the other, count by count."""
        return type(self)(
            **{name: max(0, getattr(self, name) - getattr(other, name)) for name in self.__struct_fields__}
        )

    def scaled(self, share: float) -> Self:
        """As much of it, in whole numbers."""
        return type(self)(**{name: round(share * getattr(self, name)) for name in self.__struct_fields__})


class CallTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True, gc=False):
    """One action of an attempt, in milliseconds since the attempt's task began."""

    resource: str
    """The resource's name."""
    slot: _Count
    """The slot that served it last, from 0."""
    asked_ms: _Milliseconds
    """When the environment asked."""
    begun_ms: _Milliseconds
    """When the resource began to work at it."""
    ended_ms: _Milliseconds
    """When the answer was there."""

    @property
    def completion_ms(self) -> float:
        """The action completion time."""
        return self.ended_ms - self.asked_ms


class Usage(Message, frozen=True, kw_only=True):
    """Storage operations and calls of one invocation in the units of the price list."""

    puts: int = 0
    """Objects written."""
    gets: int = 0
    """Objects read."""
    bytes_written: int = 0
    """Bytes of the objects written."""
    bytes_read: int = 0
    """Bytes of the objects read."""
    hits: int = 0
    """Objects that the process had kept, so that they were not read from storage."""
    hit_bytes: int = 0
    """Bytes of these."""
    calls: dict[str, CallUse] = msgspec.field(default_factory=dict, name="actions")
    """The calls of resources, by the resource's name."""

    def __add__(self, other: Self) -> Self:
        numbers = [name for name in self.__struct_fields__ if name != "calls"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return type(self)(**sums, calls=sums_by_name(self.calls, other.calls))

    @property
    def cold(self) -> "Usage":
        """The operations of the same invocation in a process that had kept no object."""
        gets, bytes_read = self.gets + self.hits, self.bytes_read + self.hit_bytes
        return msgspec.structs.replace(self, gets=gets, bytes_read=bytes_read, hits=0, hit_bytes=0)
