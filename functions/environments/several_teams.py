"""One policy for several teams: environments of several env tasks, which are stepped together (`EnvTask.teams`)."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    EnvSpec,
    EnvTask,
    Observation,
    RewardArray,
    Step,
    VectorEnvironment,
)
from marless.functions.environments.resumable import Resumable, Saved
from marless.functions.errors import BadRequest

Array = NDArray[Any]


class SeveralTeams:
    """E environments of several teams in turn: environment i has the team i modulo the number of teams.

    All have the agents, the entities and the actions of the largest team. In environments of another team, the agents
    that it lacks are dead from the start, its missing entities are absent, and its missing actions illegal. There is no
    global state, because its width depends on the team: critics see the observations of all agents. Beside the
    environment's metrics there are the return and each metric by team, such as ``return_3_agents``.
    """

    def __init__(
        self, tasks: Sequence[EnvTask], num_envs: int, make: Callable[[EnvTask, int], VectorEnvironment]
    ) -> None:
        """Raises `ValueError` if the teams differ in more than numbers, and the errors of `make`."""
        self.num_envs, self._returns = num_envs, np.zeros(num_envs)
        rows = [slice(first, None, len(tasks)) for first in range(len(tasks))]
        with ExitStack() as resources:
            # A team without an environment describes itself nevertheless.
            environments = [
                resources.enter_context(closing(make(task, len(self._returns[place]) or 1)))
                for task, place in zip(tasks, rows, strict=True)
            ]
            self.spec = _common(tasks, [environment.spec for environment in environments])
            self._opened = resources.pop_all()
        parts = zip(names_of(tasks), environments, rows, strict=True)
        self._teams = [_Team(name, environment, self.spec, place) for name, environment, place in parts][:num_envs]
        self.environment = environments[0]

    def reset(self, rng: np.random.Generator) -> Observation:
        """Begin an episode in every environment, team after team."""
        self._returns[:] = 0
        return self._joined(team.environment.reset(rng) for team in self._teams)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Step all environments, team after team."""
        steps = [team.step(actions) for team in self._teams]
        fields = ("rewards", "terminated", "truncated", "ended")
        rewards, terminated, truncated, ends = (self._whole([getattr(step, name) for step in steps]) for name in fields)
        self._returns += rewards.sum(axis=1)
        observation = self._joined(step.observation for step in steps)
        if not ends.any():
            return Step(observation, rewards, terminated, truncated, ends)
        final = self._joined(step.observation if step.final is None else step.final for step in steps)
        metrics = self._metrics(steps)
        self._returns[ends] = 0
        return Step(observation, rewards, terminated, truncated, ends, final, metrics)

    def close(self) -> None:
        """Close all environments."""
        self._opened.close()

    def save(self) -> dict[str, Array]:
        """See `Resumable.save`. Raises `BadRequest` for environments that cannot be saved."""
        states = [team.resumable.save() for team in self._teams]
        arrays = {f"{index}/{name}": array for index, state in enumerate(states) for name, array in state.items()}
        return arrays | {"returns": self._returns.copy()}

    def resume(self, saved: Saved, rng: np.random.Generator) -> Observation:
        """See `Resumable.resume`."""
        self._returns[:] = saved["returns"]
        return self._joined(
            team.resumable.resume(
                {name.partition("/")[2]: array for name, array in saved.items() if name.startswith(f"{index}/")}, rng
            )
            for index, team in enumerate(self._teams)
        )

    def _metrics(self, steps: Sequence[Step]) -> dict[str, RewardArray]:
        """The metrics ``[E]``, all and by team. They are NaN in environments of other teams."""
        metrics: dict[str, RewardArray] = {}
        for team, step in zip(self._teams, steps, strict=True):
            by_team = step.env_metrics | {"return": self._returns[team.rows]}
            by_team = {f"{name}_{team.name}": values for name, values in by_team.items()}
            for name, values in (step.env_metrics | by_team).items():
                metrics.setdefault(name, np.full(self.num_envs, np.nan))[team.rows] = values
        return metrics

    def _whole(self, parts: Sequence[Array]) -> Array:
        """``[E]`` or ``[E, N]`` from the array of each team, zero for agents that a team lacks."""
        whole = np.zeros((self.num_envs, len(self.spec.agents))[: parts[0].ndim], parts[0].dtype)
        for team, part in zip(self._teams, parts, strict=True):
            whole[(team.rows, team.agents)[: part.ndim]] = part
        return whole

    def _joined(self, observations: Iterable[Observation]) -> Observation:
        parts = list(observations)
        shapes = [(self.num_envs, len(kind.agents)) for kind in self.spec.classes]
        pairs = list(zip(shapes, self.spec.classes, strict=True))
        values = tuple(np.zeros((*shape, kind.observation_size), np.float32) for shape, kind in pairs)
        masks = tuple(np.ones((*shape, kind.actions), np.bool_) for shape, kind in pairs)
        for team, part in zip(self._teams, parts, strict=True):
            team.write(part, values, masks)
        return Observation(values, self._whole([part.alive for part in parts]), masks if self.spec.masked else None)


