"""The resources of this benchmark: one only takes time, the other computes."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

# An eigenvalue problem of this order takes about a millisecond.
_ORDER = 48
_PIECES = 16


def wait(question: bytes) -> bytes:
    """Takes the seconds that the question says."""
    time.sleep(float(question))
    return b"waited"


def solve(question: bytes, cores: int) -> bytes:
    """Return the largest real part of the eigenvalues of many random matrices: it tells the stability of the linear
    systems.

    The question has their number. numpy's solver computes outside of the interpreter's lock, so threads share the
    matrices."""
    count = max(1, round(float(question)))
    matrices = np.random.default_rng(count).standard_normal((count, _ORDER, _ORDER))
    pieces = np.array_split(matrices, min(_PIECES, count)) if cores > 1 else [matrices]
    with threadpool_limits(1), ThreadPoolExecutor(cores) as threads:  # numpy would use threads itself, too
        largest = max(threads.map(lambda piece: float(np.linalg.eigvals(piece).real.max()), pieces))
    return repr(largest).encode()
