"""Lines of machines that have joined a driver, and have left it."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from marless.functions.encoding import to_json
from marless.infra.local.census import FILE, in_words, slots_in_words

# Changes within so many seconds share a line.
_PAUSE_S = 5.0
# So many machines are named in a line.
_NAMED = 4


class Census:
    """The machines that the user has been told of."""

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
    path = folder / FILE
    with suppress(OSError):
        if not slots:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_bytes(to_json(slots))
        partial.replace(path)


def _change(host: str, before: int, now: int) -> str:
    if before == now:
        return ""
    return f"{host} has left" if not now else f"{host} has {'' if before else 'joined with '}{slots_in_words(now)}"
