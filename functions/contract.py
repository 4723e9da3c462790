"""The messages between the coordinator and the functions, and the records of the ledger.

Messages are frozen, tagged and refuse unknown fields. This module holds data only; handlers define what messages do.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol, Self, TypeVar

import msgspec

from functions.environments.base import EnvSpec, EnvTask

SCHEMA = 1

Hyperparameters = dict[str, str | int | float | bool | list[int]]

SummaryName = Literal["behaviour", "gaussian", "density", "curvature", "noise", "rewards"]
"""Summaries of policies that a learner can report; see `functions.algorithms.stage.Summary`."""
# The number of observations that policies are compared on, over all agents of a class.
COMPARED_OBSERVATIONS = 256
# Steps of every agent that its density is estimated from, and the dimensions that are kept of them.
DENSITY_SAMPLES, DENSITY_DIMENSIONS = 250, 4


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all messages. They refer to nothing that was made later, so no garbage is cyclic; with ten thousand tasks
    in flight the collector's search for cycles took most of the coordinator's time."""


class Ref(Message, frozen=True, kw_only=True):
    """An object in storage and the hash of its bytes."""

    key: str
    """The key in storage."""
    sha256: str
    """The hash of the object's bytes, in hexadecimal digits."""
    size: int
    """Bytes."""


class Table(Message, frozen=True, kw_only=True):
    """A small array inside a message: float32, row-major, little-endian; see `functions.codec`."""

    shape: tuple[int, ...]
    """The array's dimensions."""
    data: bytes
    """The numbers."""


class _Additive(Protocol):
    def __add__(self, other: Self) -> Self: ...


_Amount = TypeVar("_Amount", bound=_Additive)


def sums_by_name(first: Mapping[str, _Amount], second: Mapping[str, _Amount]) -> dict[str, _Amount]:
    """The amounts of both, added up where both have one."""
    return {**first, **{name: first[name] + each if name in first else each for name, each in second.items()}}


# More than any task can have of anything; larger counts in a message are no counts.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=2**40)]


class ActionUse(Message, frozen=True, kw_only=True):
    """What tasks used of a resource."""

    count: _Count = 0
    """Actions that they pay for."""
    hits: _Count = 0
    """Questions whose kept answer was paid for before, by another task or for an earlier question of this one."""
    ms: _Count = 0
    """Milliseconds that the resource worked at the actions they pay for; those of each are rounded up."""
    puts: _Count = 0
    """Objects that keeping answers stored."""
    gets: _Count = 0
    """Objects that it looked for."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def beyond(self, other: Self) -> Self:
        """What it has more than the other, count by count."""
        return type(self)(
            **{name: max(0, getattr(self, name) - getattr(other, name)) for name in self.__struct_fields__}
        )

    def scaled(self, share: float) -> Self:
        """As much of it, in whole numbers."""
        return type(self)(**{name: round(share * getattr(self, name)) for name in self.__struct_fields__})


class ActionTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True, gc=False):
    """One action of an attempt, in milliseconds since the attempt's task began."""

    resource: str
    """The resource's name."""
    slot: _Count
    """The slot that served it last, from 0."""
    asked_ms: _Milliseconds
    """When the environment asked."""
    begun_ms: _Milliseconds
    """When the resource began to work at it."""
    ended_ms: _Milliseconds
    """When the answer was there."""

    @property
    def completion_ms(self) -> float:
        """The action completion time."""
        return self.ended_ms - self.asked_ms


