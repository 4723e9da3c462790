"""Rollouts that are read from a dataset, in place of rollouts that are played."""

import numpy as np

from functions.contract import Recorded, SampleReply, SampleTask, WholeTask
from functions.data.dataset import RETURN, column_count, columns_at, rollout
from functions.data.trajectory import rollout_prefix
from functions.serving import Tensors


def recorded_rollouts(
    task: SampleTask | WholeTask, recorded: Recorded, dataset: Tensors, rounds_later: int = 0
) -> tuple[Tensors, SampleReply]:
    """The task's rollouts `rounds_later` rounds after its first; pure.

    The bytes of a rollout do not depend on other rollouts. The returns are those of the recorded episodes.
    """
    first = recorded.first + rounds_later * len(task.rollouts) * task.num_envs
    tensors: Tensors = {}
    returns: list[float] = []
    by_rollout: list[tuple[float, ...]] = []
    for number in task.rollouts:
        columns = columns_at(task.seed, first + number * task.num_envs, task.num_envs, column_count(dataset))
        found = rollout(dataset, columns)
        ended = found.pop(RETURN)[:, found["ended"]]
        returns += ended.sum(axis=0).tolist()
        by_rollout.append(tuple(ended.sum(axis=1).tolist()))
        prefix = rollout_prefix(number)
        tensors |= {f"{prefix}/{name}": np.ascontiguousarray(array) for name, array in found.items()}
    env_steps = task.rollout_length * task.num_envs * len(task.rollouts)
    reply = SampleReply(env_steps=env_steps, returns=tuple(returns), agent_returns=tuple(by_rollout), env_metrics={})
    return tensors, reply
