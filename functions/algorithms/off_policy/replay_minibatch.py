"""Learning from the replay buffer: the minibatch of an update, and the learning signal in it.

Every update draws a minibatch of steps, or of segments of steps, that all agents took together. The address is (seed,
round, "replay", update), so every function that runs a stage of the update draws the same one. Mnih et al.,
"Human-level control through deep reinforcement learning", 2015.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import LearningSignal
from marless.functions.algorithms.off_policy.specs import ReplayConfig
from marless.functions.algorithms.stage import Context
from marless.functions.data.batch import Batch
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.errors import BadRequest
from marless.functions.randomness import generator

Indices = NDArray[np.int64]


M = TypeVar("M", bound=ReplayConfig)


def with_minibatch(context: Context[M], indices: Indices | None = None) -> Context[M]:
    """The context with the update's minibatch as its data: drawn uniformly, or the segments `indices` ``[B]``.

    Raises `BadRequest` without a replay buffer.
    """
    config, (replay_buffer, length) = context.config, require_replay_buffer(context)
    assert config.batch_size is not None  # resolved
    size, address = config.batch_size, (context.seed, context.round, "replay", context.update)

    def draw() -> Batch:
        if indices is not None:
            return replay_buffer.segments(indices, length)
        return replay_buffer.sample(generator(*address), size, length)

    # All groups that learn from the same minibatch share it, stage after stage.
    which = None if indices is None else indices.tobytes()
    return replace(context, batch=replay_buffer.memoise((address, size, length, which), draw))


def require_replay_buffer(context: Context[ReplayConfig]) -> tuple[ReplayBuffer, int]:
    """The replay buffer, and the steps of a segment. Raises `BadRequest` without a buffer or steps after burn-in."""
    config, replay_buffer = context.config, context.replay_buffer
    if replay_buffer is None:
        raise BadRequest("the algorithm learns from earlier rounds, and there is no replay buffer")
    length = config.length or replay_buffer.steps
    if config.burn_in >= length:
        raise BadRequest(f"algorithm.burn_in is {config.burn_in}, and a sequence has {length} steps")
    return replay_buffer, length


def learning_signal(context: Context[ReplayConfig], agents: list[int], team: bool) -> LearningSignal:
    """`LearningSignal.of` the minibatch, without its burn-in and before rewards are standardised."""
    signal = LearningSignal.of(context, agents, team)
    signal.loss_mask[:, : context.config.burn_in] = False
    return signal


def joint_signal(context: Context[ReplayConfig], side: list[int]) -> LearningSignal:
    """The learning signal of a side's joint value ``[T, E]``."""
    return LearningSignal(*(arrays[0] for arrays in learning_signal(context, side, team=True)))
