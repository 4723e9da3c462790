"""The task `fragile/signal`: `toy/signal`, but its function is killed in one of four invocations."""

import os
import signal

from marless.functions.environments import toy

_CHANCE = 0.25


def make(task, num_envs):
    """Make the environments of `toy/signal`. In a function the process may end instead, like a kill by the platform."""
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ and os.urandom(1)[0] < 256 * _CHANCE:
        os.kill(os.getpid(), signal.SIGKILL)
    return toy.make(task, num_envs)
