"""The description of an environment as rows of a table: agents, spaces, state, episodes and seed."""

import math
from collections.abc import Iterator, Sequence

from marless.coordinator.core.sides import sides_of
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.spaces import space_types
from marless.reports.digits import figure
from marless.reports.text import counted
from marless.testing.environment_trial import Trial

Row = tuple[str, str]

# So many names of agents, or parts of an observation, are listed.
_LISTED = 6


def spec_rows(spec: EnvSpec, horizon_source: str) -> Iterator[Row]:
    """Yield the agents, the spaces of each class, the state, and the longest episode."""
    yield "agents", f"{counted(len(spec.agents), 'agent')}: {_listed(spec.agents)}"
    for side in sides_of(spec):
        yield f"side {side.number}", f"{side.name}: {_listed([spec.agents[agent] for agent in side.agents])}"
    if not spec.sides:
        yield "sides", "one: all agents are a team" if len(spec.agents) > 1 else "one agent: not a team"
    for kind in spec.classes:
        if len(spec.classes) > 1:
            yield "class", f"{kind.name}: {_listed([spec.agents[agent] for agent in kind.agents])}"
        yield "observes", _observed(kind)
        yield "entities", _entities(kind)
        yield "acts", _acted(kind)
    total = sum(kind.observation_size * len(kind.agents) for kind in spec.classes)
    without = f"none; a central critic sees the observations of all agents, {total:,} numbers"
    yield (
        "state",
        f"{spec.state_size:,} numbers from the environment, for a central critic" if spec.state_size else without,
    )
    yield "turns", "agents take turns: one agent acts in a step" if spec.turns else "all agents act in every step"
    if horizon_source:
        yield "horizon", f"an episode has at most {counted(spec.horizon, 'step')} ({horizon_source})"


def trial_rows(spec: EnvSpec, trial: Trial) -> Iterator[Row]:
    """Yield the results of random play: observed numbers, masks, episodes and the seed."""
    for kind, (low, high) in zip(spec.classes, trial.values, strict=True):
        yield "values", f"{_prefix(spec, kind)}observed numbers are from {figure(low)} to {figure(high)} in random play"
    if any(len(block.columns) > 1 for kind in spec.classes if kind.entities for block in kind.entities.blocks):
        yield "equality", "random play cannot prove that the entities of a block are equal"
    if not spec.masked:
        yield "masks", "none: every action is always legal"
    for kind, (fewest, most) in zip(spec.classes, trial.legal, strict=False):
        legal = f"{fewest} to {most}" if fewest < most else f"{most}"
        yield "masks", f"{_prefix(spec, kind)}{legal} of {kind.actions} actions were legal in random play"
    yield "episodes", _episodes(trial)
    if trial.returns:
        mean = sum(trial.returns) / len(trial.returns)
        yield "return", f"{figure(mean)} on average: the sum of the rewards of all agents in an episode"
    if trial.early:
        yield "exits", "some agents left before their episode ended"
    yield "seed", _seed(trial)


def _seed(trial: Trial) -> str:
    if trial.unseeded or trial.leftover:
        later = " after earlier episodes" if trial.leftover and not trial.unseeded else ""
        return f"the same seed does not give the same episodes{later}: see the warning"
    start = "; all seeds begin with the same observations" if trial.same_start else ""
    return (
        f"the same seed gives the same episodes ({counted(trial.steps, 'step')}, also in a new"
        f" environment and after other episodes){start}"
    )


def _episodes(trial: Trial) -> str:
    if not trial.lengths:
        return f"no episode ended in {counted(trial.steps, 'step')} of random play"
    shortest, longest = min(trial.lengths), max(trial.lengths)
    lengths = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
    ends = {"the rules": len(trial.lengths) - trial.truncated, "the time limit": trial.truncated}
    how = " and ".join(f"{cause} ended {count:,}" for cause, count in ends.items() if count)
    if 0 in ends.values():
        how = f"{max(ends, key=lambda cause: ends[cause])} ended all"
    return f"{counted(len(trial.lengths), 'episode')} of random play, {lengths} steps long; {how}"


def _prefix(spec: EnvSpec, kind: AgentClass) -> str:
    return f"{kind.name}: " if len(spec.classes) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[: _LISTED - 1])}, ... {names[-1]}"


def _observed(kind: AgentClass) -> str:
    size = counted(kind.observation_size, "number")
    if kind.spaces is None:
        return size
    text = space_text(kind.spaces.observation)
    return text if text.startswith(size) else f"{size}: {text}"


def _entities(kind: AgentClass) -> str:
    if kind.entities is None:
        return "not described"
    blocks = [f"{counted(len(block.columns), block.name)} x {block.features}" for block in kind.entities.blocks]
    return f"{', '.join(blocks) or 'none'}; own {len(kind.entities.own)}"


def _acted(kind: AgentClass) -> str:
    if kind.continuous:
        return f"{counted(kind.actions, 'number')}{_bounds(kind.low, kind.high)}"
    if kind.branches:
        return f"{len(kind.branches)} choices at once, of {_listed([str(count) for count in kind.branches])} actions"
    return f"one of {counted(kind.actions, 'action')}"


def space_text(space: space_types.Space) -> str:
    """Return a space in a few words: ``6 x 6 numbers from 0 to 1``."""
    match space:
        case space_types.BoxSpace(dtype="uint8", low=(0,), high=(255,)):
            return f"image of {_shape(space.shape)}, divided by 255"
        case space_types.BoxSpace():
            return f"{_numbers(space.shape)}{_bounds(space.low, space.high)}"
        case space_types.DiscreteSpace():
            return f"one of {space.n:,}"
        case space_types.MultiDiscreteSpace():
            return f"{_shape(space.shape)} choices of {_listed([str(count) for count in space.counts])}"
        case space_types.MultiBinarySpace():
            return f"{_shape(space.shape)} numbers that are 0 or 1"
        case space_types.DictSpace() | space_types.TupleSpace():
            keys = space.keys if isinstance(space, space_types.DictSpace) else range(1, len(space.spaces) + 1)
            return _listed([f"{key} ({space_text(part)})" for key, part in zip(keys, space.spaces, strict=True)])
    return _numbers(space.shape)


def _numbers(shape: Sequence[int]) -> str:
    return f"{_shape(shape)} number{'s' * (math.prod(shape) != 1)}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(f"{length:,}" for length in shape) or "1"


def _bounds(low: Sequence[float | None], high: Sequence[float | None]) -> str:
    (lowest, *lower), (highest, *higher) = dict.fromkeys(low), dict.fromkeys(high)
    if lower or higher or lowest is None or highest is None:
        return ""
    return f" from {lowest:g} to {highest:g}"
