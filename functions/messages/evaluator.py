"""The tasks of evaluators, and their replies."""

from marless.functions.environments.base import EnvTask
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.order import Order
from marless.functions.messages.team import Team


class EvaluateTask(Order, frozen=True, kw_only=True, tag="evaluate"):
    """Play whole episodes with fixed policies."""

    environment: EnvTask
    """The env task."""
    team: Team
    """Which networks the agents act with."""
    policies: tuple[Ref, ...]
    """The objects of the networks."""
    stream: str
    """Name of the set of start states, which differ for every stream and round."""
    part: int
    """Number of this task's part of the set."""
    episodes: int
    """How many episodes this task plays."""
    greedy: bool = True
    """Agents take the most probable action, or the one of the highest value."""
    side: int | None = None
    """Returns are sums over the agents of this side (`EnvSpec.sides`), or over all."""

    def reads(self) -> tuple[Ref, ...]:
        return self.policies


class EvaluateReply(Message, frozen=True, kw_only=True, tag="evaluate"):
    """Results of the episodes."""

    returns: tuple[float, ...]
    """Undiscounted, summed over agents or those of the task's side, one per episode."""
    agent_returns: tuple[float, ...] = ()
    """Means by agent."""
    env_metrics: dict[str, float] = {}
    """Means over the episodes."""
