"""The tasks of learners, and their replies."""

from collections.abc import Sequence
from typing import Literal

from marless.functions.environments.base import EnvSpec
from marless.functions.messages.actor import Behaviour, SampleReply, Sampling
from marless.functions.messages.message import Message, Ref, Table
from marless.functions.messages.order import Order
from marless.functions.messages.team import Team

Hyperparameters = dict[str, str | int | float | bool | list[int]]

SummaryName = Literal["behaviour", "gaussian", "density", "curvature", "noise", "rewards"]
"""Summaries of policies that a learner can report; see `marless.functions.algorithms.stage.PolicySummary`."""
# The number of observations that policies are compared on, over all agents of a class.
COMPARED_OBSERVATIONS = 256
# Steps of every agent that its density is estimated from, and the dimensions that are kept of them.
DENSITY_SAMPLES, DENSITY_DIMENSIONS = 250, 4


class Past(Message, frozen=True, kw_only=True):
    """The trajectories of a round that a later one learns from, alone or in a replay buffer."""

    round: int
    """The round's number."""
    rollouts: int
    """How many rollouts the round had."""
    trajectories: tuple[Ref, ...]
    """The objects that hold them."""


def past_objects(rounds: tuple[Past, ...]) -> tuple[Ref, ...]:
    """The objects with the trajectories of earlier rounds. One may hold several rounds."""
    return tuple({ref.key: ref for round_ in rounds for ref in round_.trajectories}.values())


class FrozenNetworks(Message, frozen=True, kw_only=True):
    """The state of another run's groups: constant networks, and groups learn differences to them."""

    networks: Ref
    """The object of its tensors, without those of optimisers."""
    team: Team
    """The groups of that run."""


# The rows that a group of several agents learns from: the rows of all members, or one member's share of them.
Rows = Literal["pooled", "member"]


class Learning(Message, frozen=True, kw_only=True):
    """The part of a task that makes or trains networks."""

    spec: EnvSpec
    """Agents and spaces of the env task."""
    algorithm: str
    """The algorithm's name."""
    hyperparameters: Hyperparameters
    """The algorithm's configuration."""
    rows: Rows = "pooled"
    """Which rows a group learns from."""
    summaries: tuple[SummaryName, ...] = ()
    """The summaries to compute for the groups whose policies the task trains."""
    updates: int = 1
    """How many updates the task computes in a round."""
    past: tuple[Past, ...] = ()
    """Earlier rounds in the replay buffer, oldest first."""
    micro_batch: int = 0
    """The rollouts of a micro-batch, over which the round is summed part by part; 0: the round is learned from at
    once."""
    base: FrozenNetworks | None = None
    """What networks are differences to; None if they are whole."""

    def reads(self) -> tuple[Ref, ...]:
        """Return the base, and the objects that fill the replay buffer."""
        return (*((self.base.networks,) if self.base else ()), *past_objects(self.past))

    def gpus(self) -> int:
        """The number of GPUs that training computes on."""
        return int(self.hyperparameters.get("device") == "cuda")


class InitialiseTask(Order, frozen=True, kw_only=True, tag="initialise"):
    """Initialise the networks of round 0."""

    team: Team
    """The groups that get networks."""
    learning: Learning
    """The algorithm that makes the networks."""
    rank: int = 0
    """The largest rank of differences to the base."""

    def reads(self) -> tuple[Ref, ...]:
        return self.learning.reads()

    def writes(self) -> tuple[str, ...]:
        return ("policies", "learner")


class LearnTask(Order, frozen=True, kw_only=True, tag="learn"):
    """Run stages of the algorithm on the trajectories of the round, or of an earlier round."""

    team: Team
    """Which agents share networks."""
    learning: Learning
    """The algorithm."""
    stages: tuple[str, ...]
    """The algorithm's stages to run, in order."""
    groups: tuple[int, ...]
    """The groups to run them for."""
    omissions: tuple[tuple[str, int], ...] = ()
    """Pairs of a stage and a group that another task runs."""
    rollouts: tuple[int, ...]
    """Numbers of the rollouts to learn from."""
    trajectories: tuple[Ref, ...]
    """The objects that hold these rollouts."""
    state: tuple[Ref, ...]
    """The policies and learner state before the round."""
    tensors: tuple[Ref, ...] = ()
    """The results of earlier stages of this round."""
    publish_tensors: bool = False
    """Whether the intermediate tensors of the stages are stored for later tasks of the round."""
    progress: float = 0.0
    """The share of the run that is over before the round, for schedules."""
    first_update: int = 0
    """Number of the first of its updates in the round."""
    partial: int | None = None
    """The number of the micro-batch whose sums are all that the task makes; it reads only the trajectories of this
    one."""
    age: int = 0
    """How many rounds before the address's one the rollouts were collected."""

    @property
    def sampled(self) -> Past:
        """The round that it learns from."""
        return Past(round=self.address.round - self.age, rollouts=len(self.rollouts), trajectories=self.trajectories)

    def reads(self) -> tuple[Ref, ...]:
        return (*self.trajectories, *self.state, *self.tensors, *self.learning.reads())

    def writes(self) -> tuple[str, ...]:
        if self.partial is not None:
            return ("tensors",)
        # Policies only where a stage trains them.
        return ("policies", *(("tensors",) if self.publish_tensors else ()), "learner")

    def gpus(self) -> int:
        """See `Order`."""
        return self.learning.gpus()


