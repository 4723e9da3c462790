"""What a process keeps from one task to the next, whichever runs they belong to.

A function may be cold at any time, so nothing depends on what is kept: it only saves reads. Everything is found by
hashes of content and never by the name of a key or of a run, so runs that share a process, even runs of one name,
cannot see each other's data for their own.

Every process keeps what each of its tasks needs again: a run's dataset and its replay buffer. A process of this machine
also keeps single objects that it read or wrote. A deployed function does not: which of its environments serves a task
is chance, so nobody could foresee a bill (docs/decisions/0021).
"""

import os
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any

from marless.functions.function_specs import share_of

# Every deployed function has this variable (Lambda developer guide, "Defined runtime environment variables").
_DEPLOYED = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
# A round's objects of some tens of runs with default networks. Every worker of a pool may hold so much.
_LOCAL_BYTES = 32 << 20


class WarmCache:
    """Values by content, of at most `bound` bytes in total; those not used for the longest time are dropped first.

    One entry may be spared: it is neither counted nor dropped until another is spared or takes its key. `hits` and
    `hit_bytes` count the objects that were not read from storage. Not safe for several threads.
    """

    def __init__(self, bound: int, keeps_objects: bool = True) -> None:
        self.bound, self.keeps_objects = bound, keeps_objects
        self.hits = self.hit_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._spared: Hashable = None
        self.held_bytes = 0
        """Bytes of all entries but the spared one."""

    def get(self, content: Hashable) -> Any:
        """The value, which is now the one used last; None if it is not kept."""
        if (entry := self._entries.get(content)) is None:
            return None
        self._entries.move_to_end(content)
        return entry[0]

    def hit(self, objects: int, size: int) -> None:
        """Counts objects of `size` bytes together that a task had at hand."""
        self.hits += objects
        self.hit_bytes += size

    def take(self, content: Hashable) -> Any:
        """The value, which is no longer kept, so that its taker may change it; None if it was not kept."""
        if (entry := self._entries.pop(content, None)) is None:
            return None
        value, size = entry
        if content == self._spared:
            self._spared = None
        else:
            self.held_bytes -= size
        return value

    def keep(self, content: Hashable, value: Any, size: int, is_spared: bool = False) -> None:
        """Keeps `value` of `size` bytes and drops what then exceeds the bound; `content` is not None."""
        self.take(content)
        if is_spared or size <= self.bound:
            # Counted first: a time-out may interrupt any line, and must not leave an entry that is not counted.
            self.held_bytes += size
            self._entries[content] = value, size
        if is_spared:
            self._spared = content
            self.held_bytes = sum(bytes_ for name, (_, bytes_) in self._entries.items() if name != content)
        self._drop()

    def clear(self) -> None:
        """Drops everything, as in a new process."""
        self._entries.clear()
        self._spared, self.held_bytes = None, 0

    def _drop(self) -> None:
        while self.held_bytes > self.bound:
            oldest = next((content for content in self._entries if content != self._spared), None)
            if oldest is None:
                self.held_bytes = 0
            else:
                self.take(oldest)


def bound_of(environment: Mapping[str, str]) -> int:
    """Bytes that a process may keep: a share of a Lambda function's memory, or a fixed number on other machines."""
    memory_mb = environment.get(_DEPLOYED)
    return share_of(int(memory_mb)) if memory_mb else _LOCAL_BYTES


def keeps_objects(environment: Mapping[str, str]) -> bool:
    """Whether a process keeps single objects."""
    return _DEPLOYED not in environment


WARM = WarmCache(bound_of(os.environ), keeps_objects(os.environ))
"""What this process keeps."""
