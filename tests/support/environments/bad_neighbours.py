"""Simple spread with steps that harm the machine, each in its way, from the fourth step on."""

import os
import time
from pathlib import Path

from mpe2 import simple_spread_v3

kept = []


def crash(**options):
    return _with(lambda: os._exit(3), **options)


def sleep(**options):
    return _with(lambda: time.sleep(600), **options)


def leak(**options):
    return _with(lambda: kept.append(bytearray(os.urandom(1)) * (6 << 20)), **options)


def hog(**options):
    return _with(lambda: kept.append(b"x" * (64 << 30)), **options)


def fill(**options):
    """Files grow in the current folder until the disk takes no more."""

    def write():
        with Path(f"filled-{os.getpid()}").open("ab") as file:
            file.write(bytes(8 << 20))

    return _with(write, **options)


def _with(harm, **options):
    env = simple_spread_v3.parallel_env(N=2, max_cycles=5, **options)
    step, steps = env.step, [0]

    def harmful(actions):
        steps[0] += 1
        if steps[0] > 3:
            harm()
        return step(actions)

    env.step = harmful
    return env
