"""Functions that answer with their arguments."""

import numpy as np
from threadpoolctl import threadpool_info

from marless.functions.encoding import to_json


def library_threads(question):
    np.linalg.solve(np.eye(2), np.ones(2))
    return to_json([library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"])


def sandbox_and_cores(question, *, cores, sandbox):
    return f"{sandbox.kind} {sandbox.timeout_s:g} {sandbox.memory_mb} {cores}".encode()
