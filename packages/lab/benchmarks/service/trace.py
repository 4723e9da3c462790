"""The submissions of a day in a lab, in ten minutes. They are stored in trace.jsonl, before anything is measured.

`python -m benchmarks.service.trace` draws them and writes the file.
"""

import math
import random
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks.pool import workloads

FILE = Path(__file__).with_name("trace.jsonl")
OWNERS = 32
LENGTH_S = 600.0
# Submissions arrive as a Poisson process. Few owners submit most of them, and few runs have most rounds (Pareto).
_RATE, _TAIL, _LEAST_ROUNDS, _MOST_ROUNDS = 0.5, 1.5, 4, 120
# A run that computes has so many rounds for each round of one that waits. Both then take about as long with a slot.
_COMPUTING_ROUNDS = 5
_WAITING, _COMPUTING = workloads.waiting(), workloads.computing()


class Arrival(msgspec.Struct, frozen=True):
    """A submission.

    Attributes:
        at_s: seconds from the first moment of the day
        owner: number of the owner, from 0
        rounds: rounds of the run, if it waits
        waits: whether the environments of the run wait in the mixed trace. In the other trace they always do
        setting: name of the settings of a run that waits
    """

    at_s: float
    owner: int
    rounds: int
    waits: bool
    setting: str


def drawn(seed: int = 4) -> list[Arrival]:
    """Draw the submissions of a day."""
    draw, at_s, result = random.Random(seed), 0.0, list[Arrival]()
    shares = [1 / math.sqrt(number + 1) for number in range(OWNERS)]
    names = [*_WAITING.settings]
    while (at_s := at_s + draw.expovariate(_RATE)) < LENGTH_S:
        [owner] = draw.choices(range(OWNERS), shares)
        rounds = min(_MOST_ROUNDS, math.ceil(_LEAST_ROUNDS * draw.paretovariate(_TAIL)))
        result.append(Arrival(round(at_s, 2), owner, rounds, draw.random() < 0.5, draw.choice(names)))
    return result


def stored() -> list[Arrival]:
    """Return the submissions of the file."""
    return [msgspec.json.decode(line, type=Arrival) for line in FILE.read_bytes().splitlines()]


def settings(arrival: Arrival, number: int, is_mixed: bool) -> Mapping[str, object]:
    """Return the settings of a run. `number` is its seed."""
    if arrival.waits or not is_mixed:
        return {**_WAITING.settings[arrival.setting], "stop.rounds": arrival.rounds, "seed": number}
    return {**_COMPUTING.settings["default"], "stop.rounds": _COMPUTING_ROUNDS * arrival.rounds, "seed": number}


if __name__ == "__main__":
    FILE.write_bytes(b"".join(msgspec.json.encode(arrival) + b"\n" for arrival in drawn()))
