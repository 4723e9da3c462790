"""Any PettingZoo `ParallelEnv` as a task named ``pettingzoo:package.module:factory``; E copies, stepped in a loop.

`task.options` are the factory's keyword arguments, but for `horizon`, which is ours: the longest episode in steps, for
environments that do not say it themselves (attribute or metadata `max_cycles`). A copy that gets there is truncated.
Observations are boxes of any shape, flattened; actions are `Discrete`. Action masks are taken from observations of the
form ``{"observation": ..., "action_mask": ...}``, the convention of PettingZoo. Infos are not read, neither for masks
nor for scalars. An agent that is gone, also in `Step.final`, has zeros for observations and rewards and every action
legal; its actions are ignored. The state is the environment's own, zeros where no agent is left to need it.
"""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    FloatArray,
    Observation,
    RewardArray,
    Spec,
    Step,
    Task,
    Unsupported,
    VectorEnvironment,
)
from functions.environments.pettingzoo_factory import build, factory_of
from functions.environments.pettingzoo_guard import Guard, told

_SEEDS = 2**31  # seeds are non-negative int32, which every seeding routine takes


def make(task: Task, copies: int) -> VectorEnvironment:
    """`copies` environments of the factory in `task.name`.

    Raises `ValueError` for a malformed name, a factory that does not exist, options it does not take, another number of
    agents than `task.agents` or an unknown horizon; `MissingExtra` for a package that is not installed; `Unsupported`
    for spaces and interfaces outside the module's description; `EnvironmentFault` for what the environment does wrong.
    """
    factory = factory_of(task.name)
    with ExitStack() as opened:
        guards = []
        for number in range(copies):
            guard = Guard(f"{task.name}, copy {number}", build(task, factory))
            opened.callback(guard.call, "close")
            guards.append(guard)
        environment = PettingZooEnvironment(task, guards)
        opened.pop_all()
    return environment


class PettingZooEnvironment:
    """E copies of a PettingZoo environment; copy by copy, resets take fresh seeds from the generator of `reset`."""

    def __init__(self, task: Task, guards: list[Guard]) -> None:
        agents = _agents(task.name, guards[0])
        if task.agents not in (None, len(agents)):
            raise ValueError(f"{task.name}: task.agents is {task.agents}, but the environment has {len(agents)} agents")
        horizon = _horizon(task, guards[0].environment)
        state = _state_shape(guards[0])
        self.copies = len(guards)
        self.spec = Spec(
            agents=tuple(agent.name for agent in agents),
            classes=_classes(agents),
            horizon=horizon,
            state_size=int(np.prod(state)) if state is not None else 0,
            masked=any(agent.masked for agent in agents),
        )
        self._copies = [_Copy(guard, agents, horizon, state) for guard in guards]
        self._opened = ExitStack()
        for guard in guards:
            self._opened.callback(guard.call, "close")

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every copy; raises `EnvironmentFault` and `Unsupported`."""
        self._rng = rng
        return self._stack([self._restart(copy) for copy in self._copies])

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps the copies one after another; raises `EnvironmentFault` and `Unsupported`."""
        chosen = np.empty((self.copies, len(self.spec.agents)), dtype=np.int64)
        for kind, numbers in zip(self.spec.classes, actions, strict=True):
            chosen[:, kind.agents] = numbers
        transitions = [copy.step(chosen[row]) for row, copy in enumerate(self._copies)]
        ended = np.array([transition.ended for transition in transitions])
        final = self._stack([transition.frame for transition in transitions]) if ended.any() else None
        frames = [
            self._restart(copy) if transition.ended else transition.frame
            for copy, transition in zip(self._copies, transitions, strict=True)
        ]
        return Step(
            observation=self._stack(frames),
            rewards=np.stack([transition.rewards for transition in transitions]),
            terminated=np.stack([transition.terminated for transition in transitions]),
            truncated=np.array([transition.truncated for transition in transitions]),
            ended=ended,
            final=final,
        )

    def close(self) -> None:
        """Closes every copy, once."""
        self._opened.close()

    def _restart(self, copy: "_Copy") -> "_Frame":
        return copy.reset(int(self._rng.integers(_SEEDS)))

    def _stack(self, frames: list["_Frame"]) -> Observation:
        values, masks = [], []
        for kind in self.spec.classes:
            values.append(np.stack([np.stack([frame.values[i] for i in kind.agents]) for frame in frames]))
            masks.append(np.stack([np.stack([frame.masks[i] for i in kind.agents]) for frame in frames]))
        return Observation(
            values=tuple(values),
            alive=np.stack([frame.alive for frame in frames]),
            masks=tuple(masks) if self.spec.masked else None,
            state=np.stack([frame.state for frame in frames]) if self.spec.state_size else None,
        )