class _Team:
    """The environments of one team: their `rows` among all, and the places of its agents among all agents."""

    def __init__(self, name: str, environment: VectorEnvironment, common: EnvSpec, rows: slice) -> None:
        self.name, self.environment, self.rows = name, environment, rows
        self._kinds = environment.spec.classes
        pairs = list(zip(self._kinds, common.classes, strict=True))
        places = {
            agent: place for kind, whole in pairs for agent, place in zip(kind.agents, whole.agents, strict=False)
        }
        self.agents = [places[agent] for agent in range(len(places))]
        self._layouts = [_layout(kind, whole) for kind, whole in pairs]

    @property
    def resumable(self) -> Resumable:
        """The environments. Raises `BadRequest` if they cannot be saved."""
        if isinstance(self.environment, Resumable):
            return self.environment
        raise BadRequest(
            "actors.rollout_length is less than an episode, and environments of several teams cannot be saved: set at"
            f" least {self.environment.spec.horizon}"
        )

    def step(self, actions: Sequence[ActionArray]) -> Step:
        """Step its environments with its agents' part of all actions."""
        pairs = zip(self._kinds, actions, strict=True)
        return self.environment.step(tuple(part[self.rows, : len(kind.agents)] for kind, part in pairs))

    def write(self, part: Observation, values: Sequence[Array], masks: Sequence[Array]) -> None:
        """Write the team's observations and legal actions into the arrays of all environments."""
        for index, (kind, (columns, nothing)) in enumerate(zip(self._kinds, self._layouts, strict=True)):
            place = self.rows, slice(len(kind.agents))
            values[index][place] = nothing * part.alive[:, kind.agents, None]
            values[index][(*place, columns)] = part.values[index]
            if part.masks is not None:
                masks[index][place] = False
                masks[index][(*place, slice(kind.actions))] = part.masks[index]


def _layout(kind: AgentClass, whole: AgentClass) -> tuple[Array, Array]:
    """The places of a class's observation in an observation of the largest team, and an observation of nothing."""
    columns, nothing = np.arange(kind.observation_size), np.zeros(whole.observation_size, np.float32)
    if kind.described is None or whole.described is None:
        return columns, nothing
    columns[list(kind.described.own)] = whole.described.own
    entities = {block.name: block.columns for block in kind.described.blocks}
    for block in whole.described.blocks:
        present = entities.get(block.name, ())
        for entity, target in zip(present, block.columns, strict=False):
            columns[list(entity)] = target
        for missing in block.columns[len(present) :]:
            nothing[list(missing)] = block.absent
    return columns, nothing


def names_of(tasks: Sequence[EnvTask]) -> list[str]:
    """The names of teams in metrics: the ends of the tasks' names if these differ, and the sizes if they do."""
    by_name, by_size = (len({getattr(task, key) for task in tasks}) > 1 for key in ("name", "agents"))
    parts = [(task.name.rpartition("/")[2],) * by_name + (f"{task.agents}_agents",) * by_size for task in tasks]
    return ["_".join(part) or "team" for part in parts]


def _common(tasks: Sequence[EnvTask], specs: Sequence[EnvSpec]) -> EnvSpec:
    """The description of the largest team, with entities that may be absent. Raises `ValueError` for other teams."""
    largest = max(specs, key=lambda spec: (len(spec.agents), [kind.observation_size for kind in spec.classes]))
    for task, spec in zip(tasks, specs, strict=True):
        label = task.name if task.agents is None else f"{task.name} with {task.agents} agents"
        if _form(spec) != _form(largest):
            raise ValueError(f"{label} has agents, actions or entities of other kinds than the largest team")
        for kind, whole in zip(spec.classes, largest.classes, strict=True):
            limits = _counts(whole)
            if lacking := [name for name, count in _counts(kind).items() if count > limits.get(name, 0)]:
                raise ValueError(f"{label} has more of {lacking[0]} than the largest team")
    classes = tuple(
        kind if all(spec.classes[index].described == kind.described for spec in specs) else _with_absent(kind)
        for index, kind in enumerate(largest.classes)
    )
    return replace(largest, classes=classes, horizon=max(spec.horizon for spec in specs), state_size=0)


def _with_absent(kind: AgentClass) -> AgentClass:
    entities = kind.described
    assert entities is not None
    blocks = tuple(replace(block, absent=block.absent or (0.0,) * block.features) for block in entities.blocks)
    return replace(kind, entities=replace(entities, blocks=blocks))


def _form(spec: EnvSpec) -> object:
    kinds = [
        (
            (kind.name, kind.first_action, kind.branches, kind.low, kind.high),
            None if spec.masked and not kind.branches else kind.actions,
            kind.observation_size if kind.described is None else len(kind.described.own),
            {spec.sides[agent] for agent in kind.agents if spec.sides},
        )
        for kind in spec.classes
    ]
    return spec.masked, spec.turns, kinds


def _counts(kind: AgentClass) -> dict[str, int]:
    blocks = kind.described.blocks if kind.described else ()
    entities = {f"entity '{block.name}' with {block.features} features": len(block.columns) for block in blocks}
    return {f"agents of class '{kind.name}'": len(kind.agents), "actions": kind.actions, **entities}
