"""The machines that have joined a driver."""

from collections import Counter
from pathlib import Path

from marless.functions.encoding import Undecodable, from_json

FILE = "connected.json"


def noted(folder: Path) -> Counter[str]:
    """The machines that a driver has noted there."""
    try:
        return Counter(from_json((folder / FILE).read_bytes(), dict[str, int]))
    except (OSError, Undecodable):
        return Counter()


def in_words(slots: Counter[str]) -> str:
    """Describe the numbers of machines and slots."""
    machines = f"{len(slots):,} machine{'s' * (len(slots) != 1)}"
    return f"{machines} with {slots_in_words(slots.total())} connected" if slots else "no worker is connected"


def slots_in_words(count: int) -> str:
    """A number of slots, such as ``4 slots``."""
    return f"{count:,} slot{'s' * (count != 1)}"
