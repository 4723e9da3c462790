"""The messages between the coordinator and the functions, the records of the ledger, and the errors of both sides.

Messages are frozen, tagged and refuse unknown fields. This module holds data only; handlers define what messages do.
"""

from typing import Annotated, Literal, Self

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
    sha256: str
    size: int


class Table(Message, frozen=True, kw_only=True):
    """A small array inside a message: float32, row-major, little-endian; see `functions.codec`."""

    shape: tuple[int, ...]
    data: bytes


class Usage(Message, frozen=True, kw_only=True):
    """Storage operations of one invocation in the units of the price list."""

    puts: int = 0
    gets: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    # Objects, and their bytes, that the process had kept, so that they were not read from storage.
    hits: int = 0
    hit_bytes: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def cold(self) -> "Usage":
        """The operations of the same invocation in a process that had kept no object."""
        gets, bytes_read = self.gets + self.hits, self.bytes_read + self.hit_bytes
        return Usage(puts=self.puts, gets=gets, bytes_written=self.bytes_written, bytes_read=bytes_read)


class Opponents(Message, frozen=True, kw_only=True):
    """Agents that do not learn."""

    agents: tuple[int, ...]
    # How they act in training: sampled from their policies, greedily, or without policies, at random or by a script. In
    # evaluations those with policies act greedily.
    acting: Literal["drawn", "greedy", "random", "scripted"] = "drawn"
    # The script, as package.module:function; see functions.environments.scripted.
    script: str = ""

    @property
    def by_chance(self) -> bool:
        """Whether they have no policies."""
        return self.acting in ("random", "scripted")


class Team(Message, frozen=True, kw_only=True):
    """The groups of agents that share networks."""

    # The group of each agent, named after its first member.
    groups: tuple[int, ...]
    # Networks take the agent's one-hot.
    identity: bool = False
    # Each of these agents is a separate group.
    opponents: Opponents | None = None

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
        return {own for own, other in zip(self.groups, target.groups, strict=True) if other == group}


class Behaviour(Message, frozen=True, kw_only=True):
    """How agents act while data is collected."""

    # `sample`: sampled from the policy's distribution. `epsilon`: the action of the highest value, or with probability
    # `amount` any legal one. `noise`: continuous actions plus normal noise, discrete ones sampled.
    kind: Literal["sample", "epsilon", "noise"] = "sample"
    # Epsilon, or the noise's standard deviation as a share of half the range.
    amount: float = 0.0


class Past(Message, frozen=True, kw_only=True):
    """The trajectories of an earlier round, for algorithms with a replay buffer."""

    round: int
    rollouts: int
    trajectories: tuple[Ref, ...]


def past_objects(rounds: tuple[Past, ...]) -> tuple[Ref, ...]:
    """The objects with the trajectories of earlier rounds; one may hold several rounds."""
    return tuple({ref.key: ref for round_ in rounds for ref in round_.trajectories}.values())


class ReportTo(Message, frozen=True, kw_only=True):
    """Where a task reports its completion when no caller waits for its answer; see `functions.completion`."""

    # Number of the set of tasks that were dispatched together, unique in the run.
    ask: int
    # Number of this task in the set, and the number of tasks in it.
    index: int
    count: int
    # Name of the function to wake when all of them have ended.
    coordinator: str


class Address(Message, frozen=True, kw_only=True):
    """A task's place in its run, the same for every attempt."""

    # `<run>/000007/sample/00000-00003`.
    id: str
    run: str
    round: int
    # Key prefix of its objects.
    output: str
    seed: int


class Order(Message, frozen=True, kw_only=True):
    """What every task has: its address, and how its attempt is served."""

    address: Address
    attempt: int = 0
    # Time limit of this attempt.
    timeout_s: float = 0.0
    # The objects of the answer travel in its message instead of through storage.
    inline_objects: bool = False
    # Objects by key that this message holds.
    inlined: dict[str, bytes] = {}
    # The whole answer is stored, because no caller waits for it.
    report_to: ReportTo | None = None

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


class Recorded(Message, frozen=True, kw_only=True):
    """Rollouts are read from a dataset (`functions.data.dataset`) and not played."""

    dataset: Ref
    # How many of the dataset's columns were read before the round.
    first: int


