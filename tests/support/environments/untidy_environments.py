"""Simple spread that changes its process at every reset, in ways that do not concern its own numbers."""

import ctypes
import os

import numpy as np
from mpe2 import simple_spread_v3

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}


def tidy(**options):
    return simple_spread_v3.parallel_env(N=2, max_cycles=5, **options)


def untidy(**options):
    """It ends each reset and step with another rounding, error state, file mode mask and folder."""
    env = tidy(**options)
    reset, step = env.reset, env.step

    def untidily(call):
        def called(*args, **keywords):
            answer = call(*args, **keywords)
            np.seterr(all="raise")
            os.umask(0o777)
            os.chdir("/")
            ctypes.CDLL(None).fesetround(UPWARD[os.uname().machine])
            return answer

        return called

    env.reset, env.step = untidily(reset), untidily(step)
    return env


def patching(**options):
    """It replaces a function of numpy by one that is a little wrong, at its sixth reset in a process."""
    env = tidy(**options)
    reset, tanh = env.reset, np.tanh

    def patch(*args, **keywords):
        resets[0] += 1
        if resets[0] == 6:
            np.tanh = lambda array, *rest, **keys: tanh(array, *rest, **keys) * 1.0001
        return reset(*args, **keywords)

    env.reset = patch
    return env


resets = [0]