@dataclass(frozen=True)
class _Agent:
    """An agent and its spaces; `key` is what PettingZoo calls it, `box` what it sees without the mask."""

    key: Any
    box: Any
    discrete: Any
    masked: bool

    @property
    def name(self) -> str:
        return str(self.key)

    @property
    def size(self) -> int:
        return int(np.prod(self.box.shape))

    @property
    def actions(self) -> int:
        return int(self.discrete.n)


@dataclass(frozen=True)
class _Frame:
    """What the agents of one copy see: per agent a flat observation and a mask; `alive` ``[N]``."""

    values: list[FloatArray]
    masks: list[BoolArray]
    alive: BoolArray
    state: FloatArray


@dataclass(frozen=True)
class _Transition:
    """What one step of one copy gave; `rewards` and `terminated` ``[N]``."""

    frame: _Frame
    rewards: RewardArray
    terminated: BoolArray
    truncated: bool

    @property
    def ended(self) -> bool:
        return self.truncated or not self.frame.alive.any()


class _Copy:
    """One environment: its dictionaries as arrays, and who is still in play."""

    def __init__(self, guard: Guard, agents: list[_Agent], horizon: int, state: tuple[int, ...] | None) -> None:
        self._guard = guard
        self._agents = agents
        self._horizon = horizon
        self._state_shape = state

    def reset(self, seed: int) -> _Frame:
        self._guard.steps = 0
        observations, _ = self._guard.mappings("reset", self._guard.call("reset", seed=seed), 2)
        self._alive = np.ones(len(self._agents), dtype=np.bool_)
        present = self._present("reset")
        if missing := [agent.name for agent in self._agents if agent.key not in present]:
            raise self._guard.unsupported("reset", f"an episode starts without agents {missing} of possible_agents")
        return self._frame("reset", observations)

    def step(self, chosen: ActionArray) -> _Transition:
        """Steps the agents in play; `chosen` ``[N]`` counts actions from 0."""
        self._guard.steps += 1
        before = self._alive
        actions = {self._agents[i].key: self._agents[i].discrete.start + chosen[i] for i in np.flatnonzero(before)}
        answer = self._guard.call("step", actions)
        observations, rewards, terminations, truncations, _ = self._guard.mappings("step", answer, 5)
        earned = self._figures(rewards, "reward")
        terminated = self._figures(terminations, "termination") != 0
        cut = (self._figures(truncations, "truncation") != 0) & ~terminated
        self._alive = before & ~terminated
        if cut.any() and not cut[self._alive].all():
            names = [self._agents[i].name for i in np.flatnonzero(cut)]
            raise self._guard.unsupported("step", f"agents {names} are truncated while others go on")
        if not cut.any():
            self._check_present()
        late = self._guard.steps >= self._horizon and self._alive.any()
        return _Transition(self._frame("step", observations), earned, terminated, bool(cut.any() or late))

    def _present(self, method: str) -> set[Any]:
        """The environment's agents now; they must be in possible_agents."""
        present = {*getattr(self._guard.environment, "agents", ())}
        if unknown := sorted(str(key) for key in present - {agent.key for agent in self._agents}):
            raise self._guard.unsupported(method, f"agents {unknown} are not in possible_agents")
        return present

    def _check_present(self) -> None:
        present = self._present("step")
        missing = [self._agents[i].name for i in np.flatnonzero(self._alive) if self._agents[i].key not in present]
        if missing:
            raise self._guard.fault("step", f"agents {missing} are gone, but neither terminated nor truncated")

    def _figures(self, mapping: dict[Any, Any], what: str) -> RewardArray:
        """One number per agent in play, 0 for those gone before."""
        figures = np.zeros(len(self._agents))
        for i in np.flatnonzero(self._alive):
            agent = self._agents[i]
            value = self._guard.entry("step", mapping, agent.key, what)
            figures[i] = self._guard.numbers("step", value, (), f"the {what} of agent '{agent.name}'", np.float64)[0]
        return figures

    def _frame(self, method: str, observations: dict[Any, Any]) -> _Frame:
        values = [np.zeros(agent.size, dtype=np.float32) for agent in self._agents]
        masks = [np.ones(agent.actions, dtype=np.bool_) for agent in self._agents]
        for i in np.flatnonzero(self._alive):
            agent = self._agents[i]
            seen = self._guard.entry(method, observations, agent.key, "observation")
            what = f"the observation of agent '{agent.name}'"
            if agent.masked:
                if not (isinstance(seen, dict) and {"observation", "action_mask"} <= seen.keys()):
                    raise self._guard.fault(method, f"{what} is not a dictionary with its action_mask")
                masks[i] = self._mask(method, seen["action_mask"], agent)
                seen = seen["observation"]
            values[i] = self._guard.numbers(method, seen, agent.box.shape, what)
        return _Frame(values, masks, self._alive, self._state())

    def _mask(self, method: str, mask: object, agent: _Agent) -> BoolArray:
        what = f"the action mask of agent '{agent.name}'"
        legal: BoolArray = self._guard.numbers(method, mask, (agent.actions,), what) != 0
        if not legal.any():
            raise self._guard.fault(method, f"{what} allows no action")
        return legal

    def _state(self) -> FloatArray:
        if self._state_shape is None:
            return np.zeros(0, dtype=np.float32)
        # Nothing follows where nobody is left, and many environments without agents cannot say their state.
        if not self._alive.any():
            return np.zeros(int(np.prod(self._state_shape)), dtype=np.float32)
        return self._guard.numbers("state", self._guard.call("state"), self._state_shape, "the state")


