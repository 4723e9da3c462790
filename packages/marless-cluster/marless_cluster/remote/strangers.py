"""Connections to a driver that have not proved the token yet. They must not keep workers out."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

# So many may wait at once. If all places are taken, a new connection replaces an older connection after a short wait.
_PLACES, _PAUSE_S = 128, 0.005
# So soon a peer has to have begun.
_FIRST_WORDS_S = 3.0


class Stranger:
    """A peer of this address that is at its first words. Its turn ends with the `timeout`."""

    def __init__(self, address: str, timeout: asyncio.Timeout, until: float) -> None:
        self.address, self.timeout, self._until = address, timeout, until
        self.has_begun = False

    def begins(self) -> None:
        """Its first words were right, and it gets the rest of its time."""
        self.has_begun = True
        if not self.timeout.expired():
            self.timeout.reschedule(self._until)


class Strangers:
    """The peers that have not proved themselves yet. Each has `patience_s`, most of it only once it has begun to
    speak."""

    def __init__(self, patience_s: float, places: int = _PLACES) -> None:
        self._patience_s, self._places = patience_s, places
        self._here: list[Stranger] = []

    @contextmanager
    def enter(self, address: str, timeout: asyncio.Timeout) -> Iterator[Stranger]:
        """Within the block the peer has a place, and its time ends with the `timeout`."""
        now = asyncio.get_running_loop().time()
        timeout.reschedule(now + min(self._patience_s, _FIRST_WORDS_S))
        stranger = Stranger(address, timeout, now + self._patience_s)
        self._here.append(stranger)
        try:
            yield stranger
        finally:
            if stranger in self._here:
                self._here.remove(stranger)

    async def make_room(self) -> None:
        """If all places are taken, the address with the most places loses one: of its first stranger that is silent, or
        else of its first. Waits a little, because a peer that dials all the time would keep the driver busy."""
        if len(self._here) < self._places:
            return
        places = Counter(stranger.address for stranger in self._here)
        longest = min(self._here, key=lambda stranger: (-places[stranger.address], stranger.has_begun))
        self._here.remove(longest)
        if not longest.timeout.expired():
            longest.timeout.reschedule(0)
        await asyncio.sleep(_PAUSE_S)
