"""The actor function: collects trajectories with the given policies into one object, without torch."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from marless.functions.actor.dataset_rollouts import recorded_rollouts
from marless.functions.actor.fragments import Playing, collect_fragment
from marless.functions.actor.match import earlier_agents, mean_score, meet
from marless.functions.actor.rollout import InBlocks, Rollout, collect, collect_side_by_side
from marless.functions.data.origins import origin, policies_sha256
from marless.functions.data.trajectory import EARLIER, rollout_prefix
from marless.functions.environments import native_spaces, registry
from marless.functions.environments.base import EnvironmentFault, EnvSpec, EnvTask, VectorEnvironment
from marless.functions.environments.spec_check import require_playable
from marless.functions.episode_returns import Episodes, summary, whole_episodes
from marless.functions.errors import BadRequest
from marless.functions.isolation import process_guard
from marless.functions.messages.actor import (
    Behaviour,
    DescribeReply,
    DescribeTask,
    Match,
    SampleReply,
    SampleTask,
    Sampling,
)
from marless.functions.policies import SAMPLE, Policy
from marless.functions.serving import Objects, Output, Tensors, read, serve
from marless.functions.storage_port import Blobs


class Played(NamedTuple):
    """Trajectories, the returns of their episodes, and the unfinished episodes of rollouts that are fragments."""

    trajectories: Tensors
    reply: SampleReply
    open_episodes: Tensors


# Environments of all rollouts that are stepped together. More would not be faster.
ROWS = 1024


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `DescribeTask` or `SampleTask`."""
    return serve(body, blobs, {DescribeTask: describe, SampleTask: sample})


def describe(task: DescribeTask, blobs: Blobs) -> tuple[Objects, DescribeReply]:
    """The env task's spec, returned by the actor because only actors need the environments installed.

    Raises `EnvironmentFault` for one that contradicts itself: policies trained by it could not be read.
    """
    spec = _env_spec(task.environment)
    require_playable(task.evaluated, spec, _env_spec)
    return [], DescribeReply(spec=spec)


def _env_spec(environment: EnvTask) -> EnvSpec:
    spec, remark = registry.describe(environment)
    if remark:
        process_guard.remark(remark)
    try:
        native_spaces.require_fitting(spec, environment.last_action)
    except ValueError as error:
        raise EnvironmentFault(f"{environment.name}, its description: {error}") from error
    return spec


def sample(task: SampleTask, blobs: Blobs) -> tuple[Objects, SampleReply]:
    """Collects the task's rollouts into one object, which `marless.functions.serving` stores."""
    sampler, weights = Rollouts(task, blobs), read(blobs, task.policies)
    origin_ = origin(task, weights, task.address.round)
    if task.match:
        opponents = read(blobs, task.match.policies)
        outcome = play_match(task, task.match, weights, opponents)
        origin_ = replace(origin_, opponents=policies_sha256(opponents, task.match.team))
    else:
        outcome = sampler.play(weights, task.address.round, task.behaviour)
    output = Output("trajectory", outcome.trajectories, (origin_,))
    return [*unfinished_object(task, outcome.open_episodes), output], outcome.reply


def unfinished_object(task: Playing, open_episodes: Tensors) -> Objects:
    """The object of the unfinished episodes, if the rollouts are fragments."""
    return [Output("unfinished", open_episodes)] if task.sampling.fragments else []


class Rollouts:
    """A task's rollouts, round after round. The objects that they read (`Sampling.reads`) are fetched once."""

    def __init__(self, task: Playing, blobs: Blobs) -> None:
        recording = task.sampling.recorded
        self._task = task
        self._dataset = read(blobs, (recording.dataset,), lasting=True) if recording else {}
        self.open_episodes = read(blobs, task.sampling.unfinished)

    def play(self, weights: Tensors, round_: int, behaviour: Behaviour) -> Played:
        """Return the rollouts of one round: from the dataset, or else by the policies in `weights`. See `play` for
        errors."""
        if recording := self._task.sampling.recorded:
            rounds = round_ - self._task.address.round
            return Played(*recorded_rollouts(self._task, recording, self._dataset, rounds), {})
        outcome = play(self._task, weights, round_, behaviour, self.open_episodes)
        self.open_episodes = outcome.open_episodes
        return outcome


