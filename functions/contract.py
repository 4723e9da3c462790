"""Every message between the coordinator and the functions, every record of the ledger, and the errors both sides name.

Messages are frozen, tagged and refuse unknown fields. Nothing here does anything; who serves a message defines it.
"""

from typing import Annotated, Literal

import msgspec

from functions.environments.base import EnvSpec, EnvTask

SCHEMA = 1

Hyperparameters = dict[str, str | int | float | bool | list[int]]

SummaryName = Literal["behaviour", "gaussian", "density", "curvature", "noise"]
"""What a learner can tell of its policies beside training them; see `functions.algorithms.base.Summary`."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A value on the wire."""


class Ref(Message, frozen=True, kw_only=True):
    """An object in storage and what its bytes must hash to."""

    key: str
    sha256: str
    size: int


class Table(Message, frozen=True, kw_only=True):
    """A small array inside a message: float32, row-major, little-endian; see `functions.codec`."""

    shape: tuple[int, ...]
    data: bytes


class Usage(Message, frozen=True, kw_only=True):
    """Storage operations of one invocation, as the price list counts them."""

    puts: int = 0
    gets: int = 0
    bytes_written: int = 0
    bytes_read: int = 0


class Opponents(Message, frozen=True, kw_only=True):
    """Agents that do not learn, and how they act while others do: as their policies' distributions say, as `greedy`
    has it, or at random without policies. In evaluations those with policies are greedy."""

    agents: tuple[int, ...]
    acting: Literal["drawn", "greedy", "random"] = "drawn"


class Team(Message, frozen=True, kw_only=True):
    """Who learns with whom: `groups[i]` is the group of agent i, named after its first member.

    `identity`: networks take the agent's one-hot. Each of the `opponents` is a group of its own.
    """

    groups: tuple[int, ...]
    identity: bool = False
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
        """The groups of those who learn, ascending."""
        return tuple(sorted({self.groups[agent] for agent in self.learners}))


class Behaviour(Message, frozen=True, kw_only=True):
    """How agents act while data is collected.

    `sample`: as the policy's distribution says. `epsilon`: the action of the highest value, but with probability
    `amount` any legal one. `noise`: the policy's numbers, plus normal noise of `amount` times half the range;
    choices as the policy's distribution says.
    """

    kind: Literal["sample", "epsilon", "noise"] = "sample"
    amount: float = 0.0


class Past(Message, frozen=True, kw_only=True):
    """What `rollouts` of an earlier round gave: objects that hold their trajectories, for algorithms that learn from
    more than the last round."""

    round: int
    rollouts: int
    trajectories: tuple[Ref, ...]


class ReportTo(Message, frozen=True, kw_only=True):
    """Where a task reports that it ended, when nobody waits for its answer; see `functions.completion`.

    It is number `index` of the `count` tasks that were asked together; `ask` tells these from all others of the run.
    `coordinator` is the function to wake when all of them have ended.
    """

    ask: int
    index: int
    count: int
    coordinator: str


class Order(Message, frozen=True, kw_only=True):
    """The part every task has.

    `id` is the task's address (`<run>/000007/sample/00000-00003`), the same for every attempt. `output` is the key
    prefix its objects go under. `timeout_s` is how long this attempt may run. `inlined` are objects by key that travel
    inside the message instead of through storage, and `inline_objects` asks that the answer's objects do so too. With
    `report_to` the answer is stored whole, for who asked will read it there.
    """

    id: str
    run: str
    round: int
    output: str
    attempt: int = 0
    timeout_s: float
    seed: int
    inline_objects: bool = False
    inlined: dict[str, bytes] = {}
    report_to: ReportTo | None = None


class DescribeTask(Order, frozen=True, kw_only=True, tag="describe"):
    """Say what the task looks like from outside."""

    environment: EnvTask


class InitialiseTask(Order, frozen=True, kw_only=True, tag="initialise"):
    """Draw the networks of round 0."""

    spec: EnvSpec
    algorithm: str
    hyperparameters: Hyperparameters
    team: Team


class SampleTask(Order, frozen=True, kw_only=True, tag="sample"):
    """Collect `rollouts`: `rollout_length` steps in each of `num_envs` environments for each, with the policies of
    `policies`."""

    environment: EnvTask
    team: Team
    policies: tuple[Ref, ...]
    rollouts: tuple[int, ...]
    num_envs: int
    rollout_length: int
    behaviour: Behaviour = Behaviour()


