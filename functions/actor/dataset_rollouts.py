"""Rollouts that are read from a dataset, in place of rollouts that are played."""

import numpy as np

from marless.functions.actor.fragments import Playing
from marless.functions.data.dataset import RETURN, column_count, columns_at, rollout
from marless.functions.data.trajectory import rollout_prefix
from marless.functions.messages.actor import Recorded, SampleReply
from marless.functions.serving import Tensors


def recorded_rollouts(
    task: Playing, recording: Recorded, dataset: Tensors, rounds_later: int
) -> tuple[Tensors, SampleReply]:
    """The task's rollouts `rounds_later` rounds after its first. The function is pure.

    A rollout's bytes ignore other rollouts. The reply has `returns` by recorded episode, `agent_returns` summed by
    rollout.
    """
    sampling = task.sampling
    first = recording.first + rounds_later * len(sampling.rollouts) * sampling.num_envs
    tensors: Tensors = {}
    returns: list[float] = []
    by_rollout: list[tuple[float, ...]] = []
    for number in sampling.rollouts:
        columns = columns_at(
            task.address.seed, first + number * sampling.num_envs, sampling.num_envs, column_count(dataset)
        )
        arrays = rollout(dataset, columns)
        episode_returns = arrays.pop(RETURN)[:, arrays["ended"]]
        returns += episode_returns.sum(axis=0).tolist()
        by_rollout.append(tuple(episode_returns.sum(axis=1).tolist()))
        prefix = rollout_prefix(number)
        tensors |= {f"{prefix}/{name}": np.ascontiguousarray(array) for name, array in arrays.items()}
    env_steps = sampling.rollout_length * sampling.num_envs * len(sampling.rollouts)
    reply = SampleReply(env_steps=env_steps, returns=tuple(returns), agent_returns=tuple(by_rollout), env_metrics={})
    return tensors, reply
