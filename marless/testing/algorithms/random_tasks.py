"""Random tasks: rewards, deaths, time limits, masks and observations are drawn at random.

They take any spaces, so that an algorithm can be tested quickly on every kind of space, see `conformance`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    FloatArray,
    Observation,
    Step,
)
from marless.functions.messages.team import Team

_DEATH, _CUT = 0.12, 0.08

TASKS: Mapping[str, EnvSpec] = {
    "equal agents": EnvSpec(("a", "b", "c"), (AgentClass("all", (0, 1, 2), 4, 3),), 5),
    "unequal agents with masks and a state": EnvSpec(
        ("a", "b", "c"),
        (AgentClass("one", (0, 2), 3, 3), AgentClass("other", (1,), 5, 4)),
        5,
        state_size=6,
        masked=True,
    ),
    "two sides": EnvSpec(
        ("a", "b", "c", "d"),
        (AgentClass("one", (0, 2), 3, 2), AgentClass("other", (1, 3), 4, 3)),
        5,
        sides=(0, 1, 0, 1),
    ),
    "several choices beside numbers": EnvSpec(
        ("a", "b", "c"),
        (AgentClass("one", (0, 1), 3, 5, branches=(3, 2)), AgentClass("other", (2,), 4, 1, low=(-2.0,), high=(2.0,))),
        5,
        masked=True,
    ),
    "numbers": EnvSpec(
        ("a", "b", "c"),
        (
            AgentClass("one", (0, 1), 3, 2, low=(-1.0, 0.0), high=(1.0, 5.0)),
            AgentClass("other", (2,), 4, 1, low=(-2.0,), high=(2.0,)),
        ),
        5,
        state_size=4,
    ),
}


def teams(spec: EnvSpec) -> list[Team]:
    """Return ways to group the agents: each alone, then with identities all of a class and side together, or only one
    pair."""
    alone = tuple(range(len(spec.agents)))
    kinds = list(zip(spec.class_of, spec.sides or (0,) * len(alone), strict=True))
    together = tuple(kinds.index(kind) for kind in kinds)
    pair = next((agent for agent, first in enumerate(together) if agent != first), None)
    pair_groups = tuple(together[agent] if agent == pair else agent for agent in alone)
    shared_teams = (
        Team(groups=groups, identity=True) for groups in dict.fromkeys((together, pair_groups)) if groups != alone
    )
    return [Team(groups=alone), *shared_teams]


class RandomTask:
    """E environments of a task with these spaces. Actions have no effect, and the numbers drawn depend on E."""

    def __init__(self, spec: EnvSpec, num_envs: int) -> None:
        self.spec, self.num_envs = spec, num_envs

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment."""
        self._rng = rng
        self._alive = np.ones((self.num_envs, len(self.spec.agents)), np.bool_)
        self._steps = np.zeros(self.num_envs, np.int64)
        return self._observe(self._alive)

    def step(self, actions: Sequence[ActionArray]) -> Step:
        """One step of every environment."""
        rng, before = self._rng, self._alive
        rewards = before * rng.standard_normal(before.shape)
        terminated = before & (rng.random(before.shape) < _DEATH)
        alive = before & ~terminated
        self._steps += 1
        late = (self._steps == self.spec.horizon) | (rng.random(self.num_envs) < _CUT)
        truncated = late & alive.any(axis=1)
        ends = truncated | ~alive.any(axis=1)
        final = self._observe(alive)
        self._alive = alive | ends[:, None]
        self._steps[ends] = 0
        return Step(self._observe(self._alive), rewards, terminated, truncated, ends, final if ends.any() else None)

    def close(self) -> None:
        """There is nothing to free."""

    def _observe(self, alive: BoolArray) -> Observation:
        rng, spec = self._rng, self.spec
        values: list[FloatArray] = []
        masks: list[BoolArray] = []
        for kind in spec.classes:
            living = alive[:, kind.agents, None]
            values.append((rng.standard_normal((*living.shape[:2], kind.observation_size)) * living).astype(np.float32))
            masks.append(self._mask(kind, living))
        state = rng.standard_normal((self.num_envs, spec.state_size)).astype(np.float32) if spec.state_size else None
        return Observation(tuple(values), alive.copy(), tuple(masks) if spec.masked else None, state)

    def _mask(self, kind: AgentClass, living: BoolArray) -> BoolArray:
        """One action in three is illegal. The last of every choice is always legal."""
        legal = self._rng.random((*living.shape[:2], kind.actions)) < 2 / 3
        legal[..., np.cumsum(kind.branches or (kind.actions,)) - 1] = True
        return np.asarray(legal | ~living | kind.continuous)
