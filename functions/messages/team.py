"""The agents that share networks, and the agents that do not learn."""

from typing import Literal, Self

from marless.functions.messages.message import Message


class Opponents(Message, frozen=True, kw_only=True):
    """Agents that do not learn."""

    agents: tuple[int, ...]
    """Their numbers, ascending."""
    acting: Literal["drawn", "greedy", "random", "scripted"] = "drawn"
    """How they act in training: sampled from their policies, greedily, or without policies, at random or by a script.
    In evaluations those with policies act greedily."""
    script: str = ""
    """The script, as package.module:function; see marless.functions.environments.scripted."""

    @property
    def by_chance(self) -> bool:
        """True if they have no policies."""
        return self.acting in ("random", "scripted")


class Team(Message, frozen=True, kw_only=True):
    """The groups of agents that share networks."""

    groups: tuple[int, ...]
    """The group of each agent, named after its first member."""
    identity: bool = False
    """Whether networks take the agent's one-hot."""
    opponents: Opponents | None = None
    """Agents that do not learn, each of which is a separate group."""
    kernels: bool = False
    """Whether `marless.functions.native` computes what agents do, so that the bytes are the same on every machine."""

    @property
    def fixed(self) -> tuple[int, ...]:
        """The agents that do not learn."""
        return self.opponents.agents if self.opponents else ()

    @property
    def learners(self) -> tuple[int, ...]:
        """The agents that learn, ascending."""
        return tuple(agent for agent in range(len(self.groups)) if agent not in self.fixed)

    @property
    def learning(self) -> tuple[int, ...]:
        """The groups that learn, ascending."""
        return tuple(sorted({self.groups[agent] for agent in self.learners}))

    def origins(self, target: Self, group: int) -> set[int]:
        """The groups of this team that the members of a group of the team `target` are in."""
        return {origin for origin, new_group in zip(self.groups, target.groups, strict=True) if new_group == group}
