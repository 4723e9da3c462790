"""Rounds for tests of loggers: 100 steps and 2 seconds each, with values that are exact in float32."""

import msgspec

from marless.coordinator.core.state import Evaluated, RoundLine
from marless.loggers.base import LoggedRun
from marless.loggers.registry import logger

AGENTS = ("agent_0", "agent_1")


def line(number, **changes):
    made = RoundLine(
        round=number,
        env_steps=100 * number,
        seconds=2.0 * number,
        dollars=0.25 * number,
        rollouts=3,
        learners=4,
        groups=2,
        invocations=7,
        episodes=8,
        return_mean=-3.0 * number,
        return_sd=0.5,
        agent_returns=(-1.0 * number, -2.0 * number),
        env_metrics={"win": 0.25},
        metrics={"policy/entropy/g00": 1.5},
        diversity=0.125,
    )
    return msgspec.structs.replace(made, **changes)


def played(number, *returns):
    return Evaluated(round=number, env_steps=100 * number, returns=returns)


def write(name, folder, new, artefacts=(), **settings):
    writer = logger(name).open(logged(folder, **settings))
    for point in new:
        writer.write(point)
    writer.finish(artefacts, "finished")
    writer.close()


def logged(folder, **settings):
    return LoggedRun("first", "0123456789abcdef", folder, 1_700_000_000.0, "", {"seed": 1, **settings})
