"""Asynchronous successive halving: of the settings that reached a rung, the best part continues.

The method is ASHA with promotion (Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020). Here
the unit is a setting with all its seeds. Settings are compared by their means over the same seeds, which removes the
common effect of the seeds. It is pure, and a study records every decision, so that it replays.
"""

import math
from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple


class Decided(NamedTuple):
    """The settings that continue, and the settings that are stopped."""

    promoted: tuple[str, ...]
    stopped: tuple[str, ...]


def decide(
    scores: Mapping[str, Mapping[int, float]], keep: float, coming: int, settled_names: frozenset[str] = frozenset()
) -> Decided:
    """Decide which settings continue at a rung, by their returns of each seed. Settings with `settled_names` stay.

    `coming`: how many settings may still arrive. While settings may still arrive, a setting continues if it is among
    the best ``floor(keep * n)`` of the n present, and the others wait. Afterwards at least one continues and the others
    are stopped. All settings have the same seeds. Ties go to the first name.
    """
    ranking = sorted(scores, key=lambda name: (-fmean(scores[name].values()), name))
    best = math.floor(keep * len(ranking) + 1e-9)
    if not coming and ranking:
        best = max(1, best)
    going = tuple(name for name in ranking[:best] if name not in settled_names)
    stopped_names = () if coming else tuple(name for name in ranking[best:] if name not in settled_names)
    return Decided(going, stopped_names)
