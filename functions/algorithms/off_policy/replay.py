"""Learning from the replay buffer: its settings, the minibatch of an update, and the learning signal in it.

Every update draws a minibatch of steps, or of segments of steps, that all agents took together, at the address (seed,
round, "replay", update): every function that runs a stage of the update draws the same one. Mnih et al., "Human-level
control through deep reinforcement learning", 2015.
"""

from dataclasses import replace
from typing import Annotated, Literal, Protocol, Self, TypeVar

import numpy as np
from msgspec import Meta, structs
from numpy.typing import NDArray

from functions.algorithms.advantages import LearningSignal
from functions.algorithms.rows import members
from functions.algorithms.specification import NetworkConfig
from functions.algorithms.stage import Context
from functions.bounds import LARGEST, LARGEST_STEP, MOST_ENV_STEPS, MOST_LAYERS, MOST_STEPS, MOST_UNITS, MOST_UPDATES
from functions.contract import BadRequest, Team
from functions.data.batch import Batch
from functions.data.replay_buffer import ReplayBuffer
from functions.environments.base import EnvSpec
from functions.randomness import generator

Indices = NDArray[np.int64]
Count = Annotated[int, Meta(ge=1, le=MOST_UNITS)]
# The default size of a minibatch in steps, and its fewest segments, because steps of one episode are correlated.
_STEPS, _SEGMENTS = 256, 4
_HUBER = 1.0


class ReplayConfig(NetworkConfig, frozen=True, kw_only=True):
    """The settings of replay; `time_limit` as in Pardo et al., "Time Limits in Reinforcement Learning", 2018."""

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP, description="Adam's step")] = 1e-3
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount per environment step")] = 0.9
    updates_per_round: Annotated[
        int, Meta(ge=1, le=MOST_UPDATES, description="optimiser steps per round, each on a minibatch of its own")
    ] = 64
    batch_size: (
        Annotated[
            int,
            Meta(ge=1, le=MOST_UNITS, description="segments in a minibatch; default: 256 steps, at least 4 segments"),
        ]
        | None
    ) = None
    buffer_size: Annotated[
        int, Meta(ge=1, le=MOST_ENV_STEPS, description="newest environment steps that minibatches are drawn from")
    ] = 100_000
    tau: Annotated[float, Meta(gt=0, le=1, description="step of the targets towards the networks (Polyak)")] = 0.01
    target_update_interval: (
        Annotated[
            int, Meta(ge=1, le=MOST_UPDATES, description="updates between copies to the targets, in place of tau")
        ]
        | None
    ) = None
    standardise_rewards: Annotated[bool, Meta(description="divide rewards by their running standard deviation")] = True
    huber_delta: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=LARGEST,
                description="where the loss turns linear; default: nowhere, or 1 with terminal time limits",
            ),
        ]
        | None
    ) = None
    max_grad_norm: Annotated[float, Meta(gt=0, le=LARGEST, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, le=LARGEST, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[
        tuple[Count, ...], Meta(min_length=1, max_length=MOST_LAYERS, description="widths of the hidden layers")
    ] = (64, 64)
    recurrent: Annotated[bool, Meta(description="the last hidden layer is recurrent (a GRU)")] = False
    layer_norm: Annotated[bool, Meta(description="hidden layers are normalised (LayerNorm)")] = False
    sequence_length: (
        Annotated[
            int,
            Meta(
                ge=1, le=MOST_STEPS, description="steps in a segment; default: 1, or a whole rollout if 1 is too short"
            ),
        ]
        | None
    ) = None
    burn_in: Annotated[
        int, Meta(ge=0, le=MOST_STEPS, description="first steps of a segment that only fill the networks' hidden state")
    ] = 0
    time_limit: Annotated[
        Literal["bootstrap", "terminal"], Meta(description="value what a time limit cut off, or take it for an end")
    ] = "bootstrap"

    def __post_init__(self) -> None:
        """Raises `ValueError` for a segment that is all burn-in."""
        if self.length is not None and self.burn_in >= self.length:
            raise ValueError(
                f"burn_in is {self.burn_in}, and a sequence has {self.length} steps; set a longer sequence_length"
            )

    @property
    def length(self) -> int | None:
        """Steps in a segment; None for a whole rollout."""
        return self.sequence_length or (None if self.recurrent else 1)

    def resolved(self, spec: EnvSpec) -> Self:
        """Fills in the size of minibatches and the Huber loss's threshold."""
        batch_size = self.batch_size or max(_SEGMENTS, _STEPS // (self.length or spec.horizon))
        # A termination that observations do not predict gives an outlier target, which would dominate a squared loss.
        huber_delta = _HUBER if self.huber_delta is None and self.time_limit == "terminal" else self.huber_delta
        return structs.replace(self, batch_size=batch_size, huber_delta=huber_delta)

    def incompatibility(self, steps: int) -> str:
        played = f"the {steps} that an actor plays"
        if self.length is not None and steps % self.length:
            return f"sequence_length: sequences of {self.length} steps do not fill {played}; set a divisor of {steps}"
        if self.burn_in >= (self.length or steps):
            return f"burn_in: {self.burn_in} steps leave none to learn from of {played}; set fewer"
        return ""

    @property
    def replayed_steps(self) -> int:
        return self.buffer_size


class MinibatchConfig(Protocol):
    """The settings of minibatches from the replay buffer; `batch_size` is None only before they are resolved."""

    @property
    def batch_size(self) -> int | None: ...

    @property
    def length(self) -> int | None: ...

    @property
    def burn_in(self) -> int: ...


M = TypeVar("M", bound=MinibatchConfig)


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
    return replace(context, batch=replay_buffer.cached((address, size, length, which), draw))


def require_replay_buffer(context: Context[MinibatchConfig]) -> tuple[ReplayBuffer, int]:
    """The replay buffer, and the steps of a segment; raises `BadRequest` without a buffer or steps after burn-in."""
    config, replay_buffer = context.config, context.replay_buffer
    if replay_buffer is None:
        raise BadRequest("the algorithm learns from earlier rounds, and there is no replay buffer")
    length = config.length or replay_buffer.steps
    if config.burn_in >= length:
        raise BadRequest(f"algorithm.burn_in is {config.burn_in}, and a sequence has {length} steps")
    return replay_buffer, length


def side_of(spec: EnvSpec, team: Team, group: int) -> list[int]:
    """The agents on the side of a group, ascending; raises `BadRequest` if its members are on several."""
    sides = spec.sides or (0,) * len(spec.agents)
    own = {sides[agent] for agent in members(team, group)}
    if len(own) > 1:
        names = ", ".join(spec.agents[agent] for agent in members(team, group))
        raise BadRequest(f"{names} share networks and are not on one side, so that they have no joint value")
    return [agent for agent, side in enumerate(sides) if side in own]


def groups_of(team: Team, agents: list[int]) -> list[int]:
    """The groups that the agents are in, ascending; the first one stores the state that a side has once."""
    return sorted({team.groups[agent] for agent in agents})


def learning_signal(context: Context[ReplayConfig], agents: list[int], team: bool) -> LearningSignal:
    """`LearningSignal.of` the minibatch, without its burn-in; rewards are not standardised yet."""
    signal = LearningSignal.of(context, agents, team)
    signal.learned[:, : context.config.burn_in] = False
    return signal


def joint_signal(context: Context[ReplayConfig], side: list[int]) -> LearningSignal:
    """The learning signal of a side's joint value ``[T, E]``."""
    return LearningSignal(*(arrays[0] for arrays in learning_signal(context, side, team=True)))