class Unfinished(Message, frozen=True, kw_only=True):
    """The episodes that some rollouts of earlier rounds have not finished; see `functions.actor.fragments`."""

    rollouts: tuple[int, ...]
    # It may hold episodes of other rollouts too, which have gone on since.
    episodes: Ref


class Sampling(Message, frozen=True, kw_only=True):
    """The part of a task that collects `rollouts`, each of `rollout_length` steps in `num_envs` environments."""

    environment: EnvTask
    rollouts: tuple[int, ...]
    num_envs: int
    rollout_length: int
    recorded: Recorded | None = None
    # Rollouts are shorter than an episode; their episodes go on in the next round.
    fragments: bool = False
    # The episodes that the rollouts go on with, oldest first; a rollout's newest count.
    unfinished: tuple[Ref, ...] = ()

    def reads(self) -> tuple[Ref, ...]:
        """What the rollouts begin with."""
        return (*((self.recorded.dataset,) if self.recorded else ()), *self.unfinished)

    def writes(self) -> tuple[str, ...]:
        """What the next round's rollouts begin with."""
        return ("unfinished",) if self.fragments else ()


# Which rows a group of several agents learns from: those of all members, or one member's share of them.
Rows = Literal["pooled", "member"]


class Learning(Message, frozen=True, kw_only=True):
    """The part of a task that makes or trains networks."""

    spec: EnvSpec
    algorithm: str
    hyperparameters: Hyperparameters
    rows: Rows = "pooled"
    # Computed for the groups whose policies the task trains.
    summaries: tuple[SummaryName, ...] = ()
    # How many updates the task computes in a round.
    updates: int = 1
    # Earlier rounds in the replay buffer, oldest first.
    past: tuple[Past, ...] = ()

    def reads(self) -> tuple[Ref, ...]:
        """What fills the replay buffer."""
        return past_objects(self.past)


class InitialiseTask(Order, frozen=True, kw_only=True, tag="initialise"):
    """Initialise the networks of round 0."""

    team: Team
    learning: Learning

    def writes(self) -> tuple[str, ...]:
        return ("policies", "learner")


class Match(Message, frozen=True, kw_only=True):
    """Agents of one side play by the newest policies and learn; all others play by those of an earlier round, or by a
    script."""

    agents: tuple[int, ...]
    # The team of the earlier round and its policies; one of opponents alone, if they play by a script.
    team: Team
    policies: tuple[Ref, ...] = ()
    # Its policies are deterministic.
    greedy: bool = False


class SampleTask(Order, frozen=True, kw_only=True, tag="sample"):
    """Collect rollouts."""

    team: Team
    sampling: Sampling
    policies: tuple[Ref, ...]
    behaviour: Behaviour = Behaviour()
    match: Match | None = None

    def reads(self) -> tuple[Ref, ...]:
        return (*self.policies, *(self.match.policies if self.match else ()), *self.sampling.reads())

    def writes(self) -> tuple[str, ...]:
        return (*self.sampling.writes(), "trajectory")


class LearnTask(Order, frozen=True, kw_only=True, tag="learn"):
    """Run stages of the algorithm on the round's trajectories."""

    team: Team
    learning: Learning
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    rollouts: tuple[int, ...]
    trajectories: tuple[Ref, ...]
    # The policies and learner state before the round.
    state: tuple[Ref, ...]
    # The results of earlier stages of this round.
    tensors: tuple[Ref, ...] = ()
    # Store the intermediate tensors of the stages for later tasks of the round.
    publish_tensors: bool = False
    # The share of the run that is over before the round, for schedules.
    progress: float = 0.0
    # Number of the first of its updates in the round.
    first_update: int = 0

    def reads(self) -> tuple[Ref, ...]:
        return (*self.trajectories, *self.state, *self.tensors, *self.learning.reads())

    def writes(self) -> tuple[str, ...]:
        # Policies only where a stage trains them.
        return ("policies", *(("tensors",) if self.publish_tensors else ()), "learner")


