"""A short trial of an environment by random actions: its episodes, its speed, and whether a seed repeats them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvironmentFault,
    EnvSpec,
    FloatArray,
    Observation,
    RewardArray,
    Step,
    Unsupported,
    VectorEnvironment,
)
from marless.functions.environments.spaces.observations import ObservationCodec, observation_codec
from marless.functions.environments.spaces.space_types import BoxSpace
from marless.testing.entity_ranges import EntityRanges
from marless.testing.environments import checked_steps

# Full episodes in a trial, and its shortest and longest time.
_EPISODES, _LEAST_S, _MOST_S = 3, 0.3, 2.0
# Fewer episodes differ by chance. Three positions in each of two places are apart in one case of ten.
_COMPARED_EPISODES = 10
_SEED = 20
# Sums of a zero-sum game differ from 0 only by rounding.
_ZERO = 1e-6
# Single precision and the units of an image round numbers.
_TOLERANCE = 1e-4

Faults = (AssertionError, EnvironmentFault, Unsupported)
Fingerprint = dict[str, int]


@dataclass
class Trial:
    """The results of one play, over all environments."""

    steps: int = 0
    """The number of calls of `step`. A call steps all environments."""
    lengths: list[int] = field(default_factory=list)
    """The lengths of the episodes that ended."""
    truncated: int = 0
    """The number of episodes that a time limit ended."""
    returns: list[float] = field(default_factory=list)
    """The sum of all rewards, by episode that ended."""
    early: bool = False
    """Whether an agent left before its episode ended."""
    rewarded: bool = False
    zero_sum: bool = True
    """Whether the rewards of all agents sum to 0 in every step."""
    values: list[tuple[float, float]] = field(default_factory=list)
    """The lowest and the highest observed number, by class."""
    legal: list[tuple[int, int]] = field(default_factory=list)
    """The lowest and the highest number of legal actions, by class. It is empty without masks."""
    outside: str = ""
    """A sentence about the first number outside its space, or ''."""
    apart: str = ""
    """A sentence about two entities of a block with unlike numbers, or ''."""
    fault: str = ""
    """The error that ended the trial, or ''."""
    seconds: float = 0.0
    """The time in the environment's own `step`."""
    unseeded: str = ""
    """The first difference of a new environment with the same seed and actions, or ''."""
    leftover: str = ""
    """The first difference of the same environment after earlier episodes, or ''."""
    same_start: bool = False
    """Whether another seed gives the same first observations."""