class Usage(Message, frozen=True, kw_only=True):
    """Storage operations and actions of one invocation in the units of the price list."""

    puts: int = 0
    """Objects written."""
    gets: int = 0
    """Objects read."""
    bytes_written: int = 0
    """Bytes of the objects written."""
    bytes_read: int = 0
    """Bytes of the objects read."""
    hits: int = 0
    """Objects that the process had kept, so that they were not read from storage."""
    hit_bytes: int = 0
    """Bytes of these."""
    actions: dict[str, ActionUse] = {}
    """Of the resources that were asked, by name."""

    def __add__(self, other: Self) -> Self:
        numbers = [name for name in self.__struct_fields__ if name != "actions"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return type(self)(**sums, actions=sums_by_name(self.actions, other.actions))

    @property
    def cold(self) -> "Usage":
        """The operations of the same invocation in a process that had kept no object."""
        gets, bytes_read = self.gets + self.hits, self.bytes_read + self.hit_bytes
        return msgspec.structs.replace(self, gets=gets, bytes_read=bytes_read, hits=0, hit_bytes=0)


class Opponents(Message, frozen=True, kw_only=True):
    """Agents that do not learn."""

    agents: tuple[int, ...]
    """Their numbers, ascending."""
    acting: Literal["drawn", "greedy", "random", "scripted"] = "drawn"
    """How they act in training: sampled from their policies, greedily, or without policies, at random or by a script.
    In evaluations those with policies act greedily."""
    script: str = ""
    """The script, as package.module:function; see functions.environments.scripted."""

    @property
    def by_chance(self) -> bool:
        """Whether they have no policies."""
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
    """Whether `functions.native` computes what agents do, so that the bytes are the same on every machine."""

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
        return {origin for origin, other in zip(self.groups, target.groups, strict=True) if other == group}


class Behaviour(Message, frozen=True, kw_only=True):
    """How agents act while data is collected."""

    kind: Literal["sample", "epsilon", "noise"] = "sample"
    """`sample`: sampled from the policy's distribution. `epsilon`: the action of the highest value, or with probability
    `amount` any legal one. `noise`: continuous actions plus normal noise, discrete ones sampled."""
    amount: float = 0.0
    """Epsilon, or the noise's standard deviation as a share of half the range."""


class Past(Message, frozen=True, kw_only=True):
    """The trajectories of a round that a later one learns from, alone or in a replay buffer."""

    round: int
    """The round's number."""
    rollouts: int
    """How many rollouts the round had."""
    trajectories: tuple[Ref, ...]
    """The objects that hold them."""


def past_objects(rounds: tuple[Past, ...]) -> tuple[Ref, ...]:
    """The objects with the trajectories of earlier rounds; one may hold several rounds."""
    return tuple({ref.key: ref for round_ in rounds for ref in round_.trajectories}.values())


class ReportTo(Message, frozen=True, kw_only=True):
    """Where a task reports its completion when no caller waits for its answer; see `functions.completion`."""

    ask: str
    """Name of the set of tasks that are awaited together, unique in the run."""
    index: int
    """Number of this task in the set."""
    count: int
    """The number of tasks in the set."""
    coordinator: str
    """Name of the function to wake when all of them have ended."""


class Address(Message, frozen=True, kw_only=True):
    """A task's place in its run, the same for every attempt."""

    id: str
    """`<run>/000007/sample/00000-00003`."""
    run: str
    """The run's name."""
    round: int
    """The round's number."""
    output: str
    """Key prefix of its objects."""
    seed: int
    """The run's seed, from which the task's random numbers follow."""


class ResourceRef(Message, frozen=True, kw_only=True):
    """A resource that a task's environments may ask by its name. Who serves it knows its settings."""

    identity: str
    """The hash of what its answers follow from, beside the question."""
    keep: bool = False
    """Whether answers are objects of the run."""


class LanguageModel(Message, frozen=True, kw_only=True):
    """A language model that stays as it is, and the size of what groups learn beside it: differences of low `rank` to
    the weights of its topmost `layers`."""

    base: Ref
    """The model's object. It may be of any size, so who reads it maps its file."""
    rank: int
    """The largest rank of a difference."""
    layers: int
    """How many layers have one."""


class Order(Message, frozen=True, kw_only=True):
    """What every task has: its address, and how its attempt is served."""

    address: Address
    """Which task it is."""
    attempt: int = 0
    """The attempt's number, from 0."""
    timeout_s: float = 0.0
    """Time limit of this attempt."""
    inline_objects: bool = False
    """Whether the objects of the answer travel in its message instead of through storage."""
    inlined: dict[str, bytes] = {}
    """Objects by key that this message holds."""
    report_to: ReportTo | None = None
    """If set, the whole answer is stored, because no caller waits for it."""
    resources: dict[str, ResourceRef] = {}
    """What the task's environments may ask, by name; none where the task makes no environment."""
    model: LanguageModel | None = None
    """What agents speak by; None for tasks of others."""

    def reads(self) -> tuple[Ref, ...]:
        """All objects that the task reads; one that it reads twice stands twice.

        Whoever counts, sends along or plans reads takes them from here: the bill, the cap, estimates, the pool.
        """
        return ()

    def reads_from_storage(self) -> tuple[Ref, ...]:
        """The objects that the task reads from storage if its process has kept none."""
        return tuple(ref for ref in self.reads() if ref.key not in self.inlined)

    def writes(self) -> tuple[str, ...]:
        """The kinds of the objects that the task stores, in this order; the header of the last holds its answer."""
        return ()


class DescribeTask(Order, frozen=True, kw_only=True, tag="describe"):
    """Return the `EnvSpec` of an env task."""

    environment: EnvTask
    """The env task."""
    evaluated: EnvTask | None = None
    """That of evaluations, where it is another, which the same policies must be able to play."""


class Recorded(Message, frozen=True, kw_only=True):
    """Rollouts are read from a dataset (`functions.data.dataset`) and not played."""

    dataset: Ref
    """The dataset's object."""
    first: int
    """How many of the dataset's columns were read before the round."""


class Unfinished(Message, frozen=True, kw_only=True):
    """The episodes that some rollouts of earlier rounds have not finished; see `functions.actor.fragments`."""

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
        """What the rollouts begin with."""
        return (*((self.recorded.dataset,) if self.recorded else ()), *self.unfinished)

    def writes(self) -> tuple[str, ...]:
        """What the next round's rollouts begin with."""
        return ("unfinished",) if self.fragments else ()


class Base(Message, frozen=True, kw_only=True):
    """The state of another run's groups: networks that stay as they are, to which groups learn differences."""

    networks: Ref
    """The object of its tensors, without those of optimisers."""
    team: Team
    """The groups of that run."""


# Which rows a group of several agents learns from: those of all members, or one member's share of them.
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
    base: Base | None = None
    """What networks are differences to; None if they are whole."""

    def reads(self) -> tuple[Ref, ...]:
        """The base, and what fills the replay buffer."""
        return (*((self.base.networks,) if self.base else ()), *past_objects(self.past))


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


class Match(Message, frozen=True, kw_only=True):
    """Agents of one side play by the newest policies and learn; all others play by those of an earlier round, or by a
    script."""

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


class LearnTask(Order, frozen=True, kw_only=True, tag="learn"):
    """Run stages of the algorithm on the trajectories of the round, or of an earlier one."""

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


class WholeTask(Order, frozen=True, kw_only=True, tag="whole"):
    """Sample and learn several rounds in one invocation, the first of them that of the address.

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


class RegroupTask(Order, frozen=True, kw_only=True, tag="regroup"):
    """Make the networks of the team `target` from those of `team`."""

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


Request = DescribeTask | InitialiseTask | SampleTask | LearnTask | WholeTask | RegroupTask | EvaluateTask


class DescribeReply(Message, frozen=True, kw_only=True, tag="describe"):
    """The spec of the env task."""

    spec: EnvSpec
    """Agents, spaces and horizon."""


class InitialiseReply(Message, frozen=True, kw_only=True, tag="initialise"):
    """The networks of round 0 are stored."""


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
    """By rollout, the weights of its episodes in `agent_returns`, of mean 1 (`functions.episode_returns`); empty where
    all are 1 and every rollout has as many episodes, and where rollouts do not begin with a reset."""
    env_metrics: dict[str, float] = {}
    """Weighted means over the episodes."""
    score: float | None = None
    """In a match, the weighted mean over the episodes: 1 where the side that learns had the higher return, 0 where it
    had the lower one, and a half where both were equal."""


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


class EvaluateReply(Message, frozen=True, kw_only=True, tag="evaluate"):
    """Results of the episodes."""

    returns: tuple[float, ...]
    """Undiscounted, summed over agents or those of the task's side, one per episode."""
    agent_returns: tuple[float, ...] = ()
    """Means by agent."""
    env_metrics: dict[str, float] = {}
    """Means over the episodes."""


Reply = DescribeReply | InitialiseReply | SampleReply | LearnReply | WholeReply | RegroupReply | EvaluateReply


class Done(Message, frozen=True, kw_only=True, tag="done"):
    """The answer of a task that succeeded."""

    id: str
    """The task's, as in its address."""
    attempt: int
    """The attempt that answers."""
    objects: dict[str, Ref] = {}
    """By kind: `policies`, `learner`, `tensors`, `trajectory`, `unfinished`, or `played` for the trajectories of
    several rounds."""
    reply: Reply
    """Results other than objects."""
    usage: Usage = Usage()
    """Storage operations and actions of the attempt."""
    actions: tuple[ActionTime, ...] = ()
    """Its actions; not part of the stored answer, as `usage` is not."""
    actions_of: int | None = None
    """The attempt that asked them, where this one found its answer stored; None: this one."""
    inlined: dict[str, bytes] = {}
    """Objects by key that this message holds; none of them is stored."""
    remarks: tuple[str, ...] = ()
    """What a user should know of the task's code, such as what it did to its process, for the run's output; not part of
    the stored answer."""


FailureKind = Literal[
    "environment", "not_finite", "foreign_object", "corrupt_object", "storage", "request", "missing_extra"
]


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """The answer of a task that failed."""

    id: str
    """The task's, as in its address."""
    attempt: int
    """The attempt that failed."""
    kind: FailureKind
    """What failed."""
    message: str
    """The error, for the user."""
    again: bool
    """Whether another attempt may succeed."""
    usage: Usage = Usage()
    """Storage operations and actions of the attempt."""
    actions: tuple[ActionTime, ...] = ()
    """As in `Done`."""
    remarks: tuple[str, ...] = ()
    """As in `Done`."""


Answer = Done | Failed


class Origin(Message, frozen=True, kw_only=True):
    """Where the rollouts of one round come from."""

    round: int
    """The round that they were collected in, counted from 0."""
    policies: str = ""
    """The hash of the policies that they were played with (`functions.data.origins`), of all groups and fixed
    opponents; '' for rollouts of a dataset."""
    opponents: str = ""
    """In a match, the hash of the policies of the agents that played by those of an earlier round, if they have
    any."""
    dataset: str = ""
    """The hash of the dataset's object, for rollouts that were read from it."""


class TaskHeader(Message, frozen=True, kw_only=True, omit_defaults=False):
    """The header of every stored object: the task that wrote it and, on the task's last object, its answer."""

    schema: int = SCHEMA
    """The version of the format."""
    task: str
    """The id of the task."""
    done: Done | None = None
    """The task's answer; None on all its objects but the last."""
    origins: tuple[Origin, ...] = ()
    """Of the trajectories of each round that the object holds, oldest first; empty for other objects."""


class ActionsHeader(Message, frozen=True, kw_only=True):
    """The header of the object with the actions of a task, which stands beside those with its results: what follows
    from time is not in these."""

    schema: int = SCHEMA
    """The version of the format."""
    task: str
    """The id of the task."""
    attempt: int
    """The attempt that asked them."""
    use: dict[str, ActionUse]
    """As `Usage.actions`."""
    actions: tuple[ActionTime, ...] = ()
    """As `Done.actions`."""


class Record(Message, frozen=True, kw_only=True):
    """An item of the ledger."""

    version: int
    """How often the item was written; conditional writes compare it."""
    body: bytes
    """The item's bytes."""
    at: float = 0.0
    """When it was written, in seconds since 1970; 0 if the back-end does not report it."""


LatencyName = Literal["", "aws", "emulated"]
"""Whose latencies pass between coordinator and functions; '' on one machine."""


class Platform(Message, frozen=True, kw_only=True):
    """The properties of a platform that a run relies on, by default those of processes on this machine."""

    concurrency: int = 1
    """The number of functions that run concurrently."""
    at_once: int | None = None
    """The most attempts of a detached run in flight; None: the platform queues what is beyond the concurrency."""
    init_limit_ms: int = 0
    """The limit of a start-up, in addition to the time-out."""
    startup_counts_to_timeout: bool = True
    """Whether a function is killed, and billed no more, once start-up and task together reach their limits."""
    sizes_fixed: bool = False
    """Whether functions keep the memory that they were deployed with."""
    bodies_leave_region: bool = False
    """Whether functions log in a region of the cloud, and their answers leave it: both are billed by the byte."""
    items_padded: bool = False
    """Whether the ledger bills what its table keeps beside an item's body, and of a write the larger of both bodies."""
    requests_billed: bool = False
    """Whether storage bills the coordinator's requests to list objects and to check that they are durable."""
    messages_limited: bool = False
    """Whether requests and answers have a largest size."""
    functions_outlive_driver: bool = False
    """Whether functions in flight go on, and store objects, when the process that invoked them has ended."""
    latency: LatencyName = ""
    """Whose latencies the planner counts between coordinator and functions."""
    can_inline: bool = True
    """Whether messages may carry objects, which needs a coordinator process that persists between rounds."""
    cpu_scaling: bool = True
    """Whether durations are measured on whole cores and scaled to the share of a vCPU that a function's memory buys."""
    coordinator_mb: int = 0
    """Memory of a coordinator that is a function, else 0."""
    grace_s: float = 0.0
    """How long, beyond time-outs and start-ups, a detached run waits for attempts without a report."""

    def on_lambda(self, latency: LatencyName = "aws") -> Self:
        """With the abilities of deployed functions, a table and a bucket."""
        return msgspec.structs.replace(
            self,
            startup_counts_to_timeout=False,
            sizes_fixed=True,
            bodies_leave_region=True,
            items_padded=True,
            requests_billed=True,
            messages_limited=True,
            functions_outlive_driver=True,
            latency=latency,
        )


class Report(Message, frozen=True, kw_only=True):
    """The outcome of one invocation, measured by the platform (its REPORT line)."""

    id: str
    """The task's, as in its address."""
    attempt: int
    """The attempt that ended."""
    function: str
    """The name of the function."""
    outcome: Literal["answered", "timeout", "crash", "throttled", "withdrawn"]
    """How the invocation ended; one that was withdrawn waited for a worker until the run was to stop."""
    body: bytes = b""
    """An encoded `Answer` when `outcome` is `answered`."""
    duration_ms: float = 0.0
    """Milliseconds on this machine."""
    init_ms: float = 0.0
    """Start of the execution environment when this invocation paid for it."""
    queued_ms: float = 0.0
    """How long it waited for a slot, where the platform says so; never billed."""
    peak_mb: float = 0.0
    """The most memory it used, MB."""
    detail: str = ""
    """Why it did not answer, if it did not."""
    remarks: tuple[str, ...] = ()
    """What happened to its process, for the run's output."""
    action_use: dict[str, ActionUse] = {}
    """What the attempt used of resources, where the platform knows and no answer says: those of workers that died."""
    actions: tuple[ActionTime, ...] = ()
    """The actions of such an attempt."""

    @property
    def has_begun(self) -> bool:
        """Whether the attempt may have run; one that has not costs nothing."""
        return self.outcome not in ("throttled", "withdrawn")