class WholeTask(Order, frozen=True, kw_only=True, tag="whole"):
    """Sample and learn several rounds in one invocation, the first of them that of the address.

    All stages run for all groups. Every round gives the same bytes as separate tasks.
    """

    team: Team
    sampling: Sampling
    learning: Learning
    # One for each round.
    behaviours: tuple[Behaviour, ...]
    state: tuple[Ref, ...]
    # One for each round, or none for runs without schedules.
    progress: tuple[float, ...] = ()
    # Capacity of the replay buffer in environment steps; if positive, trajectories are stored for later rounds.
    replayed_steps: int = 0

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
    target: Team
    # As in the `SampleTask`s of the round; what rollouts begin with is read only where they are collected again.
    sampling: Sampling
    learning: Learning
    # By new group, the old group whose networks it starts from; groups that do not change are absent.
    bases: dict[int, int]
    # The round's data; if empty, the rollouts are collected again with `policies`, which gives the same bytes.
    trajectories: tuple[Ref, ...]
    policies: tuple[Ref, ...]
    behaviour: Behaviour = Behaviour()
    state: tuple[Ref, ...]
    # Steps of distillation from the members' policies into a merged one.
    distil_steps: int = 0

    def reads(self) -> tuple[Ref, ...]:
        return (*self.trajectories, *self.policies, *self.state, *self.sampling.reads())

    def writes(self) -> tuple[str, ...]:
        return ("policies", "learner")


class EvaluateTask(Order, frozen=True, kw_only=True, tag="evaluate"):
    """Play whole episodes with fixed policies."""

    environment: EnvTask
    team: Team
    policies: tuple[Ref, ...]
    # Name of the set of start states, which differ for every stream and round.
    stream: str
    # Number of this task's part of the set.
    part: int
    episodes: int
    greedy: bool = True
    # Returns are sums over the agents of this side (`EnvSpec.sides`), or over all.
    side: int | None = None

    def reads(self) -> tuple[Ref, ...]:
        return self.policies


Request = DescribeTask | InitialiseTask | SampleTask | LearnTask | WholeTask | RegroupTask | EvaluateTask


class DescribeReply(Message, frozen=True, kw_only=True, tag="describe"):
    """The spec of the env task."""

    spec: EnvSpec


class InitialiseReply(Message, frozen=True, kw_only=True, tag="initialise"):
    """The networks of round 0 are stored."""


class SampleReply(Message, frozen=True, kw_only=True, tag="sample"):
    """Results of the sampled episodes."""

    env_steps: Annotated[int, msgspec.Meta(ge=0)]
    # Undiscounted, summed over agents, one per finished episode.
    returns: tuple[float, ...] = ()
    # By rollout and agent, weighted sums over the rollout's episodes; by rollout, so that the mean over a round is bit
    # for bit independent of how rollouts are assigned to tasks.
    agent_returns: tuple[tuple[float, ...], ...] = ()
    # By rollout, the weights of its episodes in `agent_returns`, of mean 1 (`functions.episodes`); empty where all are
    # 1 and every rollout has as many episodes, and where rollouts do not begin with a reset.
    weights: tuple[tuple[float, ...], ...] = ()
    # Weighted means over the episodes.
    env_metrics: dict[str, float] = {}
    # In a match, the weighted mean over the episodes: 1 where the side that learns had the higher return, 0 where it
    # had the lower one, and a half where both were equal.
    score: float | None = None


class LearnReply(Message, frozen=True, kw_only=True, tag="learn"):
    """Results of learning other than tensors."""

    # By `<stage>/<metric>/<group>`.
    metrics: dict[str, float] = {}
    # By `<summary>/<agent>`.
    tables: dict[str, Table] = {}


class WholeReply(Message, frozen=True, kw_only=True, tag="whole"):
    """Results of sampling and learning by round."""

    samples: tuple[SampleReply, ...]
    learns: tuple[LearnReply, ...]


class RegroupReply(Message, frozen=True, kw_only=True, tag="regroup"):
    """Metrics of the change, `<metric>/<group>` -> value."""

    metrics: dict[str, float] = {}


class EvaluateReply(Message, frozen=True, kw_only=True, tag="evaluate"):
    """Results of the episodes."""

    # Undiscounted, summed over agents or those of the task's side, one per episode.
    returns: tuple[float, ...]
    # Means by agent.
    agent_returns: tuple[float, ...] = ()
    # Means over the episodes.
    env_metrics: dict[str, float] = {}


