"""Any PettingZoo environment as an env task ``pettingzoo:package.module:factory``: E environments in a loop.

In a `ParallelEnv` all agents act in every step. In an `AECEnv` agents take turns, and a turn is a step (see `turns`).

`task.options` are the factory's keyword arguments and four options of this module. `horizon` is the longest episode in
steps, for environments that do not say it (see `horizon`). Longer episodes are truncated. `joint_actions` numbers the
combinations of an agent's several choices as one choice. `sides` lists the prefixes of the agents' names of each side
if some compete, for example ``"adversary,agent"``. `rebuild` makes new environments at every `reset`, for environments
that keep state of the last episode. Episodes must depend only on the generator (`marless.testing` checks it).

`spaces` lists the supported observations and actions. Action masks are entries "action_mask" of observations or of
infos (see `masks`). Masks of several choices are concatenated. Nothing else in infos is read. An error of `close` is a
remark. Where an environment has a method `episode_metrics`, which returns numbers by name and is called when an episode
has ended, they are the env metrics. A dead agent, also in `Step.final`, has zeros for observations and rewards and
every action legal. Its actions are ignored, and it stays dead until the reset, even if `agents` still lists it. An
agent that returns to `agents` within an episode is refused. The state is the environment's `state()`, zeros when no
agent is alive.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    BoolArray,
    EnvSpec,
    EnvTask,
    Observation,
    RewardArray,
    Step,
    VectorEnvironment,
)
from marless.functions.environments.pettingzoo.agents import Agent, agents_of, classes_of, keys_of, sides_of
from marless.functions.environments.pettingzoo.environment_copy import EnvironmentCopy, Transition
from marless.functions.environments.pettingzoo.factory import build, factory_of
from marless.functions.environments.pettingzoo.global_state import state_encoder
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.horizon import horizon_of
from marless.functions.environments.pettingzoo.masks import MASK, FirstReset, lookalike
from marless.functions.environments.pettingzoo.turns import TurnEnvironment

_SEEDS = 2**31  # seeds are non-negative int32, which every seeding routine takes


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments of the factory in `task.name`.

    Raises `ValueError` for a malformed name, an unknown factory, wrong options, another number of agents than
    `task.agents`, an unknown horizon, impossible sides or too many joint actions. Raises `MissingExtra` for a missing
    package, `Unsupported` for spaces and interfaces outside the module's description, and `EnvironmentFault` for errors
    of the environment.
    """
    factory = factory_of(task.name)
    return assemble(task, num_envs, lambda: build(task, factory), factory)


def assemble(
    task: EnvTask, num_envs: int, build_one: Callable[[], Any], factory: Callable[..., Any] | None = None
) -> VectorEnvironment:
    """`num_envs` environments made by `build_one`, with the interface of `ParallelEnv`. Raises the errors of `make`.

    The signature of `factory` may say how long an episode is.
    """
    with ExitStack() as resources:
        guards = []
        for number in range(num_envs):
            guard = Guard(f"{task.name}, copy {number}", build_one())
            resources.callback(guard.close)
            guards.append(guard)
        environment = PettingZooEnvironment(task, guards, build_one if _flag(task, "rebuild") else None, factory)
        resources.pop_all()
    return environment