def play(
    task: Playing, weights: Tensors, round_: int, behaviour: Behaviour = SAMPLE, open_episodes: Tensors | None = None
) -> Played:
    """The task's rollouts in round `round_` with the policies in `weights`, on from the `open_episodes`.

    The bytes of a rollout do not depend on other rollouts. Raises `BadRequest` if agents do not support `behaviour`, or
    rollouts are shorter than an episode but not fragments.
    """
    if not task.sampling.fragments:
        return Played(*_trajectories(task, list(_rollouts(task, weights, round_, behaviour))), {})
    rollouts, rest_of_episodes = [], Tensors()
    for number in task.sampling.rollouts:
        rollout, rest_of_rollout = collect_fragment(task, weights, round_, number, behaviour, open_episodes or {})
        rollouts.append(rollout)
        rest_of_episodes |= rest_of_rollout
    return Played(*_trajectories(task, rollouts), rest_of_episodes)


def play_match(task: SampleTask, match: Match, newest: Tensors, earlier: Tensors) -> Played:
    """Play like `play`, with the policies in `newest` on one side and in `earlier` on all others, and add the score.

    Raises the `BadRequest` of `play` and `meet`.
    """
    task, weights = meet(task, match, registry.spec(task.sampling.environment), newest, earlier)
    rollouts = list(_rollouts(task, weights, task.address.round, task.behaviour))
    tensors, reply = _trajectories(task, rollouts)
    earlier_masks = {f"{rollout_prefix(number)}/{EARLIER}": earlier_agents(match) for number in task.sampling.rollouts}
    episodes = [rollout.episodes for rollout in rollouts]
    score = mean_score(match, [part.agent_returns() for part in episodes], whole_episodes(episodes))
    return Played({**tensors, **earlier_masks}, replace(reply, score=score), {})


def _trajectories(task: Playing, rollouts: Sequence[Rollout]) -> tuple[Tensors, SampleReply]:
    """Return the tensors of the rollouts, and their results. Raises `EnvironmentFault` for too long episodes."""
    episodes = [rollout.episodes for rollout in rollouts]
    tensors = {name: array for rollout in rollouts for name, array in rollout.tensors.items()}
    env_steps = task.sampling.rollout_length * task.sampling.num_envs * len(task.sampling.rollouts)
    return tensors, _results(env_steps, episodes, whole=not task.sampling.fragments)


def _results(env_steps: int, episodes: Sequence[Episodes], whole: bool) -> SampleReply:
    """Return the results of the rollouts' episodes. `whole`: rollouts began with a reset and cover whole episodes."""
    episode_weights = [part.weights() if whole else np.ones(len(part.agent_returns())) for part in episodes]
    returns, _, env_metrics = summary(episodes, whole_episodes(episodes) if whole else None)
    sums = [
        (part.agent_returns() * weights[:, None]).sum(axis=0)
        for part, weights in zip(episodes, episode_weights, strict=True)
    ]
    uneven = whole and (
        any((weights != 1).any() for weights in episode_weights)
        or len({len(weights) for weights in episode_weights}) > 1
    )
    return SampleReply(
        env_steps=env_steps,
        returns=returns,
        agent_returns=tuple(tuple(of_rollout.tolist()) for of_rollout in sums),
        weights=tuple(tuple(weights.tolist()) for weights in episode_weights) if uneven else (),
        env_metrics=env_metrics,
    )


def _rollouts(task: Playing, weights: Tensors, round_: int, behaviour: Behaviour) -> Iterator[Rollout]:
    waiting = task.sampling.rollouts
    while waiting:
        with closing(_environment(task.sampling, len(waiting))) as environment:
            _require_whole_episode(task.sampling, environment)
            policy = Policy(environment.spec, task.team, weights)
            together = environment.num_envs // task.sampling.num_envs
            rollouts, waiting = waiting[:together], waiting[together:]
            steps, seed = task.sampling.rollout_length, task.address.seed
            if together > 1 and isinstance(environment, InBlocks):
                yield from collect_side_by_side(environment, policy, steps, seed, round_, rollouts, behaviour)
            else:
                yield collect(environment, policy, steps, seed, round_, rollouts[0], behaviour)


def _environment(sampling: Sampling, rollouts: int) -> VectorEnvironment:
    environment = registry.make(sampling.environment, sampling.num_envs)
    together = min(rollouts, ROWS // sampling.num_envs)
    if together < 2 or not isinstance(environment, InBlocks):
        return environment
    environment.close()
    return registry.make(sampling.environment, sampling.num_envs * together)


def _require_whole_episode(sampling: Sampling, environment: VectorEnvironment) -> None:
    if sampling.rollout_length < environment.spec.horizon:
        raise BadRequest(
            f"actors.rollout_length is {sampling.rollout_length}, shorter than an episode of"
            f" {sampling.environment.name} ({environment.spec.horizon} steps)"
        )
