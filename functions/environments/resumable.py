"""Environments with episodes that continue in another process: by their saved state, or by being played again.

Rollouts shorter than an episode need them, see `marless.functions.actor.fragments`.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    EnvironmentFault,
    EnvSpec,
    Observation,
    RewardArray,
    Step,
    VectorEnvironment,
)

Saved = Mapping[str, NDArray[Any]]
"""Arrays by name."""

_SEEDS = 2**63


@runtime_checkable
class Resumable(VectorEnvironment, Protocol):
    """An environment that saves its state, beyond the protocol."""

    def save(self) -> dict[str, NDArray[Any]]:
        """The state of all environments. Later steps do not change it."""

    def resume(self, saved: Saved, rng: np.random.Generator) -> Observation:
        """The last observation of the environments that were saved. All later bytes equal the bytes of the environment
        that was saved, with `rng` for resets and for random numbers in a step."""


def resumable(make: Callable[[int], VectorEnvironment], num_envs: int) -> Resumable:
    """`num_envs` environments of `make`, which takes their number. Raises the errors of `make`."""
    environment = make(num_envs)
    if isinstance(environment, Resumable):
        return environment
    environment.close()
    return SeparateEnvironments(lambda: make(1), num_envs)


class SeparateEnvironments:
    """E environments that stand alone, which are saved as seeds and actions and resumed by playing these again.

    Every episode has its own generator, so it depends only on its seed and actions. A process that still has the saved
    environments continues at once, without playing again.
    """

    def __init__(self, make_one: Callable[[], VectorEnvironment], num_envs: int) -> None:
        """Errors of `make_one` pass through."""
        self.num_envs = num_envs
        self._singles: list[_Single] = []
        with ExitStack() as resources:
            for _ in range(num_envs):
                self._singles.append(_Single(make_one()))
                resources.callback(self._singles[-1].environment.close)
            self._opened = resources.pop_all()
        self.spec: EnvSpec = self._singles[0].environment.spec

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment."""
        self._rng = rng
        for single in self._singles:
            single.begin(self._seed())
        return self._observation()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps the environments one after another."""
        typed_actions = [np.array(part, _dtype(kind)) for kind, part in zip(self.spec.classes, actions, strict=True)]
        steps = [
            single.step(tuple(part[row : row + 1] for part in typed_actions))
            for row, single in enumerate(self._singles)
        ]
        done = np.concatenate([step.ended for step in steps])
        final = None
        if done.any():
            final = _concatenate([step.observation if step.final is None else step.final for step in steps])
            for row in np.flatnonzero(done):
                self._singles[row].begin(self._seed())
        return Step(
            observation=self._observation(),
            rewards=np.concatenate([step.rewards for step in steps]),
            terminated=np.concatenate([step.terminated for step in steps]),
            truncated=np.concatenate([step.truncated for step in steps]),
            ended=done,
            final=final,
            env_metrics=_metrics(steps),
        )

    def save(self) -> dict[str, NDArray[Any]]:
        """`seed` and `steps` ``[E]`` of the episodes, and per class `action/<class>` ``[E, longest, n, ...]``."""
        steps = np.array([len(single.actions) for single in self._singles])
        arrays: dict[str, NDArray[Any]] = {"seed": np.array([single.seed for single in self._singles]), "steps": steps}
        for c, kind in enumerate(self.spec.classes):
            shape = (self.num_envs, int(steps.max()), len(kind.agents), *_shape(kind))
            past_actions = np.zeros(shape, np.float32 if kind.continuous else np.int32)
            for row, single in enumerate(self._singles):
                for t, joint_action in enumerate(single.actions):
                    past_actions[row, t] = joint_action[c][0]
            arrays[f"action/{c}"] = past_actions
        return arrays

    def resume(self, saved: Saved, rng: np.random.Generator) -> Observation:
        """See `Resumable.resume`. Raises `EnvironmentFault` for an environment that does not repeat an episode."""
        self._rng = rng
        own_arrays = self.save()
        if any(not np.array_equal(own_arrays[name], saved[name]) for name in own_arrays):
            for row, single in enumerate(self._singles):
                single.begin(int(saved["seed"][row]))
                for t in range(int(saved["steps"][row])):
                    single.repeat(
                        tuple(
                            saved[f"action/{c}"][row, t][None].astype(_dtype(kind))
                            for c, kind in enumerate(self.spec.classes)
                        )
                    )
        return self._observation()

    def close(self) -> None:
        """Closes every environment once."""
        self._opened.close()

    def _seed(self) -> int:
        return int(self._rng.integers(_SEEDS))

    def _observation(self) -> Observation:
        return _concatenate([single.seen for single in self._singles])


class _Single:
    def __init__(self, environment: VectorEnvironment) -> None:
        self.environment = environment
        self.seed = -1
        self.actions: list[tuple[ActionArray, ...]] = []
        self.seen: Observation

    def begin(self, seed: int) -> None:
        """A new episode."""
        self.seed, self.actions = seed, []
        self.seen = self.environment.reset(np.random.Generator(np.random.Philox(seed)))

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """The environment's step. If it ends the episode, `begin` must follow."""
        step = self.environment.step(actions)
        self.actions.append(actions)
        self.seen = step.observation
        return step

    def repeat(self, actions: tuple[ActionArray, ...]) -> None:
        """A step that did not end the episode when it was played."""
        if self.step(actions).ended[0]:
            raise EnvironmentFault(
                f"an episode that was played again ended after {len(self.actions)} steps and not later: the environment"
                " depends on more than its seed and actions; set actions.rollout_length to whole episodes"
            )


def _shape(kind: AgentClass) -> tuple[int, ...]:
    return (kind.actions,) if kind.continuous else (len(kind.branches),) if kind.branches else ()


def _dtype(kind: AgentClass) -> type[np.float32 | np.int64]:
    return np.float32 if kind.continuous else np.int64


def _concatenate(parts: list[Observation]) -> Observation:
    masks = [part.masks for part in parts if part.masks is not None]
    states = [part.state for part in parts if part.state is not None]
    return Observation(
        values=tuple(np.concatenate(of_class) for of_class in zip(*(part.values for part in parts), strict=True)),
        alive=np.concatenate([part.alive for part in parts]),
        masks=tuple(np.concatenate(of_class) for of_class in zip(*masks, strict=True)) if masks else None,
        state=np.concatenate(states) if states else None,
    )


def _metrics(steps: list[Step]) -> dict[str, RewardArray]:
    names = sorted({name for step in steps for name in step.env_metrics})
    nothing = np.zeros(1)
    return {name: np.concatenate([step.env_metrics.get(name, nothing) for step in steps]) for name in names}
