"""What algorithms that learn from earlier rounds have in common: settings, minibatches, targets, and the nets they use.

Every update draws a minibatch of steps (or of stretches of steps) that all agents took together, at the address
(seed, round, "replay", update): whoever runs a stage of the update draws the same. Mnih et al., "Human-level control
through deep reinforcement learning", 2015.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from msgspec import Meta, structs
from numpy.typing import NDArray

from functions.algorithms.advantages import Flags, LearningSignal, next_values
from functions.algorithms.base import AlgorithmConfig, Context
from functions.algorithms.off_policy import targets
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import look_ahead
from functions.algorithms.rows import members, starts, with_identity
from functions.contract import BadRequest, Team
from functions.data.batch import Batch
from functions.data.replay_buffer import ReplayBuffer
from functions.environments.base import EnvSpec
from functions.nn import recurrent
from functions.nn.mlp import Array
from functions.nn.recurrent import Trace, Weights
from functions.randomness import generator

Rows = NDArray[np.int64]
Count = Annotated[int, Meta(ge=1)]
# What a minibatch has of both where nobody says how large it is; many steps of one episode are much alike.
_STEPS, _STRETCHES = 256, 4
_HUBER = 1.0


class ReplayConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """The settings of all of them; `time_limit` as in Pardo et al., "Time Limits in Reinforcement Learning", 2018."""

    lr: Annotated[float, Meta(gt=0, description="Adam's step")] = 1e-3
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount per environment step")] = 0.9
    updates_per_round: Annotated[
        int, Meta(ge=1, description="optimiser steps per round, each on a minibatch of its own")
    ] = 64
    batch_size: (
        Annotated[int, Meta(ge=1, description="stretches in a minibatch; default: 256 steps, at least 4 stretches")]
        | None
    ) = None
    buffer_size: Annotated[int, Meta(ge=1, description="environment steps that are learned from, the newest")] = 100_000
    tau: Annotated[float, Meta(gt=0, le=1, description="part of the way targets go in an update (Polyak)")] = 0.01
    target_update_interval: (
        Annotated[int, Meta(ge=1, description="updates between copies to the targets, in place of target_rate")] | None
    ) = None
    standardise_rewards: Annotated[bool, Meta(description="divide rewards by their running standard deviation")] = True
    huber_delta: (
        Annotated[
            float,
            Meta(gt=0, description="where the loss turns linear; default: nowhere, or 1 with terminal time limits"),
        ]
        | None
    ) = None
    max_grad_norm: Annotated[float, Meta(gt=0, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[tuple[Count, ...], Meta(min_length=1, description="widths of the hidden layers")] = (64, 64)
    recurrent: Annotated[bool, Meta(description="the last hidden layer remembers (a GRU)")] = False
    sequence_length: (
        Annotated[int, Meta(ge=1, description="steps in a stretch; default: 1, all of a unit where one is not enough")]
        | None
    ) = None
    burn_in: Annotated[int, Meta(ge=0, description="first steps of a stretch that only fill the nets' memory")] = 0
    time_limit: Annotated[
        Literal["bootstrap", "terminal"], Meta(description="value what a time limit cut off, or take it for an end")
    ] = "bootstrap"

    def __post_init__(self) -> None:
        """Raises `ValueError` for a stretch that nothing would be learned from."""
        if self.length is not None and self.burn_in >= self.length:
            raise ValueError(
                f"burn_in is {self.burn_in}, and a sequence has {self.length} steps; set a longer sequence_length"
            )

    @property
    def length(self) -> int | None:
        """Steps in a stretch; None for all of a unit's."""
        return self.sequence_length or (None if self.recurrent else 1)

    def resolved(self, spec: EnvSpec) -> Self:
        """Fills in the size of minibatches, and where the loss turns linear."""
        batch_size = self.batch_size or max(_STRETCHES, _STEPS // (self.length or spec.horizon))
        # An end that nobody sees coming is a jump in one target of many, which would decide the gradient of squares.
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


def drawn(context: Context[M], places: Rows | None = None) -> Context[M]:
    """The context with the update's minibatch as its data: drawn uniformly, or the stretches at `places` ``[B]``.

    Raises `BadRequest` without a replay buffer.
    """
    config, (replay_buffer, length) = context.config, remembered(context)
    assert config.batch_size is not None  # resolved
    size, address = config.batch_size, (context.seed, context.round, "replay", context.update)

    def draw() -> Batch:
        if places is not None:
            return replay_buffer.segments(places, length)
        return replay_buffer.sample(generator(*address), size, length)

    # All groups that learn from the same minibatch share it, stage after stage.
    which = None if places is None else places.tobytes()
    return replace(context, batch=replay_buffer.cached((address, size, length, which), draw))


def remembered(context: Context[MinibatchConfig]) -> tuple[ReplayBuffer, int]:
    """The replay buffer, and the steps of a segment; raises `BadRequest` where nothing can be learned from it."""
    config, replay_buffer = context.config, context.replay_buffer
    if replay_buffer is None:
        raise BadRequest("the algorithm learns from earlier rounds, and there is no replay buffer")
    length = config.length or replay_buffer.steps
    if config.burn_in >= length:
        raise BadRequest(f"algorithm.burn_in is {config.burn_in}, and a sequence has {length} steps")
    return replay_buffer, length


def side_of(spec: EnvSpec, team: Team, group: int) -> list[int]:
    """The agents on the side of a group, ascending; raises `BadRequest` where its members are on several."""
    sides = spec.sides or (0,) * len(spec.agents)
    own = {sides[agent] for agent in members(team, group)}
    if len(own) > 1:
        names = ", ".join(spec.agents[agent] for agent in members(team, group))
        raise BadRequest(f"{names} share networks and are not on one side, so that they have no joint value")
    return [agent for agent, side in enumerate(sides) if side in own]


def groups_of(team: Team, agents: list[int]) -> list[int]:
    """The groups that the agents are in, ascending; the first one keeps what a side has once."""
    return sorted({team.groups[agent] for agent in agents})


def learning_signal(context: Context[ReplayConfig], agents: list[int], team: bool) -> LearningSignal:
    """Of the minibatch, see `LearningSignal.of`; rewards are not standardised yet, and a burn-in does not count."""
    signal = LearningSignal.of(context, agents, team)
    signal.learned[:, : context.config.burn_in] = False
    return signal


def joint_signal(context: Context[ReplayConfig], side: list[int]) -> LearningSignal:
    """Of a side as one ``[T, E]``."""
    return LearningSignal(*(found[0] for found in learning_signal(context, side, team=True)))


class Scaled(NamedTuple):
    """Rewards in the units that values are learned in, of which one is `unit` of reward, `offset` from what networks
    give to values, and the normaliser ``[4]`` with these rewards in it."""

    rewards: Array
    unit: float
    offset: float
    normaliser: Array


def scaled(
    whole: Context[ReplayConfig],
    name: str,
    signal: LearningSignal,
    of: Callable[[Context[ReplayConfig]], LearningSignal],
) -> Scaled:
    """The rewards of a minibatch, of which those of rows that count are taken into the scale.

    `of` gives the same outcome as `signal`, of `whole`, which has all that the round itself played.
    """
    known = RewardScale.of(whole.tensors[f"normaliser/{name}"])
    updated = known.updated(signal.rewards[signal.learned], lambda: _mean_return(whole, of(whole)))
    units = updated.units(whole.config.standardise_rewards)
    return Scaled(signal.rewards / signal.rewards.dtype.type(units.reward), *units, updated.tensor)


def _mean_return(context: Context[ReplayConfig], signal: LearningSignal) -> float:
    """The mean of discounted rewards to the end of an episode, or of what was played, over the rows that count."""
    ended, gamma = context.batch.ended, context.config.gamma
    returns = look_ahead(signal.rewards, signal.terminal, ended, gamma, len(ended)).returns
    return float(returns[signal.learned].mean(dtype=np.float64)) if signal.learned.any() else 0.0


class Shown(NamedTuple):
    """What a group's networks are shown of the minibatch, columns ordered by agent: the steps ``[T, n * E, F]``, what
    stands after cuts ``[n * K, F]``, and where episodes begin ``[T, n * E]``. The first `burn_in` steps only fill the
    networks' memory."""

    now: Array
    after: Array
    begins: Flags
    burn_in: int

    def unroll(self, weights: Weights) -> tuple[Array, Trace]:
        """Outputs ``[T, n * E, out]``, and what `recurrent.backward` needs."""
        return recurrent.unroll(weights, self.now, self.begins, self.burn_in)


def shown(context: Context[ReplayConfig], agents: list[int], now: Sequence[Array], after: Sequence[Array]) -> Shown:
    """Agents' rows ``[T, E, F]`` and ``[K, F]`` side by side, the one-hot identity with them where the team uses it."""
    return Shown(
        np.concatenate([with_identity(context, agent, rows) for agent, rows in zip(agents, now, strict=True)], axis=1),
        np.concatenate([with_identity(context, agent, rows) for agent, rows in zip(agents, after, strict=True)]),
        np.tile(starts(context), (1, len(agents))),
        context.config.burn_in,
    )


def error_for(weights: Weights, error: Array) -> Array:
    """d loss / d outputs ``[T, n * E, out]`` as `recurrent.backward` takes it."""
    return error if weights.cell is not None else error.reshape(-1, error.shape[-1])


def following(
    context: Context[ReplayConfig],
    weights: Weights,
    seen: Shown,
    agents: int,
    outputs: Array | None,
    trace: Trace | None,
) -> Array:
    """Outputs for what was seen after every step ``[n, T, E, out]``, of which `outputs` and `trace` are the steps' own.

    Without memory and in stretches of one step the steps' own are not needed.
    """
    batch = context.batch
    steps, num_envs = batch.ended.shape
    first = None
    if weights.cell is not None and trace is not None:
        # What the nets remembered where the cut was, agent by agent.
        hidden = trace.hidden.reshape(steps, agents, num_envs, -1)
        first = np.concatenate([hidden[batch.cut[:, 0], agent, batch.cut[:, 1]] for agent in range(agents)])
        after = recurrent.forward(weights, seen.after[None], first=first).outputs[0]
    else:
        after = recurrent.forward(weights, seen.after).outputs
    after = after.reshape(agents, -1, after.shape[-1])
    if outputs is None:
        outputs = np.zeros((steps, agents * num_envs, after.shape[-1]), after.dtype)
    return next_values(by_agent(outputs, agents), after, batch.cut)


def legal_next(context: Context[ReplayConfig], agents: list[int]) -> Flags | None:
    """Which actions are legal after each step ``[n, T, E, actions]``, of agents of one class; None for all.

    Who is gone does nothing any more, which is the first action, as it is remembered.
    """
    batch, left = context.batch, living_next(context, agents)
    if batch.masks is None or batch.cut_masks is None:
        if left.all():
            return None
        actions = next(kind.actions for kind in context.spec.classes if agents[0] in kind.agents)
        legal = np.ones((*left.shape, actions), np.bool_)
    else:
        own = np.stack([batch.of(batch.masks, agent) for agent in agents])
        after = np.stack([batch.of(batch.cut_masks, agent) for agent in agents])
        legal = np.ones_like(own)
        legal[:, :-1] = own[:, 1:]
        legal[:, batch.cut[:, 0], batch.cut[:, 1]] = after
    legal[~left] = np.arange(legal.shape[-1]) == 0
    return legal


def living_next(context: Context[ReplayConfig], agents: list[int]) -> Flags:
    """Who is there after each step ``[n, T, E]``."""
    return np.asarray(context.batch.alive[agents] & ~context.batch.terminated[agents])


def by_agent(columns: Array, agents: int) -> Array:
    """``[T, n * E, ...]`` as ``[n, T, E, ...]``."""
    steps, wide = columns.shape[:2]
    return columns.reshape(steps, agents, wide // agents, *columns.shape[2:]).swapaxes(0, 1)


def by_column(rows: Array) -> Array:
    """``[n, T, E, ...]`` as ``[T, n * E, ...]``."""
    agents, steps, num_envs = rows.shape[:3]
    return rows.swapaxes(0, 1).reshape(steps, agents * num_envs, *rows.shape[3:])


def chased(context: Context[ReplayConfig], online: dict[str, Array], part: str, name: str) -> dict[str, Array]:
    """The target network `<part>/<name>` after this update, for the online network's tensors by their own names."""
    prefix, config = f"{part}/{name}/", context.config
    old = {key.removeprefix(prefix): context.tensors[key] for key in context.tensors if key.startswith(prefix)}
    if config.target_update_interval is None:
        new = targets.polyak(online, old, config.tau)
    else:
        done = context.round * config.updates_per_round + context.update + 1
        new = targets.hard(online, old, done, config.target_update_interval)
    return {f"{prefix}{key}": array.astype(old[key].dtype, copy=False) for key, array in new.items()}


def unprefixed(tensors: dict[str, Array], prefix: str) -> dict[str, Any]:
    """The tensors under `<prefix>/` by the rest of their names."""
    return {key.removeprefix(f"{prefix}/"): array for key, array in tensors.items() if key.startswith(f"{prefix}/")}
