"""Speed of sampling a rollout on one core (environment, policy, sampling, recording), compared with raw `mpe2`."""

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments import registry as environments
from marless.functions.environments.base import EnvTask
from marless.functions.environments.task_names import EXACT_PHYSICS
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

ENGINE = EnvTask(name="mpe/simple_spread")
EXACT = EnvTask(name="mpe/simple_spread", options={EXACT_PHYSICS: True})
ADAPTER = EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env")
# The default rollout size is the first.
ROLLOUT_NUM_ENVS = (64, 160, 320, 640)
ADAPTER_NUM_ENVS = 16
# mallopt(3): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Freed memory may return to the system after every rollout or stay.
# This is chance, and worth a fifth of the time of a rollout of 640. Workers leave it to chance.
MEMORY_STAYS = ((-1, 2**28), (-3, 2**28))

Round = Callable[[], int]


def untrained_policy(task: EnvTask, kernels: bool = False) -> Policy:
    """Policies of round 0, one per agent, which act in numpy or by kernels."""
    spec = environments.spec(task)
    mappo = algorithms.algorithm("mappo")
    config = algorithms.configuration(mappo, {}).resolved(spec)
    team = Team(groups=tuple(range(len(spec.agents))))
    code = algorithms.implementation(mappo)
    groups = (code.initialise(spec, team, config, 1, group) for group in team.groups)
    team = replace(team, kernels=kernels)
    return Policy(spec, team, {name: array for tensors in groups for name, array in tensors.items()})


def rollout(task: EnvTask, num_envs: int, kernels: bool = False) -> Round:
    """Samples one episode per environment and returns the number of environment steps."""
    policy = untrained_policy(task, kernels)

    def play() -> int:
        environment = environments.make(task, num_envs)
        try:
            collect(environment, policy, environment.spec.horizon, seed=1, round_=1, rollout=0)
            return num_envs * environment.spec.horizon
        finally:
            environment.close()

    return play


def adapter_stepping() -> Round:
    """Steps our adapter at random, without policies and recording, to measure its overhead over `mpe2`."""
    environment = environments.make(ADAPTER, ADAPTER_NUM_ENVS)
    rng = np.random.default_rng(1)
    agents, horizon = len(environment.spec.agents), environment.spec.horizon
    environment.reset(rng)

    def play() -> int:
        for _ in range(horizon):
            environment.step((rng.integers(5, size=(ADAPTER_NUM_ENVS, agents)),))
        return ADAPTER_NUM_ENVS * horizon

    return play


def raw_stepping(episodes: int = 16) -> Round:
    """Steps `mpe2`'s `parallel_env` at random. Actions are drawn beforehand, which favours `mpe2`."""
    from mpe2 import simple_spread_v3

    environment = simple_spread_v3.parallel_env()
    horizon = 25
    drawn = np.random.default_rng(1).integers(5, size=(episodes, horizon, 3)).tolist()
    actions = [[dict(zip(environment.possible_agents, step, strict=True)) for step in episode] for episode in drawn]

    def play() -> int:
        for seed, episode in enumerate(actions):
            environment.reset(seed=seed)
            for step in episode:
                environment.step(step)
        return episodes * horizon

    return play


def rate(play: Round, seconds: float) -> float:
    """Environment steps per second, over at least `seconds`."""
    steps, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        steps += play()
    return steps / passed


def main() -> None:
    """Prints one JSON object: rates by name, one per repetition. Each repetition measures every subject once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.actor", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each subject in each repetition")
    args = parser.parse_args()
    for parameter, value in MEMORY_STAYS if sys.platform == "linux" else ():
        ctypes.CDLL(None).mallopt(parameter, value)
    subjects = {f"rollout of {num_envs}": rollout(ENGINE, num_envs) for num_envs in ROLLOUT_NUM_ENVS}
    subjects |= {f"rollout of {num_envs} by kernels": rollout(EXACT, num_envs, True) for num_envs in ROLLOUT_NUM_ENVS}
    subjects |= {
        "adapter stepping": adapter_stepping(),
        "adapter rollout": rollout(ADAPTER, ADAPTER_NUM_ENVS),
        "mpe2": raw_stepping(),
    }
    for play in subjects.values():
        play()
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(args.repetitions):
        for name, play in subjects.items():
            rates[name].append(rate(play, args.seconds))
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
