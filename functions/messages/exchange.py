"""An exchange of the coordinator with a function: a request, and its answer."""

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
from marless.functions.messages.usage import CallTime, Usage

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
    """Storage operations and actions of the attempt."""
    actions: tuple[CallTime, ...] = ()
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
    format_version: int | UnsetType = field(default_factory=own_format)
    """See `marless.functions.encoding`."""
    kind: FailureKind
    """What failed."""
    message: str
    """The error, for the user."""
    again: bool
    """Whether another attempt may succeed."""
    usage: Usage = Usage()
    """Storage operations and actions of the attempt."""
    actions: tuple[CallTime, ...] = ()
    """As in `Done`."""
    remarks: tuple[str, ...] = ()
    """As in `Done`."""


Answer = Done | Failed
