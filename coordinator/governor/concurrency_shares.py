"""Divide the functions that may run at once among active runs. This is a pure function."""

import heapq
from collections import Counter
from collections.abc import Mapping


def divide(owners: Mapping[str, str], weights: Mapping[str, float], width: int) -> dict[str, int]:
    """Return the functions, of `width`, that each run may use at once: at least one, together at most `width`.

    `owners` names the owner of each active run, at most `width` runs. Owners share by weight, by default 1, and each
    owner's runs share equally. Shares of inactive runs are divided among the others. It uses the method of D'Hondt with
    one seat for each (Balinski & Young, "Fair Representation", 1982). The next function goes to the run with the most
    weight per function. Ties go to the first run.
    """
    runs = Counter(owners.values())
    run_weights = {run: weights.get(owner, 1.0) / runs[owner] for run, owner in owners.items()}
    shares = dict.fromkeys(owners, 1)
    queue = [(-run_weights[run] / 2, place, run) for place, run in enumerate(owners)]
    heapq.heapify(queue)
    for _ in range(width - len(shares) if shares else 0):
        _, place, run = queue[0]
        shares[run] += 1
        heapq.heapreplace(queue, (-run_weights[run] / (shares[run] + 1), place, run))
    return shares