def _agents(name: str, guard: Guard) -> list[_Agent]:
    from gymnasium import spaces

    agents = []
    for key in guard.environment.possible_agents:
        box, discrete = guard.call("observation_space", key), guard.call("action_space", key)
        masked = isinstance(box, spaces.Dict) and {*box.spaces} == {"observation", "action_mask"}
        if masked:
            box = box["observation"]
        if not isinstance(box, spaces.Box):
            raise Unsupported(f"{name}: agent '{key}' observes {box}; supported are Box, and Box with an action_mask")
        if not isinstance(discrete, spaces.Discrete):
            raise Unsupported(f"{name}: agent '{key}' acts in {discrete}; supported is Discrete")
        agents.append(_Agent(key, box, discrete, masked))
    return agents


def _classes(agents: list[_Agent]) -> tuple[AgentClass, ...]:
    """Agents with equal spaces, named after the first of them without its number."""
    groups: list[list[int]] = []
    for i, agent in enumerate(agents):
        spaces = (agent.box, agent.discrete, agent.masked)
        for group in groups:
            first = agents[group[0]]
            if spaces == (first.box, first.discrete, first.masked):
                group.append(i)
                break
        else:
            groups.append([i])
    names: list[str] = []
    for group in groups:
        stem = re.sub(r"[_-]?\d+$", "", agents[group[0]].name) or "agent"
        names.append(agents[group[0]].name if stem in names else stem)
    return tuple(
        AgentClass(name, tuple(group), first.size, first.actions, int(first.discrete.start))
        for name, group, first in zip(names, groups, (agents[group[0]] for group in groups), strict=True)
    )


def _horizon(task: Task, environment: Any) -> int:
    """The longest episode in steps: `task.options.horizon`, else what the environment says of itself."""
    inner = getattr(environment, "unwrapped", environment)
    metadata = getattr(inner, "metadata", None) or {}
    said = task.options.get("horizon", getattr(inner, "max_cycles", metadata.get("max_cycles")))
    if said is None:
        raise ValueError(f"{task.name} does not say how long an episode is: add task.options.horizon, in steps")
    if isinstance(said, bool) or not isinstance(said, int | np.integer) or said < 1:
        raise ValueError(f"{task.name}: the horizon is {said!r}; it must be a whole number of steps, at least 1")
    return int(said)


def _state_shape(guard: Guard) -> tuple[int, ...] | None:
    """The shape of the environment's own state, None if it has none; only one that was reset can say."""
    guard.call("reset", seed=0)
    try:
        return np.asarray(guard.environment.state()).shape
    except (AttributeError, NotImplementedError):
        return None
    except Exception as error:
        raise guard.fault("state", told(error)) from error
