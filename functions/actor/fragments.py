"""Rollouts shorter than an episode: episodes that a round does not finish continue in the next round.

Unfinished episodes are stored by rollout: their returns so far under `<rollout>/running` ``[E, N]``, and the result of
`Resumable.save` under `<rollout>/environment/`. Environments that are saved as seeds and actions are also kept in this
process. If another process gets the rollout's next task, or this process is killed, the episodes are played again, and
the bytes are the same.
"""

import atexit
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from numpy.typing import NDArray

from marless.functions.actor.rollout import Rollout, collect
from marless.functions.data.trajectory import rollout_prefix, tensors_below
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.resumable import Resumable, SeparateEnvironments, resumable
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Behaviour, SampleTask
from marless.functions.messages.learner import RegroupTask, WholeTask
from marless.functions.policies import Policy
from marless.functions.randomness import generator

Tensors = dict[str, NDArray[Any]]

_RUNNING, _ENVIRONMENT = "running", "environment/"
# How many environments a process keeps, of all runs: ten rollouts of 64, and as many again. The memory of a Lambda
# function is chosen for the environments of one rollout, and it keeps no more.
_MOST = 0 if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else 1280

Playing = SampleTask | WholeTask | RegroupTask
"""The tasks that collect rollouts."""


class _Kept(NamedTuple):
    """Environments, the env task and their number, and the round that used them last."""

    task_and_num_envs: tuple[EnvTask, int]
    round: int
    environment: SeparateEnvironments


class KeptEnvironments:
    """Environments of rollouts: at most `most`, or the environments of one rollout.

    To make room, environments of other runs are dropped first. Then go environments that the run did not use in its
    last round, and then the new ones. A process that dropped the oldest of rollouts that come in turn would find none
    again.

    They are found by run and rollout. The taker compares their state with the state that it needs
    (`SeparateEnvironments.resume`), so runs of one name cannot continue with each other's environments.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[str, int], _Kept] = {}

    def take(self, task: Playing, rollout: int) -> SeparateEnvironments | None:
        """Take out the rollout's environments, or make room for new ones and return None."""
        before = self._kept.pop((task.address.run, rollout), None)
        if before is not None and before.task_and_num_envs == (task.sampling.environment, task.sampling.num_envs):
            return before.environment
        if before is not None:
            before.environment.close()
        if self._most < task.sampling.num_envs:
            self.close()
        return None

    def keep(self, task: Playing, rollout: int, round_: int, environment: SeparateEnvironments) -> None:
        """Keeps or closes the environments of a rollout of round `round_`."""
        run, sampling = task.address.run, task.sampling
        for key, entry in sorted(self._kept.items(), key=lambda item: (item[0][0] == run, item[1].round)):
            if self._num_envs + sampling.num_envs <= self._most:
                break
            if key[0] != run or entry.round < round_ - 1 or self._most < sampling.num_envs:
                self._kept.pop(key).environment.close()
        if not self._kept or self._num_envs + sampling.num_envs <= self._most:
            self._kept[run, rollout] = _Kept((sampling.environment, sampling.num_envs), round_, environment)
        else:
            environment.close()

    def close(self) -> None:
        """Closes all."""
        while self._kept:
            self._kept.popitem()[1].environment.close()

    @property
    def _num_envs(self) -> int:
        return sum(entry.task_and_num_envs[1] for entry in self._kept.values())


KEPT = KeptEnvironments(_MOST)
"""What this process keeps."""
atexit.register(KEPT.close)


def collect_fragment(
    task: Playing,
    weights: Mapping[str, NDArray[Any]],
    round_: int,
    rollout: int,
    behaviour: Behaviour,
    open_episodes: Mapping[str, NDArray[Any]],
) -> tuple[Rollout, Tensors]:
    """Collect a rollout that continues its `open_episodes` or begins new ones. Returns also its unfinished episodes.

    All random numbers of the round depend on (seed, round, rollout) only. Raises the errors of `registry.make`,
    `EnvironmentFault` for an environment that does not repeat its episodes, and `BadRequest` for recurrent policies.
    """
    prefix, sampling, seed = f"{rollout_prefix(rollout)}/", task.sampling, task.address.seed
    own_tensors = tensors_below(open_episodes, prefix)
    environment: Resumable | None = KEPT.take(task, rollout)
    if environment is None:
        environment = resumable(lambda num_envs: registry.make(sampling.environment, num_envs), sampling.num_envs)
    with ExitStack() as resources:
        resources.callback(environment.close)
        rng, saved = generator(seed, round_, "environment", rollout), tensors_below(own_tensors, _ENVIRONMENT)
        observation = environment.resume(saved, rng) if own_tensors else environment.reset(rng)
        policy, running = _policy(task, environment, weights), own_tensors.get(_RUNNING)
        rollout_ = collect(
            environment, policy, sampling.rollout_length, seed, round_, rollout, behaviour, observation, running
        )
        environment_state = {f"{_ENVIRONMENT}{name}": array for name, array in environment.save().items()}
        if isinstance(environment, SeparateEnvironments):
            resources.pop_all()
            KEPT.keep(task, rollout, round_, environment)
    return rollout_, {
        f"{prefix}{name}": array for name, array in {_RUNNING: rollout_.running, **environment_state}.items()
    }


def _policy(task: Playing, environment: Resumable, weights: Mapping[str, NDArray[Any]]) -> Policy:
    policy = Policy(environment.spec, task.team, weights)
    if policy.recurrent:
        raise BadRequest(
            f"actors.rollout_length is {task.sampling.rollout_length}, less than an episode, and a policy is recurrent:"
            f" its memory is not carried to the next round; set at least {environment.spec.horizon}"
        )
    return policy
