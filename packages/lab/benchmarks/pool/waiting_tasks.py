"""Four tasks with steps that wait, as if a simulator ran elsewhere:
``pettingzoo:benchmarks.pool.waiting_tasks:<name>``.

The wait of a step comes from a lognormal distribution, at the address of its episode's seed and its number. So every
run waits equally long on every machine and at every time. Copies that are stepped one after the other wait together.
"""

import os
import time
from typing import Any

import numpy as np
from mpe2 import simple_reference_v3, simple_speaker_listener_v4, simple_spread_v3, simple_tag_v3

# The median of a wait, seconds, and the standard deviation of its logarithm.
MEDIAN_S = float(os.environ.get("WAIT_MEDIAN_S", "0.02"))
SIGMA = 0.8


def spread(**options: Any) -> Any:
    """Three agents that cover three landmarks."""
    return _waiting(simple_spread_v3.parallel_env(N=3, max_cycles=25, **options))


def tag(**options: Any) -> Any:
    """Three chase one."""
    return _waiting(simple_tag_v3.parallel_env(max_cycles=25, **options))


def reference(**options: Any) -> Any:
    """Two that tell each other where to go."""
    return _waiting(simple_reference_v3.parallel_env(max_cycles=25, **options))


def speaker(**options: Any) -> Any:
    """One speaks, one goes."""
    return _waiting(simple_speaker_listener_v4.parallel_env(max_cycles=25, **options))


# The number of the step that copies take now, and when the first of them began it.
_now = [0, 0.0]


def _waiting(env: Any) -> Any:
    step, reset = env.step, env.reset
    address = [0, 0]

    def reset_at(seed: int | None = None, options: Any = None) -> Any:
        address[:] = [address[0] if seed is None else seed, 0]
        return reset(seed=seed, options=options)

    def step_late(actions: Any) -> Any:
        address[1] += 1
        if _now[0] != address[1]:
            _now[:] = [address[1], time.monotonic()]
        normal = np.random.default_rng(address).standard_normal()
        time.sleep(max(0.0, _now[1] + MEDIAN_S * float(np.exp(SIGMA * normal)) - time.monotonic()))
        return step(actions)

    env.reset, env.step = reset_at, step_late
    return env
