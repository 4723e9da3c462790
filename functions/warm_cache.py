"""The data that a process keeps between tasks of any runs.

A function may be cold at any time, so keeping data only saves reads. Entries are found by hashes of content, never by
the name of a key or of a run. So runs that share a process, even runs of one name, cannot confuse their data.

Every process keeps the data that each of its tasks needs again: a run's dataset and its replay buffer. A process of
this machine also keeps single objects that it read or wrote. A deployed function does not, because chance decides which
of its environments serves a task, and the bill would be unpredictable (docs/decisions/0021).
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
    """Values by content, of at most `bound` bytes in total. Those not used for the longest time are dropped first.

    One entry may be spared from counting and dropping, until another is spared or takes its key. `hits` and `hit_bytes`
    count the objects that were not read from storage. Not safe for several threads.
    """

    def __init__(self, bound: int, keeps_objects: bool = True) -> None:
        self.bound, self.keeps_objects = bound, keeps_objects
        self.hits = self.hit_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._spared: Hashable = None
        self.held_bytes = 0
        """Bytes of all entries but the spared one."""

    def get(self, content: Hashable) -> Any:
        """Return the value, which is now the one used last, or None."""
        if (entry := self._entries.get(content)) is None:
            return None
        self._entries.move_to_end(content)
        return entry[0]

    def hit(self, objects: int, size: int) -> None:
        """Counts objects of `size` bytes together that a task had at hand."""
        self.hits += objects
        self.hit_bytes += size

    def take(self, content: Hashable) -> Any:
        """Take out the value, so that its taker may change it, or return None."""
        if (entry := self._entries.pop(content, None)) is None:
            return None
        value, size = entry
        if content == self._spared:
            self._spared = None
        else:
            self.held_bytes -= size
        return value

    def keep(self, content: Hashable, value: Any, size: int, is_spared: bool = False) -> None:
        """Keep `value` of `size` bytes and drop the oldest entries above the bound. `content` must not be None."""
        self.take(content)
        if is_spared or size <= self.bound:
            # Counted first: a time-out may interrupt any line, and every entry must be counted.
            self.held_bytes += size
            self._entries[content] = value, size
        if is_spared:
            self._spared = content
            self.held_bytes = sum(bytes_ for name, (_, bytes_) in self._entries.items() if name != content)
        self._drop()

    def clear(self) -> None:
        """Drop everything, like in a new process."""
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
    """Return whether a process keeps single objects."""
    return _DEPLOYED not in environment


WARM = WarmCache(bound_of(os.environ), keeps_objects(os.environ))
"""What this process keeps."""
