"""``python -m benchmarks.resources.speed_up SIZE CORES``: the solver's seconds, on one core and on more."""

import json
import statistics
import sys
import time

from benchmarks.resources.served import solve

_REPETITIONS = 7


def seconds(size: int, cores: int) -> float:
    """The median of some solutions."""
    taken = []
    for _ in range(_REPETITIONS):
        begins = time.perf_counter()
        solve(str(size).encode(), cores)
        taken.append(time.perf_counter() - begins)
    return statistics.median(taken)


if __name__ == "__main__":
    size, most = map(int, sys.argv[1:])
    print(json.dumps([seconds(size, cores) for cores in range(1, most + 1)]))
