"""The tasks of actors, and their replies."""

from typing import Annotated, Literal

import msgspec

from marless.functions.environments.base import EnvSpec, EnvTask
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.order import Order
from marless.functions.messages.team import Team


class Behaviour(Message, frozen=True, kw_only=True):
    """The way that agents act while data is collected."""

    kind: Literal["sample", "epsilon", "noise"] = "sample"
    """`sample`: sampled from the policy's distribution. `epsilon`: the action of the highest value, or with probability
    `amount` any legal one. `noise`: continuous actions plus normal noise, discrete ones sampled."""
    amount: float = 0.0
    """Epsilon, or the noise's standard deviation as a share of half the range."""


class DescribeTask(Order, frozen=True, kw_only=True, tag="describe"):
    """Return the `EnvSpec` of an env task."""

    environment: EnvTask
    """The env task."""
    evaluated: EnvTask | None = None
    """That of evaluations, where it is another, which the same policies must be able to play."""


class Recorded(Message, frozen=True, kw_only=True):
    """Rollouts are read from a dataset (`marless.functions.data.dataset`) and not played."""

    dataset: Ref
    """The dataset's object."""
    first: int
    """How many of the dataset's columns were read before the round."""


class Unfinished(Message, frozen=True, kw_only=True):
    """The episodes that some rollouts of earlier rounds have not finished. See `marless.functions.actor.fragments`."""

    rollouts: tuple[int, ...]
    """The numbers of these rollouts."""
    episodes: Ref
    """Their state; the object may hold episodes of other rollouts too, which have gone on since."""


class Sampling(Message, frozen=True, kw_only=True):
    """The part of a task that collects `rollouts`, each of `rollout_length` steps in `num_envs` environments."""

    environment: EnvTask
    """The env task."""
    rollouts: tuple[int, ...]
    """Numbers of the rollouts, unique in the round."""
    num_envs: int
    """Environments of a rollout, which are stepped together."""
    rollout_length: int
    """Steps of each environment."""
    copies: int = 1
    """How many consecutive environments begin alike."""
    recorded: Recorded | None = None
    """Where rollouts are read from; None if they are played."""
    fragments: bool = False
    """Whether rollouts are shorter than an episode, so that episodes go on in the next round."""
    unfinished: tuple[Ref, ...] = ()
    """The episodes that the rollouts go on with, oldest first; a rollout's newest count."""

    def reads(self) -> tuple[Ref, ...]:
        """Return the objects that the rollouts begin with."""
        return (*((self.recorded.dataset,) if self.recorded else ()), *self.unfinished)

    def writes(self) -> tuple[str, ...]:
        """Return the kinds of objects that the next round's rollouts begin with."""
        return ("unfinished",) if self.fragments else ()


class Match(Message, frozen=True, kw_only=True):
    """Agents of one side play by the newest policies and learn. All others play by policies of an earlier round, or by
    a script."""

    agents: tuple[int, ...]
    """The agents that learn."""
    team: Team
    """The team of the earlier round; one of opponents alone, if they play by a script."""
    policies: tuple[Ref, ...] = ()
    """The policies of the earlier round; empty for a script."""
    greedy: bool = False
    """Whether the policies of the earlier round act greedily."""


class SampleTask(Order, frozen=True, kw_only=True, tag="sample"):
    """Collect rollouts."""

    team: Team
    """Which networks the agents act with."""
    sampling: Sampling
    """The rollouts."""
    policies: tuple[Ref, ...]
    """The objects of the networks."""
    behaviour: Behaviour = Behaviour()
    """How agents explore."""
    match: Match | None = None
    """The opponents of these rollouts; None if all agents act by the newest policies."""

    def reads(self) -> tuple[Ref, ...]:
        return (*self.policies, *(self.match.policies if self.match else ()), *self.sampling.reads())

    def writes(self) -> tuple[str, ...]:
        return (*self.sampling.writes(), "trajectory")

    def continued_episodes(self) -> tuple[Ref, ...]:
        """See `Order`."""
        return self.sampling.unfinished

    def sampled_rollouts(self) -> int:
        """See `Order`."""
        return len(self.sampling.rollouts)


class DescribeReply(Message, frozen=True, kw_only=True, tag="describe"):
    """The spec of the env task."""

    spec: EnvSpec
    """Agents, spaces and horizon."""


class SampleReply(Message, frozen=True, kw_only=True, tag="sample"):
    """Results of the sampled episodes."""

    env_steps: Annotated[int, msgspec.Meta(ge=0)]
    """Steps of all environments."""
    returns: tuple[float, ...] = ()
    """Undiscounted, summed over agents, one per finished episode."""
    agent_returns: tuple[tuple[float, ...], ...] = ()
    """By rollout and agent, weighted sums over the rollout's episodes; by rollout, so that the mean over a round is bit
    for bit independent of how rollouts are assigned to tasks."""
    weights: tuple[tuple[float, ...], ...] = ()
    """By rollout, the weights of its episodes in `agent_returns`, of mean 1 (`marless.functions.episode_returns`);
    empty where all are 1 and every rollout has as many episodes, and where rollouts do not begin with a reset."""
    env_metrics: dict[str, float] = {}
    """Weighted means over the episodes."""
    score: float | None = None
    """In a match, the weighted mean over the episodes: 1 where the side that learns had the higher return, 0 where it
    had the lower one, and a half where both were equal."""
