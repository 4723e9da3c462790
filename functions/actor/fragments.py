"""Rollouts shorter than an episode: episodes that a round does not finish go on in the next.

What is unfinished is stored by rollout: under `<rollout>/running` ``[E, N]`` what the episodes have returned so far,
and under `<rollout>/environment/` what `Resumable.save` returns. Environments that are saved as seeds and actions are
also kept in this process. Where the rollout's next task comes to another process, or this one is killed, the episodes
are played again, and the bytes are the same.
"""

import atexit
import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.actor.rollout import Rollout, collect_on
from functions.contract import Behaviour, RegroupTask, SampleTask, WholeTask
from functions.data.trajectory import named, rollout_prefix
from functions.environments import registry
from functions.environments.base import EnvTask, Observation
from functions.environments.resumable import Resumable, SeparateCopies, resumable
from functions.policies import Policy
from functions.randomness import generator

Tensors = dict[str, NDArray[Any]]

_RUNNING, _ENVIRONMENT = "running", "environment/"
# How many environments a process keeps, of all runs. A Lambda function's memory is chosen for those of one task.
_MOST = 0 if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else 256

Playing = SampleTask | WholeTask | RegroupTask
"""The tasks that collect rollouts."""


class KeptEnvironments:
    """Environments of rollouts, at most `most` or those of one task; the ones used last stay.

    They are found by run and rollout, and the one who takes them compares their state with the one that it needs
    (`SeparateCopies.resume`), so runs of one name cannot go on with each other's.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, int], tuple[EnvTask, SeparateCopies]] = OrderedDict()

    def take(self, task: Playing, rollout: int) -> SeparateCopies | None:
        """The rollout's environments, which are kept no more; None, and there is room for new ones, if it has none."""
        of_task, environment = self._kept.pop((task.run, rollout), (None, None))
        if environment is not None and of_task == task.environment and environment.num_envs == task.num_envs:
            return environment
        if environment is not None:
            environment.close()
        self._make_room(task)
        return None

    def keep(self, task: Playing, rollout: int, environment: SeparateCopies) -> None:
        """Keeps environments that `take` returned or made room for."""
        self._make_room(task)
        self._kept[task.run, rollout] = task.environment, environment

    def close(self) -> None:
        """Closes all."""
        while self._kept:
            self._close_oldest()

    def _make_room(self, task: Playing) -> None:
        most = max(self._most, task.num_envs * len(task.rollouts)) - task.num_envs
        while sum(environment.num_envs for _, environment in self._kept.values()) > most:
            self._close_oldest()

    def _close_oldest(self) -> None:
        _, (_, environment) = self._kept.popitem(last=False)
        environment.close()


KEPT = KeptEnvironments(_MOST)
"""What this process keeps."""
atexit.register(KEPT.close)


def collect_fragment(
    task: Playing,
    weights: Mapping[str, NDArray[Any]],
    round_: int,
    rollout: int,
    behaviour: Behaviour,
    unfinished: Mapping[str, NDArray[Any]],
) -> tuple[Rollout, Tensors]:
    """A rollout that goes on with its `unfinished` episodes, or begins with new ones, and what it leaves unfinished.

    All random numbers of the round depend on (seed, round, rollout) only. Raises what `registry.make` raises, and
    `EnvironmentFault` for an environment that does not repeat its episodes.
    """
    prefix = f"{rollout_prefix(rollout)}/"
    saved = named(unfinished, prefix)
    environment: Resumable | None = KEPT.take(task, rollout)
    if environment is None:
        environment = resumable(lambda num_envs: registry.make(task.environment, num_envs), task.num_envs)
    with ExitStack() as opened:
        opened.callback(environment.close)
        seen = _first(environment, saved, generator(task.seed, round_, "environment", rollout))
        policy = Policy(environment.spec, task.team, weights)
        played = collect_on(
            environment, policy, task.rollout_length, task.seed, round_, rollout, behaviour, seen, saved.get(_RUNNING)
        )
        left = {f"{_ENVIRONMENT}{name}": array for name, array in environment.save().items()}
        if isinstance(environment, SeparateCopies):
            opened.pop_all()
            KEPT.keep(task, rollout, environment)
    return played, {f"{prefix}{name}": array for name, array in {_RUNNING: played.running, **left}.items()}


def _first(environment: Resumable, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
    """The observation with which the round begins."""
    return environment.resume(named(saved, _ENVIRONMENT), rng) if saved else environment.reset(rng)
