"""One PettingZoo environment of several: its dictionaries as rows of arrays, and its alive agents.

Most steps are ordinary: no agent ends, and all is of the expected kinds. They are written with as few checks as show
that. Whatever else an environment returns is read again with all checks, which find what is wrong, if anything is, and
name it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from functions.environments.base import AgentClass, BoolArray, FloatArray, Observation, RewardArray
from functions.environments.pettingzoo.agents import Agent
from functions.environments.pettingzoo.guard import Guard
from functions.environments.pettingzoo.state import StateWriter
from functions.environments.spaces.actions import ActionCodec
from functions.environments.spaces.observations import ObservationCodec, is_finite


@dataclass(frozen=True)
class Transition:
    """The end of one agent or more; `terminated` ``[N]``."""

    terminated: BoolArray
    truncated: bool
    # Of the environment: it has to be reset.
    ended: bool


class _Member(NamedTuple):
    """An alive agent."""

    key: Any
    # Its class.
    kind: int
    # Its place in the arrays of its class: environment, and number in the class.
    at: tuple[int, int]
    write_quickly: Callable[[Any, FloatArray, Any], None]
    agent: Agent


class Copy:
    """Environment number `row`; it writes into that row of an `Observation`, which must be blank."""

    def __init__(
        self,
        row: int,
        guard: Guard,
        agents: list[Agent],
        classes: tuple[AgentClass, ...],
        horizon: int,
        state: ObservationCodec | None,
    ) -> None:
        self._row = row
        self._guard = guard
        self._agents = agents
        self._horizon = horizon
        self._state = None if state is None else StateWriter(row, guard, classes, state)
        places = {i: (c, (row, j)) for c, kind in enumerate(classes) for j, i in enumerate(kind.agents)}
        everybody = [(agent, *places[i]) for i, agent in enumerate(agents)]
        self._everybody = [
            _Member(who.key, kind, at, who.codec.observation.write_quickly, who) for who, kind, at in everybody
        ]
        # Classes with observations that may be other than finite.
        self._fallible = [c for c, kind in enumerate(classes) if not agents[kind.agents[0]].codec.observation.finite]
        # The environment's list of agents when it was last found to be right, and at the start of the last episode.
        self._listed: Any = None
        self._complete: Any = None
        # Those who have left that list since the episode began.
        self._left: set[Any] = set()
        self._let_live(np.zeros(len(agents), dtype=np.bool_))

    def reset(self, seed: int, into: Observation) -> None:
        self._guard.steps = 0
        observations, _ = self._guard.mappings("reset", self._guard.call("reset", seed=seed), 2)
        if len(self._members) < len(self._agents):
            self._let_live(np.ones(len(self._agents), dtype=np.bool_))
        self._left = set()
        self._check_complete()
        self._write_observations("reset", observations, into)

    def step(self, native_actions: list[Any], into: Observation, rewards: RewardArray) -> Transition | None:
        """Steps the alive agents; None if none of them ended, neither by its rules nor by a time limit.

        `native_actions` are the environment's own actions ``[E, n, ...]`` per class; rewards go into its row of
        `rewards` ``[E, N]``, zeros.
        """
        guard = self._guard
        guard.steps += 1
        actions = {key: native_actions[kind][at[0]][at[1]] for key, kind, at, _, _ in self._members}
        try:
            answer = guard.environment.step(actions)
        except Exception as error:
            raise guard.fault_of("step", error) from error
        guard.settle("step")
        ends = self._read_quickly(answer, rewards)
        if ends is None:
            transition = self._judge(answer, rewards)
        elif any(ends) or guard.steps >= self._horizon:
            transition = self._end(terminated=ends[0])
        else:
            transition = None
        self._write_observations("step", answer[0], into)
        return transition

    def _let_live(self, alive: BoolArray) -> None:
        """Sets who is alive ``[N]``."""
        self.alive = alive
        self._living = [i for i, lives in enumerate(alive.tolist()) if lives]
        self._members = [self._everybody[i] for i in self._living]

    def _read_quickly(self, answer: Any, rewards: RewardArray) -> tuple[bool, bool] | None:
        """Whether all alive agents terminated, and whether all were truncated; writes their rewards.

        None if some did and others did not, or something is not known to be right.
        """
        try:
            observations, reward_by_agent, terminations, truncations, infos = answer
            first = self._members[0].key
            terminated, truncated = terminations[first], truncations[first]
            numbers = []
            for key, *_ in self._members:
                # Identity takes a tenth of the time of ``==`` where numpy's truth values are compared.
                if terminations[key] is not terminated or truncations[key] is not truncated:
                    return None
                numbers.append(reward_by_agent[key])
            row = rewards[self._row]
            row[... if len(numbers) == len(row) else self._living] = numbers
            right = (
                isinstance(answer, tuple)
                and isinstance(observations, dict)
                and isinstance(reward_by_agent, dict)
                and isinstance(terminations, dict)
                and isinstance(truncations, dict)
                and isinstance(infos, dict)
                # As in `_judge`: where the time is up, nobody looks at who is left.
                and (
                    (truncated and not terminated)
                    or self._guard.environment.agents == ([] if terminated else self._listed)
                )
                and math.isfinite(math.fsum(row.tolist()))
            )
            return (_truth(terminated), _truth(truncated)) if right else None
        except Exception:  # whatever it is, the checks of `_judge` say it in words
            return None

    def _end(self, terminated: bool) -> Transition:
        """The end of all alive agents, by the rules or by the time limit."""
        if not terminated:
            return Transition(np.zeros_like(self.alive), truncated=True, ended=True)
        before = self.alive
        self._let_live(np.zeros_like(before))
        return Transition(before, truncated=False, ended=True)

    def _judge(self, answer: Any, rewards: RewardArray) -> Transition | None:
        """Which agents ended, with all checks; writes the rewards."""
        guard, before = self._guard, self.alive
        _, reward_by_agent, terminations, truncations, _ = guard.mappings("step", answer, 5)
        rewards[self._row] = self._per_agent(reward_by_agent, "reward")
        terminated = self._per_agent(terminations, "termination") != 0
        cut = (self._per_agent(truncations, "truncation") != 0) & ~terminated
        if terminated.any():
            self._let_live(before & ~terminated)
        if cut.any() and not cut[self.alive].all():
            names = [self._agents[i].name for i in np.flatnonzero(cut)]
            raise guard.unsupported("step", f"agents {names} are truncated while others go on")
        if not cut.any():
            self._check_present()
        truncated = bool(cut.any() or (guard.steps >= self._horizon and self._living))
        if not (truncated or terminated.any()):
            return None
        return Transition(terminated, truncated, truncated or not self._living)

    def _check_complete(self) -> None:
        agents = getattr(self._guard.environment, "agents", ())
        if not (isinstance(agents, list) and agents == self._complete):
            present = self._present("reset")
            if missing := [agent.name for agent in self._agents if agent.key not in present]:
                raise self._guard.unsupported("reset", f"an episode starts without agents {missing} of possible_agents")
            self._complete = self._listed
        self._listed = self._complete

    def _check_present(self) -> None:
        present = self._present("step")
        missing = [self._agents[i].name for i in self._living if self._agents[i].key not in present]
        if missing:
            raise self._guard.fault("step", f"agents {missing} are gone, but neither terminated nor truncated")
        if back := [agent.name for agent in self._agents if agent.key in present & self._left]:
            raise self._guard.unsupported(
                "step",
                f"agents {back} are back in `agents`, which they left in this episode; who is away for a while stays in"
                " `agents` and sees something (zeros, say)",
            )
        self._left = {agent.key for agent in self._agents} - present

    def _present(self, method: str) -> set[Any]:
        """The environment's current agents, which must be in possible_agents."""
        agents = getattr(self._guard.environment, "agents", ())
        present = {*agents}
        if unknown := sorted(str(key) for key in present - {agent.key for agent in self._agents}):
            raise self._guard.unsupported(method, f"agents {unknown} are not in possible_agents")
        self._listed = [*agents]
        return present

    def _per_agent(self, mapping: dict[Any, Any], what: str) -> RewardArray:
        """One number per alive agent, 0 for dead ones."""
        numbers = np.zeros(len(self._agents))
        for i in self._living:
            agent = self._agents[i]
            value = self._guard.entry("step", mapping, agent.key, what)
            numbers[i] = self._guard.number("step", value, f"the {what} of agent '{agent.name}'")
        return numbers

    def _write_observations(self, method: str, observations: dict[Any, Any], into: Observation) -> None:
        if not self._write_quickly(observations, into):
            for member in self._members:
                self._write_observation(method, observations, member, into)
        # Without agents the state is not needed, and many environments cannot give it.
        if self._state is not None and into.state is not None and self._living:
            self._state.write(into, len(self._living) == len(self._agents), into.state)

    def _write_quickly(self, observations: dict[Any, Any], into: Observation) -> bool:
        """Writes observations; if not all are known to be right, what it wrote is to be written again."""
        values, masks = into.values, into.masks
        try:
            for key, kind, at, write, agent in self._members:
                observation = observations[key]
                if masks is not None and agent.masked:
                    masks[kind][at] = _legal(agent.codec.action, observation["action_mask"])
                    observation = observation["observation"]
                write(observation, values[kind], at)
            for kind in self._fallible:
                if not is_finite(values[kind][self._row]):
                    raise ValueError
        except Exception:  # whatever it is, `_write_observation` says it in words
            return False
        return True

    def _write_observation(self, method: str, observations: dict[Any, Any], member: _Member, into: Observation) -> None:
        """Writes the observation of an agent with all checks."""
        key, kind, at, _, agent = member
        observation = self._guard.entry(method, observations, key, "observation")
        what = f"the observation of agent '{agent.name}'"
        if agent.masked and into.masks is not None:
            if not (isinstance(observation, dict) and {"observation", "action_mask"} <= observation.keys()):
                raise self._guard.fault(method, f"{what} is not a dictionary with its action_mask")
            mask, observation = observation["action_mask"], observation["observation"]
            with self._guard.spaces(method):
                legal = agent.codec.action.read_mask(mask, (), f"the action mask of agent '{agent.name}'")
            into.masks[kind][at] = legal
        with self._guard.spaces(method):
            agent.codec.observation.write(observation, what, into.values[kind][at])


def _truth(value: Any) -> bool:
    """Raises `TypeError` for anything but a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


def _legal(decoder: ActionCodec, mask: Any) -> Any:
    """Our mask for the environment's; raises an error for what it does not know to be right."""
    if mask.shape != (decoder.mask_size,) or mask.dtype.kind not in "biu":
        raise ValueError
    if len(decoder.choices) == 1:
        allows = any(mask.tobytes())
    else:
        allows = not decoder.joined and all(any(mask[columns].tobytes()) for columns in decoder.choices)
    if allows:
        return mask
    legal = decoder.legal(mask != 0)
    if legal is None:
        raise ValueError
    return legal