Reply = DescribeReply | InitialiseReply | SampleReply | LearnReply | WholeReply | RegroupReply | EvaluateReply


class Done(Message, frozen=True, kw_only=True, tag="done"):
    """The answer of a task that succeeded."""

    id: str
    attempt: int
    # By kind: `policies`, `learner`, `tensors`, `trajectory`, `unfinished`, or `played` for the trajectories of several
    # rounds.
    objects: dict[str, Ref] = {}
    reply: Reply
    usage: Usage = Usage()
    # Objects by key that this message holds; none of them is stored.
    inlined: dict[str, bytes] = {}
    # What the task's code did to its process, for the run's output; not part of the stored answer.
    remarks: tuple[str, ...] = ()


FailureKind = Literal[
    "environment", "not_finite", "foreign_object", "corrupt_object", "storage", "request", "missing_extra"
]


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """The answer of a task that failed."""

    id: str
    attempt: int
    kind: FailureKind
    message: str
    # Another attempt may succeed.
    again: bool
    usage: Usage = Usage()
    remarks: tuple[str, ...] = ()


Answer = Done | Failed


class TaskHeader(Message, frozen=True, kw_only=True, omit_defaults=False):
    """The header of every stored object: the task that wrote it and, on the task's last object, its answer."""

    schema: int = SCHEMA
    task: str
    done: Done | None = None


class Record(Message, frozen=True, kw_only=True):
    """An item of the ledger."""

    # Compared by conditional writes.
    version: int
    body: bytes
    # When it was written, in seconds since 1970; 0 if the back-end does not report it.
    at: float = 0.0


class Platform(Message, frozen=True, kw_only=True):
    """The properties of a platform that a run relies on."""

    # The number of functions that run concurrently.
    concurrency: int = 1
    # The most attempts of a detached run in flight; None: the platform queues what is beyond the concurrency.
    at_once: int | None = None
    # The limit of a start-up, in addition to the time-out.
    init_limit_ms: int = 0
    # Functions keep the memory size that they were deployed with.
    fixed_sizes: bool = False
    # Messages may carry objects, which needs a coordinator process that persists between rounds.
    can_inline: bool = True
    # Durations are measured on whole cores and scaled to the share of a vCPU that a function's memory buys.
    cpu_scaling: bool = True
    # Memory of a coordinator that is a function, else 0.
    coordinator_mb: int = 0
    # How long, beyond time-outs and start-ups, a detached run waits for attempts without a report.
    grace_s: float = 0.0


class Report(Message, frozen=True, kw_only=True):
    """The outcome of one invocation, measured by the platform (its REPORT line)."""

    id: str
    attempt: int
    function: str
    outcome: Literal["answered", "timeout", "crash", "throttled"]
    # An encoded `Answer` when `outcome` is `answered`.
    body: bytes = b""
    # Milliseconds on this machine.
    duration_ms: float = 0.0
    # Start of the execution environment when this invocation paid for it.
    init_ms: float = 0.0
    # How long it waited for a slot, where the platform says so; never billed.
    queued_ms: float = 0.0
    peak_mb: float = 0.0
    detail: str = ""
    # What happened to its process, for the run's output.
    remarks: tuple[str, ...] = ()


class KeyTaken(Exception):
    """The key already holds an object; keys are written once."""


class NoSuchObject(Exception):
    """Nothing is stored under the key."""

    def __str__(self) -> str:
        return f"{super().__str__()} is missing; it was deleted or lost"


class StorageFault(Exception):
    """The store could not write or read an object (full disk, lost permission); the message says which."""


class StaleVersion(Exception):
    """The item changed since it was loaded: another process drives the run."""


class ForeignObject(Exception):
    """The object under a task's key was not written by that task."""


class CorruptObject(Exception):
    """The object's bytes do not match its reference or its format."""

    @classmethod
    def of_size(cls, key: str, size: int, expected: int) -> Self:
        return cls(f"{key} is not the object the run recorded (it has {size:,} bytes instead of {expected:,})")


class NotFinite(Exception):
    """A number that would have been published is NaN or infinite; the message names the tensor."""


class BadRequest(ValueError):
    """The request cannot be served; the message says which field and why."""


class MissingExtra(Exception):
    """An optional dependency is not installed; the message says how to get it."""
