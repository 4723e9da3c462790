"""Simple spread with steps of `WAIT_S` seconds, as if a simulator ran elsewhere."""

import os
import time

from mpe2 import simple_spread_v3


def parallel_env(**options):
    """The environment of `mpe2` with three agents and 25 steps. Each step waits first."""
    env = simple_spread_v3.parallel_env(N=3, max_cycles=25, **options)
    step, pause_s = env.step, float(os.environ["WAIT_S"])

    def waiting(actions):
        time.sleep(pause_s)
        return step(actions)

    env.step = waiting
    return env