class PettingZooEnvironment:
    """E PettingZoo environments. Each reset takes a new seed from the generator of `reset`."""

    def __init__(
        self,
        task: EnvTask,
        guards: list[Guard],
        rebuild: Callable[[], Any] | None,
        factory: Callable[..., Any] | None = None,
    ) -> None:
        """`rebuild` makes a new environment at every `reset`, None keeps them. `factory` made the environments."""
        first_reset = FirstReset(*guards[0].mappings("reset", guards[0].call("reset", seed=0), 2))
        agents = agents_of(task.name, guards[0], _flag(task, "joint_actions"), first_reset)
        if task.agents not in (None, len(agents)):
            raise ValueError(f"{task.name}: task.agents is {task.agents}, but the environment has {len(agents)} agents")
        first = guards[0].environment
        turns = isinstance(first, TurnEnvironment)
        horizon, self.horizon_source, usual = horizon_of(task, first, first.game if turns else first, factory)
        # A remark on the task for users, or ''.
        length = "" if usual else f"an episode has at most {horizon:,} steps ({self.horizon_source})"
        self.unread_mask = _unread_mask(agents, first_reset)
        words = "; ".join(filter(None, (length, self.unread_mask)))
        self.remark = words and f"{task.name}: {words}"
        state = state_encoder(guards[0])
        self.num_envs = len(guards)
        self.spec = _spec_of(task, agents, horizon, state.size if state is not None else 0, turns)
        self._native = [agents[kind.agents[0]].codec.action.native for kind in self.spec.classes]
        sizes = [(self.num_envs, len(kind.agents), kind) for kind in self.spec.classes]
        self._shapes = [(count, members, kind.observation_size) for count, members, kind in sizes]
        self._alive = self._no_agent = _unwritable(np.zeros((self.num_envs, len(agents)), np.bool_))
        self._no_environment = _unwritable(np.zeros(self.num_envs, np.bool_))
        self._all_legal = [np.ones((count, members, kind.actions), np.bool_) for count, members, kind in sizes]
        self._copies = [
            EnvironmentCopy(row, guard, agents, self.spec.classes, horizon, state) for row, guard in enumerate(guards)
        ]
        self._guards, self._rebuild = guards, rebuild
        # PettingZoo's metadata of the environment. Replays play at its "render_fps".
        self.metadata = getattr(guards[0].environment, "metadata", None) or {}
        # Called when episodes have ended, before the reset: the last states can be drawn there.
        self.before_reset: Callable[[], None] | None = None
        self._resources = ExitStack()
        for guard in guards:
            self._resources.callback(guard.close)

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment. Raises `EnvironmentFault` and `Unsupported`."""
        self._rng = rng
        if self._rebuild is not None:
            for guard in self._guards:
                environment = self._rebuild()
                guard.close()
                guard.environment = environment
        observation = self._blank_observation()
        for copy in self._copies:
            self._restart(copy, observation)
        return self._with_alive(observation)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps the environments one after another. Raises `EnvironmentFault` and `Unsupported`.

        Later steps leave the arrays of a `Step` unchanged. Arrays that steps share are read-only.
        """
        native_actions = [native(part) for native, part in zip(self._native, actions, strict=True)]
        observation, rewards = self._blank_observation(), np.zeros(self._no_agent.shape)
        ends = {}
        for row, copy in enumerate(self._copies):
            if (transition := copy.step(native_actions, observation, rewards)) is not None:
                ends[row] = transition
        if not ends:
            return Step(observation, rewards, self._no_agent, self._no_environment, self._no_environment)
        return self._with_ends(self._with_alive(observation), rewards, ends)

    def _with_ends(self, observation: Observation, rewards: RewardArray, ends: dict[int, Transition]) -> Step:
        """The result of a step with `ends` by row. Resets the environments with finished episodes."""
        terminated, truncated, done = self._no_agent.copy(), self._no_environment.copy(), self._no_environment.copy()
        for row, end in ends.items():
            terminated[row], truncated[row], done[row] = end.terminated, end.truncated, end.episode_over
        if not (rows_over := [row for row, end in ends.items() if end.episode_over]):
            return Step(observation, rewards, terminated, truncated, done)
        if self.before_reset is not None:
            self.before_reset()
        env_metrics = self._metrics(rows_over)
        after = self._blank_observation() if len(rows_over) == self.num_envs else self._copy_rows(observation, ~done)
        for row in rows_over:
            self._restart(self._copies[row], after)
        return Step(self._with_alive(after), rewards, terminated, truncated, done, observation, env_metrics)

    def render(self, index: int) -> Any:
        """The picture of an environment in render mode "rgb_array", or a `Scene`, or None in other modes.

        Raises `Unsupported` for an environment without `render`, and `EnvironmentFault`.
        """
        if not hasattr(self._guards[index].environment, "render"):
            raise self._guards[index].refusal("render", "the environment has no such method, so it cannot be drawn")
        return self._guards[index].call("render")

    def close(self) -> None:
        """Closes every environment once."""
        self._resources.close()

    def _restart(self, copy: EnvironmentCopy, observation: Observation) -> None:
        copy.reset(int(self._rng.integers(_SEEDS)), observation)

    def _metrics(self, rows: list[int]) -> dict[str, RewardArray]:
        columns: dict[str, RewardArray] = {}
        for row in rows:
            guard = self._guards[row]
            if not hasattr(guard.environment, "episode_metrics"):
                return {}
            for name, value in guard.call("episode_metrics").items():
                column = columns.setdefault(name, np.zeros(self.num_envs))
                column[row] = guard.number("episode_metrics", value, f"the metric '{name}'")
        return columns

    def _blank_observation(self) -> Observation:
        """Zeros, and every action legal. Alive are the agents that were alive after the last step."""
        state = np.zeros((self.num_envs, self.spec.state_size), np.float32) if self.spec.state_size else None
        masks = tuple([mask.copy() for mask in self._all_legal]) if self.spec.masked else None
        return Observation(tuple([np.zeros(shape, np.float32) for shape in self._shapes]), self._alive, masks, state)

    def _with_alive(self, observation: Observation) -> Observation:
        """The arrays of `observation`, with the agents that are alive now. Nothing is copied."""
        self._alive = _unwritable(np.array([copy.alive for copy in self._copies]))
        return Observation(observation.values, self._alive, observation.masks, observation.state)

    def _copy_rows(self, observation: Observation, rows: BoolArray) -> Observation:
        target = self._blank_observation()
        for new, old in zip(_arrays(target), _arrays(observation), strict=True):
            new[rows] = old[rows]
        return target


def _arrays(observation: Observation) -> list[NDArray[Any]]:
    state = () if observation.state is None else (observation.state,)
    return [*observation.values, *(observation.masks or ()), *state]


def _unwritable(array: BoolArray) -> BoolArray:
    array.flags.writeable = False
    return array


def _spec_of(task: EnvTask, agents: list[Agent], horizon: int, state_size: int, turns: bool) -> EnvSpec:
    return EnvSpec(
        agents=tuple(agent.name for agent in agents),
        classes=classes_of(agents),
        horizon=horizon,
        state_size=state_size,
        masked=any(agent.masked for agent in agents),
        sides=sides_of(task.name, [agent.name for agent in agents], task.options.get("sides", "")),
        keys=keys_of(agents),
        turns=turns,
    )


def _unread_mask(agents: list[Agent], first_reset: FirstReset) -> str:
    names = (
        (agent, lookalike(agent.key, agent.codec.action.mask_size, first_reset)) for agent in agents if not agent.masked
    )
    sentences = (
        f"'{name}' of agent '{agent.name}' is not read as a mask of its actions; if it is one, name it '{MASK}'"
        for agent, name in names
        if name
    )
    return next(sentences, "")


def _flag(task: EnvTask, name: str) -> bool:
    value = task.options.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{task.name}: task.options.{name} is {value!r}; it must be true or false")
    return value
