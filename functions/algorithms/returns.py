"""What came of the steps of some agents: what they got, where nothing is to come, and which rows values learn from.

An agent that learns from its own reward is done when it dies. What it did before may still win or lose for its team, so
that a team's return goes on until nobody of the side is left, as in the code of Yu et al., "The Surprising
Effectiveness of PPO in Cooperative Multi-Agent Games", 2022, and values go on with it.
"""

from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from functions.algorithms.advantages import Flags, any_of_side, team_rewards, truncations
from functions.algorithms.base import Context


class Outcome(NamedTuple):
    """What followed the steps of some agents ``[n, T, E]``, or of a side ``[T, E]``: `over` where nothing is to come,
    `learned` where the row counts."""

    rewards: NDArray[Any]
    over: Flags
    learned: Flags

    @classmethod
    def of(cls, context: Context, agents: list[int], team: bool) -> Self:
        """What each agent got until it was gone or, with `team`, what its side got until nobody of it was left."""
        batch, sides = context.batch, context.spec.sides
        rewards, over, learned = batch.rewards, batch.terminated, batch.alive
        if team:
            rewards, learned = team_rewards(rewards, sides), any_of_side(batch.alive, sides)
            over = ~any_of_side(batch.alive & ~batch.terminated, sides)
        over = over[agents]
        if context.config.time_limit == "terminal":
            over = over | truncations(batch.ended, batch.cut)
        return cls(rewards[agents], over, learned[agents])