class _Clocked:
    def __init__(self, environment: VectorEnvironment) -> None:
        self._environment = environment
        self.spec, self.num_envs, self.seconds = environment.spec, environment.num_envs, 0.0

    def reset(self, rng: np.random.Generator) -> Observation:
        """Begin a new episode in every copy."""
        return self._environment.reset(rng)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Step the environment."""
        start = time.perf_counter()
        step = self._environment.step(actions)
        self.seconds += time.perf_counter() - start
        return step

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


def hold(environment: VectorEnvironment, make: Callable[[], VectorEnvironment] | None = None) -> Trial:
    """Play the environment once and close it. Errors and broken promises are in `Trial.fault`.

    With `make`, play it a second time with the same seed, and play a new environment from `make` with that seed.
    """
    trial, clocked = Trial(), _Clocked(environment)
    try:
        first = list(_watched(clocked, trial))
        if make is not None:
            trial.leftover = _difference(first, _fingerprints(clocked, trial.steps))
            trial.same_start = _fingerprints(clocked, 0, _SEED + 1)[0] == first[0]
            with closing(make()) as other:
                trial.unseeded = _difference(first, _fingerprints(other, trial.steps))
    except Faults as error:
        trial.fault = str(error)
    finally:
        environment.close()
    return trial


def _watched(environment: _Clocked, trial: Trial) -> Iterator[Fingerprint]:
    watcher, start = _Watcher(environment.spec, trial, environment.num_envs), time.monotonic()
    for output in checked_steps(environment, _SEED):
        watcher.look(output)
        trial.seconds = environment.seconds
        yield _fingerprint(output, environment.spec)
        lasted = time.monotonic() - start
        if lasted > _MOST_S or (lasted > _LEAST_S and trial.steps >= _EPISODES * environment.spec.horizon):
            break
    watcher.compare_entities()


def _fingerprints(environment: VectorEnvironment, steps: int, seed: int = _SEED) -> list[Fingerprint]:
    outputs = islice(checked_steps(environment, seed), steps + 1)
    return [_fingerprint(output, environment.spec) for output in outputs]


def _fingerprint(output: Observation | Step, spec: EnvSpec) -> Fingerprint:
    observation = output.observation if isinstance(output, Step) else output
    hashes = {}
    for c, kind in enumerate(spec.classes):
        for place, agent in enumerate(kind.agents):
            name = f"agent '{spec.agents[agent]}'"
            hashes[f"the observation of {name}"] = hash(observation.values[c][:, place].tobytes())
            if observation.masks is not None:
                hashes[f"the mask of {name}"] = hash(observation.masks[c][:, place].tobytes())
            if isinstance(output, Step):
                hashes[f"the reward of {name}"] = hash(output.rewards[:, agent].tobytes())
    if observation.state is not None:
        hashes["the state"] = hash(observation.state.tobytes())
    if isinstance(output, Step):
        hashes["the end of the episode"] = hash(output.ended.tobytes() + output.terminated.tobytes())
    return hashes


def _difference(one: Sequence[Fingerprint], other: Sequence[Fingerprint]) -> str:
    """Return the first difference of two plays, such as ``the reward of agent 'a' in step 3``, or ''."""
    for number, (left, right) in enumerate(zip(one, other, strict=True)):
        if left != right:
            what = next(name for name in left if left[name] != right[name])
            return f"{what} in {f'step {number}' if number else 'the reset'}"
    return ""


class _Watcher:
    def __init__(self, spec: EnvSpec, trial: Trial, copies: int) -> None:
        self._spec, self._trial = spec, trial
        self._lengths, self._returns = np.zeros(copies, np.int64), np.zeros(copies)
        self._ranges = [
            [EntityRanges(block) for block in kind.entities.blocks] if kind.entities else [] for kind in spec.classes
        ]
        self._codecs = [
            None if kind.spaces is None else observation_codec(kind.spaces.plain()["observation"])
            for kind in spec.classes
        ]
        trial.values = [(np.inf, -np.inf)] * len(spec.classes)

    def look(self, output: Observation | Step) -> None:
        """Enter the first observation or a step."""
        if isinstance(output, Step):
            self._trial.steps += 1
            self._look_at_rewards(output.rewards)
            self._look_at_ends(output)
            if output.final is not None:
                self._look_at_observation(output.final, output.final.alive & output.ended[:, None])
            output = output.observation
        self._look_at_observation(output, output.alive)

    def compare_entities(self) -> None:
        """Enter the first two entities with unlike numbers. A few episodes differ by chance and show nothing."""
        if len(self._trial.lengths) >= _COMPARED_EPISODES:
            self._trial.apart = next(filter(None, (entities.difference() for entities in chain(*self._ranges))), "")

    def _look_at_observation(self, observation: Observation, alive: BoolArray) -> None:
        for c, kind in enumerate(self._spec.classes):
            members, codec = alive[:, kind.agents], self._codecs[c]
            numbers = observation.values[c][members]
            low, high = self._trial.values[c]
            self._trial.values[c] = float(numbers.min(initial=low)), float(numbers.max(initial=high))
            for entities in self._ranges[c]:
                entities.look(numbers)
            if not self._trial.outside and codec is not None:
                self._trial.outside = self._outside(kind, codec, observation.values[c], members)
        if observation.masks is not None:
            self._look_at_masks(observation.masks, alive)

    def _look_at_rewards(self, rewards: RewardArray) -> None:
        sums = rewards.sum(axis=1)
        self._returns += sums
        self._trial.rewarded |= bool(rewards.any())
        self._trial.zero_sum &= bool(np.abs(sums).max() <= _ZERO * max(1.0, float(np.abs(rewards).max())))

    def _look_at_ends(self, step: Step) -> None:
        self._lengths += 1
        self._trial.early |= bool((step.terminated.any(axis=1) & ~step.ended).any())
        self._trial.truncated += int(step.truncated.sum())
        self._trial.lengths += self._lengths[step.ended].tolist()
        self._trial.returns += self._returns[step.ended].tolist()
        self._lengths[step.ended] = 0
        self._returns[step.ended] = 0.0

    def _look_at_masks(self, masks: tuple[BoolArray, ...], alive: BoolArray) -> None:
        pairs = zip(self._spec.classes, masks, strict=True)
        counts = [mask.sum(axis=-1)[alive[:, kind.agents]] for kind, mask in pairs]
        before = self._trial.legal or [(count.max(initial=0), 0) for count in counts]
        self._trial.legal = [
            (int(min(low, count.min(initial=low))), int(max(high, count.max(initial=high))))
            for (low, high), count in zip(before, counts, strict=True)
        ]

    def _outside(self, kind: AgentClass, codec: ObservationCodec, values: FloatArray, alive: BoolArray) -> str:
        nearest = np.zeros(codec.size, np.float32)
        for copy, place in np.argwhere(alive):
            numbers = values[copy, place, : codec.size]
            codec.write(codec.read(numbers), "", nearest)
            far = np.abs(numbers - nearest) > _TOLERANCE * np.maximum(1.0, np.abs(nearest))
            if far.any():
                index, unit = int(far.argmax()), 255 if _is_image(kind) else 1
                return (
                    f"agent '{self._spec.agents[kind.agents[place]]}' observes a number outside its observation_space:"
                    f" number {index + 1} of {codec.size} is {numbers[index] * unit:g}, and the nearest number in the"
                    f" space is {nearest[index] * unit:g}{_type_of(kind)}"
                )
        return ""


def _is_image(kind: AgentClass) -> bool:
    space = kind.spaces and kind.spaces.observation
    return isinstance(space, BoxSpace) and (space.dtype, space.low, space.high) == ("uint8", (0,), (255,))


def _type_of(kind: AgentClass) -> str:
    space = kind.spaces and kind.spaces.observation
    return f" (of type {space.dtype})" if isinstance(space, BoxSpace) else ""
