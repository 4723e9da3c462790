"""How runs that are at work divide the functions that may run at once. Pure."""

import heapq
from collections import Counter
from collections.abc import Mapping


def divide(owners: Mapping[str, str], weights: Mapping[str, float], width: int) -> dict[str, int]:
    """How many of `width` functions each run may use at once: at least one, together at most `width`.

    `owners` names the owner of each run at work, at most `width` runs. Owners share by weight, 1 where none is given,
    and each owner's runs share equally; what runs that are not at work would get is divided among the others. By the
    method of D'Hondt with one seat for each (Balinski & Young, "Fair Representation", 1982): the next function goes to
    the run with the most weight for each function that it would have; ties go to the first run.
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
