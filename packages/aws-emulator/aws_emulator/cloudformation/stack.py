"""A stack: its resources, events, status and outputs."""

import secrets
import string
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aws_emulator.cloudformation.resources.kind import PhysicalResource
from aws_emulator.iam.conditions import Context

STACK_TYPE = "AWS::CloudFormation::Stack"
_SUFFIX = string.ascii_uppercase + string.digits
# The longest names. Sources: S3 user guide, "Bucket naming rules"; IAM user guide, "IAM and STS quotas";
# API_CreateFunction.
_LONGEST = {"AWS::S3::Bucket": 63, "AWS::IAM::Role": 64, "AWS::Lambda::Function": 64, "AWS::Events::Rule": 64}


@dataclass(frozen=True)
class Resource:
    """A resource of a stack. `properties` are resolved.

    `retain`, `retain_in_rollback` (of the operation that created it) and `retain_when_replaced` are its `Retain`
    policies.
    """

    logical: str
    type: str
    physical: PhysicalResource
    properties: Mapping[str, Any]
    retain: bool = False
    retain_in_rollback: bool = False
    retain_when_replaced: bool = False


@dataclass(frozen=True)
class Event:
    """An event of a resource, or of the stack itself."""

    logical: str
    physical: str
    type: str
    status: str
    reason: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


Judge = Callable[[str, str, Context], str]
"""Why the caller may not perform an action on a resource, with the action's context keys; '' if it may."""


def anything(action: str, resource: str, context: Context) -> str:
    """The judge of an administrator."""
    return ""


@dataclass
class Stack:
    """A stack's current state. `template` is translated. `resources` are in order of creation."""

    name: str
    id: str
    template: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    status: str = ""
    reason: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    termination_protection: bool = False
    judge: Judge = anything
    creation_time: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def is_deleted(self) -> bool:
        return self.status == "DELETE_COMPLETE"

    def enter(self, status: str, reason: str = "") -> None:
        """Sets the stack's next status and records its event."""
        self.record(self.name, STACK_TYPE, self.id, status, reason)
        # Set last, so that readers of the status find all earlier events.
        self.status, self.reason = status, reason

    def record(self, logical: str, type_: str, physical: str, status: str, reason: str = "") -> None:
        self.events.append(Event(logical, physical, type_, status, reason))


def stack_id(region: str, account: str, name: str) -> str:
    """A new stack's ARN."""
    return f"arn:aws:cloudformation:{region}:{account}:stack/{name}/{uuid.uuid4()}"


def physical_name(stack: str, logical: str, type_: str) -> str:
    """A new name in CloudFormation's form: stack, logical id and twelve random characters."""
    end = f"-{logical}-{''.join(secrets.choice(_SUFFIX) for _ in range(12))}"
    name = f"{stack[: _LONGEST.get(type_, 255) - len(end)]}{end}"
    return name.lower() if type_ == "AWS::S3::Bucket" else name
