"""Lines of machines that have joined a driver, and have left it."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from marless.functions.encoding import Undecodable, from_json, to_json

# Changes within so many seconds share a line.
_PAUSE_S = 5.0
# So many machines are named in a line.
_NAMED = 4
_FILE = "connected.json"


class Census:
    """Which machines the user has been told of."""

    def __init__(self, pause_s: float = _PAUSE_S) -> None:
        self._told, self._pause_s, self._quiet_until = Counter[str](), pause_s, 0.0

    def news(self, slots: Counter[str]) -> list[str]:
        """A line where machines have other `slots` than the user knows of, by name, unless there was one just now."""
        now = time.monotonic()
        if slots == self._told or now < self._quiet_until:
            return []
        changes = [_change(host, self._told[host], slots[host]) for host in sorted({*slots, *self._told})]
        changes = [change for change in changes if change]
        more = f" and {len(changes) - _NAMED:,} more" if len(changes) > _NAMED else ""
        self._told, self._quiet_until = slots, now + self._pause_s
        return [f"{', '.join(changes[:_NAMED])}{more}; {in_words(slots)}"]


def note(folder: Path, slots: Counter[str]) -> None:
    """Keeps there for other programs which machines are connected. A disk that refuses the file does not stop the
    run."""
    path = folder / _FILE
    with suppress(OSError):
        if not slots:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_bytes(to_json(slots))
        partial.replace(path)


def noted(folder: Path) -> Counter[str]:
    """The machines that a driver has noted there."""
    try:
        return Counter(from_json((folder / _FILE).read_bytes(), dict[str, int]))
    except (OSError, Undecodable):
        return Counter()


def in_words(slots: Counter[str]) -> str:
    """How many machines with how many slots there are."""
    machines = f"{len(slots):,} machine{'s' * (len(slots) != 1)}"
    return f"{machines} with {_slots(slots.total())} connected" if slots else "no worker is connected"


def _change(host: str, before: int, now: int) -> str:
    if before == now:
        return ""
    return f"{host} has left" if not now else f"{host} has {'' if before else 'joined with '}{_slots(now)}"


def _slots(count: int) -> str:
    return f"{count:,} slot{'s' * (count != 1)}"