class LearnTask(Order, frozen=True, kw_only=True, tag="learn"):
    """Run `stages` for `groups` on the round's trajectories of `rollouts`.

    `state` holds the incoming policies and learner state; `tensors` what earlier stages of this round left.
    `publish_tensors` asks for the stages' intermediate tensors to be stored for later tasks of the round. `summaries`
    are told of the groups whose policies this task trains. The stages run `updates` times, which the round counts from
    `first_update` on. `past` is what else is learned
    from, oldest first.
    """

    spec: EnvSpec
    algorithm: str
    hyperparameters: Hyperparameters
    team: Team
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    rollouts: tuple[int, ...]
    trajectories: tuple[Ref, ...]
    state: tuple[Ref, ...]
    tensors: tuple[Ref, ...] = ()
    publish_tensors: bool = False
    summaries: tuple[SummaryName, ...] = ()
    first_update: int = 0
    updates: int = 1
    past: tuple[Past, ...] = ()


class WholeTask(Order, frozen=True, kw_only=True, tag="whole"):
    """Sample and learn some rounds, the first of them `round`, without anything in between leaving the function.

    Fields as in `SampleTask` and `LearnTask`; all stages run for all groups. What each round gives is, byte for byte,
    what tasks of its own would give. There are as many rounds as `behaviours`. With `replayed_steps` the trajectories
    are stored, because rounds to come learn from the newest of so many environment steps.
    """

    environment: EnvTask
    spec: EnvSpec
    algorithm: str
    hyperparameters: Hyperparameters
    team: Team
    rollouts: tuple[int, ...]
    num_envs: int
    rollout_length: int
    behaviours: tuple[Behaviour, ...]
    state: tuple[Ref, ...]
    summaries: tuple[SummaryName, ...] = ()
    updates: int = 1
    replayed_steps: int = 0
    past: tuple[Past, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds the task goes through."""
        return len(self.behaviours)


class RegroupTask(Order, frozen=True, kw_only=True, tag="regroup"):
    """Make the networks of the team `target` out of those of `team`.

    `bases[group]` is the old group whose networks the new group starts from, for every new group that does not go on
    as it is. `trajectories` of `rollouts` are the round's data; where there are none the units are played once more
    with `policies`, which gives the same bytes. A merged policy is taught `distil_steps` steps to act as its members
    did.
    """

    environment: EnvTask
    spec: EnvSpec
    algorithm: str
    hyperparameters: Hyperparameters
    team: Team
    target: Team
    bases: dict[int, int]
    rollouts: tuple[int, ...]
    num_envs: int
    rollout_length: int
    trajectories: tuple[Ref, ...]
    policies: tuple[Ref, ...]
    behaviour: Behaviour = Behaviour()
    state: tuple[Ref, ...]
    distil_steps: int = 0


class EvaluateTask(Order, frozen=True, kw_only=True, tag="evaluate"):
    """Play `episodes` whole episodes with the policies of `policies`.

    `stream` names the set of start states (fresh for every stream and round), `part` the share that this task plays.
    With `side` the returns are sums over the agents of that side alone (`EnvSpec.sides`).
    """

    environment: EnvTask
    team: Team
    policies: tuple[Ref, ...]
    stream: str
    part: int
    episodes: int
    greedy: bool = True
    side: int | None = None


Request = DescribeTask | InitialiseTask | SampleTask | LearnTask | WholeTask | RegroupTask | EvaluateTask


class DescribeReply(Message, frozen=True, kw_only=True, tag="describe"):
    """What the task looks like from outside."""

    spec: EnvSpec


class InitialiseReply(Message, frozen=True, kw_only=True, tag="initialise"):
    """The networks of round 0 are stored."""


class SampleReply(Message, frozen=True, kw_only=True, tag="sample"):
    """What the sampled episodes gave: one undiscounted return (sum over agents) per finished episode, and means of the
    environment's metrics. `agent_returns[u][i]` is the sum over the episodes of the task's u-th unit of what agent
    i got; unit by unit, so that the mean over a round does not depend, to the last bit, on who played which units."""

    env_steps: Annotated[int, msgspec.Meta(ge=0)]
    returns: tuple[float, ...] = ()
    agent_returns: tuple[tuple[float, ...], ...] = ()
    env_metrics: dict[str, float] = {}


class LearnReply(Message, frozen=True, kw_only=True, tag="learn"):
    """Figures of the update, `<stage>/<figure>/<group>` -> value, and tables, `<summary>/<agent>` -> table."""

    metrics: dict[str, float] = {}
    tables: dict[str, Table] = {}


class WholeReply(Message, frozen=True, kw_only=True, tag="whole"):
    """What sampling and learning gave, round by round."""

    samples: tuple[SampleReply, ...]
    learns: tuple[LearnReply, ...]


class RegroupReply(Message, frozen=True, kw_only=True, tag="regroup"):
    """Figures of the change, `<figure>/<group>` -> value."""

    metrics: dict[str, float] = {}


class EvaluateReply(Message, frozen=True, kw_only=True, tag="evaluate"):
    """One undiscounted return (sum over agents, or over those of the task's side) per episode, per-agent means, and
    means of the environment's metrics."""

    returns: tuple[float, ...]
    agent_returns: tuple[float, ...] = ()
    env_metrics: dict[str, float] = {}


Reply = DescribeReply | InitialiseReply | SampleReply | LearnReply | WholeReply | RegroupReply | EvaluateReply


class Done(Message, frozen=True, kw_only=True, tag="done"):
    """A task's answer: the objects it made and its reply.

    Objects are `policies`, `learner`, `tensors`, `trajectory`, and `played`: the trajectories of several rounds.
    `inlined` holds by key the objects that travel in this message; none of them is stored.
    """

    id: str
    attempt: int
    objects: dict[str, Ref] = {}
    reply: Reply
    usage: Usage = Usage()
    inlined: dict[str, bytes] = {}


FailureKind = Literal[
    "environment", "not_finite", "foreign_object", "corrupt_object", "storage", "request", "missing_extra"
]


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """A task that could not answer. `again` says whether another attempt may help."""

    id: str
    attempt: int
    kind: FailureKind
    message: str
    again: bool
    usage: Usage = Usage()


Answer = Done | Failed


class TaskHeader(Message, frozen=True, kw_only=True, omit_defaults=False):
    """What every stored object says of itself: the task that wrote it and, on the task's last object, its answer."""

    schema: int = SCHEMA
    task: str
    done: Done | None = None


class Record(Message, frozen=True, kw_only=True):
    """An item of the ledger: opaque bytes, the version that a conditional write must name, and when it was written.

    `at` is in seconds since 1970; 0 where the back-end does not say.
    """

    version: int
    body: bytes
    at: float = 0.0


class Platform(Message, frozen=True, kw_only=True):
    """What a platform promises to the run whose functions it starts."""

    # Functions that run at once.
    concurrency: int = 1
    # How long a start-up may take on top of the time-out.
    init_limit_ms: int = 0
    # Functions are deployed and keep the memory they were deployed with.
    fixed_sizes: bool = False
    # Messages may carry objects, which needs a coordinator process that lives from round to round.
    can_inline: bool = True
    # Durations are measured on whole cores and scaled to the share of a vCPU that a function's memory buys.
    cpu_scaling: bool = True
    # Memory of a coordinator that is a function, else 0.
    coordinator_mb: int = 0
    # How long, beyond time-outs and start-ups, attempts without a report are waited for in a detached run.
    grace_s: float = 0.0


class Report(Message, frozen=True, kw_only=True):
    """How one invocation ended, as the platform saw it: the platform's REPORT line.

    `outcome`: `answered` (body is an `Answer`), `timeout`, `crash` or `throttled`. Durations are milliseconds of this
    machine; `init_ms` is the start of the execution environment when this invocation paid for it.
    """

    id: str
    attempt: int
    function: str
    outcome: Literal["answered", "timeout", "crash", "throttled"]
    body: bytes = b""
    duration_ms: float = 0.0
    init_ms: float = 0.0
    peak_mb: float = 0.0
    detail: str = ""


class KeyTaken(Exception):
    """The key already holds an object; a key is written once."""


class NoSuchObject(Exception):
    """Nothing is stored under the key."""


class StorageFault(Exception):
    """The store could not take or give an object (full disk, lost permission); the message says which."""


class StaleVersion(Exception):
    """The item changed since it was loaded: somebody else drives the run."""


class ForeignObject(Exception):
    """The object under a task's key was not written by that task."""


class CorruptObject(Exception):
    """The object's bytes are not what its reference or its format says."""


class NotFinite(Exception):
    """A number that would have been published is NaN or infinite; the message names the tensor."""


class BadRequest(ValueError):
    """The request cannot be served as it stands; the message says which field and why."""


class MissingExtra(Exception):
    """An optional dependency is not installed; the message says how to get it."""
