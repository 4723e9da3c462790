"""The tasks ``vmas/<scenario>``: the scenarios of VMAS, the Vectorized Multi-Agent Simulator.

All environments are stepped together, as VMAS does it in torch. `horizon` is the longest episode in steps and
`continuous_actions` whether agents act by forces instead of choices. All other `task.options` are arguments of the
scenario, and `task.agents` is its `n_agents`. An episode terminates when the scenario is done, for all agents at once,
and is truncated at the horizon. Rewards are VMAS's. If they are common, every agent gets all of it. Then our return,
the sum over agents, is `n` times the mean over agents, which papers often report.

The generator of `reset` seeds all random numbers of an environment. Equal bytes need equal versions of torch and VMAS,
equal processors, and an equal number of environments.

Source: Bettini et al., "VMAS: A Vectorized Multi-Agent Simulator for Collective Robot Learning", 2022.
"""

import re
from collections.abc import Callable

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    FloatArray,
    Observation,
    Step,
    VectorEnvironment,
)
from marless.functions.environments.scene import Scene
from marless_tasks.vmas.scenario_shapes import draw
from marless_tasks.vmas.simulation import Agent, Simulation, simulate

PREFIX = "vmas/"
_SEEDS = 2**31
_HORIZON = 100


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments of the scenario in `task.name`.

    Raises `MissingExtra` if VMAS is missing, and `Unsupported` unless observations are vectors. Raises `ValueError` for
    unknown scenarios or options, and for another number of agents than `task.agents`.
    """
    options = dict(task.options)
    horizon, continuous = options.pop("horizon", _HORIZON), options.pop("continuous_actions", False)
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
        raise ValueError(f"{task.name}: task.options.horizon is {horizon!r}; it must be a whole number from 1")
    if not isinstance(continuous, bool):
        raise ValueError(f"{task.name}: task.options.continuous_actions is {continuous!r}; it must be true or false")
    if task.agents is not None:
        if task.agents < 1:
            raise ValueError(f"{task.name}: task.agents is {task.agents}; at least 1 is needed")
        options["n_agents"] = task.agents
    simulation = simulate(task.name, task.name.removeprefix(PREFIX), num_envs, horizon, continuous, options)
    if task.agents not in (None, len(simulation.agents)):
        agent_count = len(simulation.agents)
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but the scenario has {agent_count} agents")
    return VmasEnvironment(simulation, num_envs, horizon)


class VmasEnvironment:
    """E environments of one scenario."""

    def __init__(self, simulation: Simulation, num_envs: int, horizon: int) -> None:
        agents = simulation.agents
        self.num_envs = num_envs
        self.spec = EnvSpec(agents=tuple(agent.name for agent in agents), classes=_classes_of(agents), horizon=horizon)
        self._simulation = simulation
        # Called when episodes have ended, before the reset: the last states can be drawn there.
        self.before_reset: Callable[[], None] | None = None

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment. One draw of `rng` seeds all of them."""
        return self._observation(self._simulation.reset(int(rng.integers(_SEEDS))), self._nobody())

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all environments at once. Raises `EnvironmentFault`."""
        outcome = self._simulation.step(self._by_agent(actions))
        over, done = outcome.terminated, outcome.terminated | outcome.truncated
        observation, final = self._observation(outcome.observations, over), None
        if done.any():
            if self.before_reset is not None:
                self.before_reset()
            final = observation
            fresh = self._simulation.restart(done)
            newest = [np.where(done[:, None], new, old) for new, old in zip(fresh, outcome.observations, strict=True)]
            observation = self._observation(newest, self._nobody())
        return Step(
            observation=observation,
            rewards=outcome.rewards,
            terminated=np.repeat(over[:, None], len(self.spec.agents), axis=1),
            truncated=outcome.truncated,
            ended=done,
            final=final,
        )

    def render(self, index: int) -> Scene:
        """An environment: bodies in VMAS's colours, and its camera, which moves away as agents do."""
        return draw(self._simulation.environment, index)

    def close(self) -> None:
        """Holds nothing to free but memory."""

    def _nobody(self) -> BoolArray:
        return np.zeros(self.num_envs, dtype=np.bool_)

    def _by_agent(self, actions: tuple[ActionArray, ...]) -> list[ActionArray]:
        """The actions of every agent, ``[E]`` or ``[E, actions]``, within their bounds."""
        by_agent: dict[int, ActionArray] = {}
        for kind, numbers in zip(self.spec.classes, actions, strict=True):
            within = np.clip(numbers, kind.low, kind.high) if kind.continuous else numbers
            by_agent |= {agent: within[:, place] for place, agent in enumerate(kind.agents)}
        return [by_agent[agent] for agent in range(len(self.spec.agents))]

    def _observation(self, observations: list[FloatArray], over: BoolArray) -> Observation:
        """Return agents' observations, given ``[E, size]`` for each, with zeros in environments that are `over`
        ``[E]``."""
        values = []
        for kind in self.spec.classes:
            together = np.stack([observations[agent] for agent in kind.agents], axis=1).astype(np.float32)
            together[over] = 0
            values.append(together)
        alive = np.repeat(~over[:, None], len(self.spec.agents), axis=1)
        return Observation(values=tuple(values), alive=alive)


def _classes_of(agents: list[Agent]) -> tuple[AgentClass, ...]:
    """Agents with equal spaces, named after the first of them without its number."""
    groups: dict[Agent, list[int]] = {}
    for place, agent in enumerate(agents):
        groups.setdefault(agent._replace(name=""), []).append(place)
    names: list[str] = []
    for members in groups.values():
        first = agents[members[0]].name
        stem = re.sub(r"[_-]?\d+$", "", first) or "agent"
        names.append(first if stem in names else stem)
    return tuple(
        AgentClass(name, tuple(members), like.observation_size, like.actions, low=like.low, high=like.high)
        for name, (like, members) in zip(names, groups.items(), strict=True)
    )