class WholeTask(Order, frozen=True, kw_only=True, tag="whole"):
    """Sample and learn several rounds in one invocation, beginning with the address's round.

    All stages run for all groups. Every round gives the same bytes as separate tasks.
    """

    team: Team
    """Which agents share networks."""
    sampling: Sampling
    """The rollouts of each round."""
    learning: Learning
    """The algorithm."""
    behaviours: tuple[Behaviour, ...]
    """How agents explore, one for each round."""
    state: tuple[Ref, ...]
    """The policies and learner state before the first round."""
    progress: tuple[float, ...] = ()
    """As in `LearnTask`, one for each round, or none for runs without schedules."""
    replayed_steps: int = 0
    """Capacity of the replay buffer in environment steps; if positive, trajectories are stored for later rounds."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.behaviours)

    def reads(self) -> tuple[Ref, ...]:
        return (*self.state, *self.sampling.reads(), *self.learning.reads())

    def writes(self) -> tuple[str, ...]:
        return (*self.sampling.writes(), *(("played",) if self.replayed_steps else ()), "policies", "learner")

    def continued_episodes(self) -> tuple[Ref, ...]:
        """See `Order`."""
        return self.sampling.unfinished

    def gpus(self) -> int:
        """See `Order`."""
        return self.learning.gpus()


class RegroupTask(Order, frozen=True, kw_only=True, tag="regroup"):
    """Make the networks of the team `target` from the networks of `team`."""

    team: Team
    """The present groups."""
    target: Team
    """The groups that get networks."""
    sampling: Sampling
    """As in the `SampleTask`s of the round; what rollouts begin with is read only where they are collected again."""
    learning: Learning
    """The algorithm that trains the networks."""
    bases: dict[int, int]
    """By new group, the old group whose networks it starts from; groups that do not change are absent."""
    trajectories: tuple[Ref, ...]
    """The round's data; if empty, the rollouts are collected again with `policies`, which gives the same bytes."""
    policies: tuple[Ref, ...]
    """The policies that the round's data was collected with."""
    behaviour: Behaviour = Behaviour()
    """As in the `SampleTask`s of the round."""
    state: tuple[Ref, ...]
    """The policies and learner state of the present groups."""
    distil_steps: int = 0
    """Steps of distillation from the members' policies into a merged one."""

    def reads(self) -> tuple[Ref, ...]:
        return (*self.trajectories, *self.policies, *self.state, *self.sampling.reads())

    def writes(self) -> tuple[str, ...]:
        return ("policies", "learner")

    def continued_episodes(self) -> tuple[Ref, ...]:
        """See `Order`."""
        return self.sampling.unfinished

    def gpus(self) -> int:
        """See `Order`."""
        return self.learning.gpus()


class InitialiseReply(Message, frozen=True, kw_only=True, tag="initialise"):
    """The networks of round 0 are stored."""


class LearnReply(Message, frozen=True, kw_only=True, tag="learn"):
    """Results of learning other than tensors."""

    metrics: dict[str, float] = {}
    """By `<stage>/<metric>/<group>`."""
    tables: dict[str, Table] = {}
    """By `<summary>/<agent>`."""


class WholeReply(Message, frozen=True, kw_only=True, tag="whole"):
    """Results of sampling and learning by round."""

    samples: tuple[SampleReply, ...]
    """One for each round."""
    learns: tuple[LearnReply, ...]
    """One for each round."""


class RegroupReply(Message, frozen=True, kw_only=True, tag="regroup"):
    """Results of the change."""

    metrics: dict[str, float] = {}
    """By `<metric>/<group>`."""


def newest_rounds(rounds: Sequence[Past], rollout_steps: int, most_steps: int) -> tuple[Past, ...]:
    """The last of `rounds`, in order: at most `most_steps` environment steps in total, but always the last round.

    A rollout has `rollout_steps` environment steps.
    """
    newest: list[Past] = []
    steps = 0
    for round_ in reversed(rounds):
        steps += round_.rollouts * rollout_steps
        if newest and steps > most_steps:
            break
        newest.append(round_)
    return tuple(reversed(newest))
