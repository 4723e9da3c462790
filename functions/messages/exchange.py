"""An exchange of the coordinator with a function: a request, and its answer.

Also the headers of objects with results, and the platform's report of an invocation.
"""

from typing import Literal

from msgspec import UnsetType, field

from marless.functions.encoding import own_format
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.learner import (
    InitialiseReply,
    InitialiseTask,
    LearnReply,
    LearnTask,
    RegroupReply,
    RegroupTask,
    WholeReply,
    WholeTask,
)
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.usage import CallTime, CallUse, Usage

Request = DescribeTask | InitialiseTask | SampleTask | LearnTask | WholeTask | RegroupTask | EvaluateTask
Reply = DescribeReply | InitialiseReply | SampleReply | LearnReply | WholeReply | RegroupReply | EvaluateReply


class Done(Message, frozen=True, kw_only=True, tag="done"):
    """The answer of a task that succeeded."""

    id: str
    """The task's, as in its address."""
    attempt: int
    """The attempt that answers."""
    format_version: int | UnsetType = field(default_factory=own_format)
    """See `marless.functions.encoding`."""
    objects: dict[str, Ref] = {}
    """By kind: `policies`, `learner`, `tensors`, `trajectory`, `unfinished`, or `played` for the trajectories of
    several rounds."""
    reply: Reply
    """Results other than objects."""
    usage: Usage = Usage()
    """Storage operations and calls of the attempt."""
    call_times: tuple[CallTime, ...] = field(default=(), name="actions")
    """The times of its calls of resources; not part of the stored answer, as `usage` is not."""
    calls_of: int | None = field(default=None, name="actions_of")
    """The attempt that made the calls, if this attempt found its answer stored. Else None."""
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
    format_version: int | UnsetType = field(default_factory=own_format)
    """See `marless.functions.encoding`."""
    kind: FailureKind
    """What failed."""
    message: str
    """The error, for the user."""
    again: bool
    """Whether another attempt may succeed."""
    usage: Usage = Usage()
    """Storage operations and calls of the attempt."""
    call_times: tuple[CallTime, ...] = field(default=(), name="actions")
    """As in `Done`."""
    remarks: tuple[str, ...] = ()
    """As in `Done`."""


Answer = Done | Failed


class Report(Message, frozen=True, kw_only=True):
    """The outcome of one invocation, measured by the platform (its REPORT line).

    Attributes:
        id: The task's id, see its address.
        attempt: The attempt that ended.
        function: The name of the function.
        outcome: How the invocation ended. `withdrawn`: it was still waiting for a worker when the run was told to stop.
        body: An encoded `Answer` when `outcome` is `answered`.
        duration_ms: Milliseconds on this machine.
        init_ms: Start of the execution environment when this invocation paid for it.
        queued_ms: How long it waited for a slot, where the platform says so. Never billed.
        peak_mb: The most memory it used, MB.
        detail: The reason why it did not answer, or ''.
        remarks: Changes of its process, for the run's output.
        call_use: The attempt's use of resources that the platform knows but no answer has: for workers that died.
        call_times: The times of its calls.
    """

    id: str
    attempt: int
    function: str
    outcome: Literal["answered", "timeout", "crash", "throttled", "withdrawn"]
    body: bytes = b""
    duration_ms: float = 0.0
    init_ms: float = 0.0
    queued_ms: float = 0.0
    peak_mb: float = 0.0
    detail: str = ""
    remarks: tuple[str, ...] = ()
    call_use: dict[str, CallUse] = {}
    call_times: tuple[CallTime, ...] = field(default=(), name="actions")

    @property
    def has_begun(self) -> bool:
        """True if the attempt may have run. Otherwise it is free."""
        return self.outcome not in ("throttled", "withdrawn")


SCHEMA = 1


class Origin(Message, frozen=True, kw_only=True):
    """The origin of the rollouts of one round."""

    round: int
    """The round that they were collected in, counted from 0."""
    policies: str = ""
    """The hash of the policies that they were played with (`marless.functions.data.origins`), of all groups and fixed
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


class CallsHeader(Message, frozen=True, kw_only=True):
    """The header of the object with the calls of a task. It is separate from the task's results, because these must not
    depend on time."""

    schema: int = SCHEMA
    """The version of the format."""
    task: str
    """The id of the task."""
    attempt: int
    """The attempt that asked them."""
    use: dict[str, CallUse]
    """As `Usage.calls`."""
    call_times: tuple[CallTime, ...] = field(default=(), name="actions")
    """As `Done.call_times`."""
