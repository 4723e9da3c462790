"""Lists of seeds as users write them."""

import re
from collections.abc import Sequence

from marless.coordinator.config.schema import ConfigError

_MOST = 10_000


def seeds_of(text: str | Sequence[int]) -> list[int]:
    """Return ``1-3,7`` as 1, 2, 3, 7, and a list unchanged, without repetitions. Raises `ConfigError`."""
    if not isinstance(text, str):
        return list(dict.fromkeys(text))
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= _MOST:
            raise ConfigError(f"{text!r} is not a list of seeds such as 1-10 or 1,2,5")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))
