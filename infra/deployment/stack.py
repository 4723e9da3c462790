"""CloudFormation stacks: names, status, waiting for an operation, and the reason of a failure."""

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from botocore.exceptions import ClientError

from marless.functions.function_specs import DEPLOYED
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code

Wait = Callable[[float], None]
Say = Callable[[str], None]
Put = Literal["begun", "same", "overtaken"]
"""An operation began; nothing would change; somebody else's operation on the stack came first."""

# Polling intervals: short at first, because an emulated stack takes a second.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_PROPOSING = ("CREATE_PENDING", "CREATE_IN_PROGRESS")
# After so many seconds of waiting one hears how far it is, with so many resources by name.
_SILENCE_S, _NAMED = 10.0, 3
# CloudFormation's messages about a change set without changes: they have no code, and two forms.
_NO_CHANGES = ("didn't contain changes", "No updates are to be performed")
# Resources of ours take less time to create or delete, and CloudFormation gives up much earlier.
_PATIENCE_S = 3600.0

# Creation failed: the stack holds no user data, so it is removed and created again. DELETE_FAILED is not listed: such a
# stack may still hold runs.
BROKEN = frozenset({"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "REVIEW_IN_PROGRESS"})
# The stack is complete, even if its last update was rolled back.
WHOLE = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE"})

ROLES = DEPLOYED
TENANT_TAG = "marless:tenant"
IMAGE_SUFFIX = "-image"
"""Ends the name of a function that is a container image."""
RESOURCE = "resource"
"""What the functions of external resources share: a package, a role, a log group."""

# The template's parameter `Tenant`.
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
# S3 user guide, "General purpose bucket naming rules".
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


class DeploymentFault(Exception):
    """A stack could not be created, updated or removed. The message is one line with advice."""


@dataclass(frozen=True)
class Stack:
    """A stack's current state. `id` stays valid after the stack's deletion."""

    name: str
    id: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    tags: Mapping[str, str]
    is_protected: bool

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status not in BROKEN


@dataclass(frozen=True)
class StackPart:
    """A resource that a stack has or had. `id` is its physical id. `is_skipped`: the stack was deleted without it."""

    logical: str
    type: str
    id: str
    is_skipped: bool = False


@dataclass(frozen=True)
class Request:
    """The wanted state of a stack: filled-in template, parameters, tags.

    A template that is too long for a request lies at `template_url` in S3. CloudFormation acts as `service_role` (ARN).
    Without a role it acts as before, which at first means as the caller.
    """

    template: str
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    service_role: str | None = None
    template_url: str = ""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of CreateStack, UpdateStack and CreateChangeSet besides the stack's name."""
        role = {"RoleARN": self.service_role} if self.service_role else {}
        return {
            **({"TemplateURL": self.template_url} if self.template_url else {"TemplateBody": self.template}),
            "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in self.parameters.items()],
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            **role,
        }


class Change(NamedTuple):
    """A change of a resource. `action` is Add, Modify or Remove. `replacement` is True, False, Conditional or, if new,
    ''."""

    action: str
    logical: str
    type: str
    replacement: str


class _ChangeSet(NamedTuple):
    address: Mapping[str, str]
    changes: Sequence[Change]


def _change(entry: Mapping[str, str]) -> Change:
    return Change(entry["Action"], entry["LogicalResourceId"], entry["ResourceType"], entry.get("Replacement", ""))


class Stacks:
    """CloudFormation in one account and region."""

    def __init__(self, cloud: Cloud, wait: Wait = time.sleep) -> None:
        self.client = cloud.client("cloudformation")
        self._wait = wait

    def find(self, name: str) -> Stack | None:
        """Return the stack of that name or id, or None if it is missing or was deleted."""
        try:
            description = self.client.describe_stacks(StackName=name)["Stacks"][0]
        except ClientError as error:
            # CloudFormation has no error code for this (API_DescribeStacks).
            if "does not exist" in error.response["Error"].get("Message", ""):
                return None
            raise
        if description["StackStatus"] == "DELETE_COMPLETE":
            return None
        return Stack(
            name=description["StackName"],
            id=description["StackId"],
            status=description["StackStatus"],
            parameters={one["ParameterKey"]: one["ParameterValue"] for one in description.get("Parameters", [])},
            outputs={one["OutputKey"]: one["OutputValue"] for one in description.get("Outputs", [])},
            tags={one["Key"]: one["Value"] for one in description.get("Tags", [])},
            is_protected=description.get("EnableTerminationProtection", False),
        )

    def wait_until_stable(self, name: str, say: Say = lambda line: None) -> Stack | None:
        """Return the stack when its operation has ended. `say` gets the progress now and then. Raises `DeploymentFault`
        when it takes longer than an hour."""
        give_up, pause_s, silent_s = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S, 0.0
        while (stack := self.find(name)) is not None and stack.busy:
            if time.monotonic() > give_up:
                raise DeploymentFault(f"stack {stack.name} is still {stack.status}; look at it in the AWS console")
            self._wait(pause_s)
            silent_s += pause_s
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            if silent_s >= _SILENCE_S:
                say(self._progress(stack))
                silent_s = 0.0
        return stack

    def _progress(self, stack: Stack) -> str:
        pages = self.client.get_paginator("list_stack_resources").paginate(StackName=stack.id)
        statuses = {
            one["LogicalResourceId"]: one["ResourceStatus"] for page in pages for one in page["StackResourceSummaries"]
        }
        at_work = [name for name, status in statuses.items() if status.endswith("_IN_PROGRESS")]
        of_them = f", at work on {', '.join(at_work[:_NAMED])}{', ...' * (len(at_work) > _NAMED)}" if at_work else ""
        return f"stack {stack.name}: {len(statuses) - len(at_work)} resources done{of_them}"

    def protect(self, stack: Stack, protection: bool) -> None:
        """Sets termination protection."""
        if stack.is_protected != protection:
            self.client.update_termination_protection(StackName=stack.id, EnableTerminationProtection=protection)

    def put(self, name: str, exists: bool, request: Request) -> Put:
        """Starts the creation, with termination protection, or the update of a stack.

        The update goes through a change set, because CloudFormation does not compare a template with a transform. Every
        UpdateStack with a transform would be an update.
        """
        try:
            if not exists:
                self.client.create_stack(StackName=name, EnableTerminationProtection=True, **request.arguments())
                return "begun"
            change_set = self._propose(name, "UPDATE", request)
            if not change_set.changes:
                self.client.delete_change_set(**change_set.address)
                return "same"
            self.client.execute_change_set(**change_set.address)
        except ClientError as error:
            message = error.response["Error"].get("Message", "")
            if code(error) == "AlreadyExistsException" or "can not be updated" in message:
                return "overtaken"
            raise
        return "begun"

    def preview(self, name: str, exists: bool, request: Request) -> Sequence[Change]:
        """Return the changes that `put` would make. The change set and a new stack are deleted again."""
        change_set = self._propose(name, "UPDATE" if exists else "CREATE", request)
        self.client.delete_change_set(**change_set.address)
        if not exists:
            self.client.delete_stack(StackName=name)
        return change_set.changes

    def _propose(self, name: str, kind: str, request: Request) -> "_ChangeSet":
        change_set = self.client.create_change_set(
            StackName=name, ChangeSetName=f"marless-{uuid.uuid4()}", ChangeSetType=kind, **request.arguments()
        )
        address = {"StackName": change_set["StackId"], "ChangeSetName": change_set["Id"]}
        pause_s = _FIRST_PAUSE_S
        while (status := self.client.describe_change_set(**address))["Status"] in _PROPOSING:
            self._wait(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        reason = status.get("StatusReason", "")
        if status["Status"] == "FAILED" and not any(text in reason for text in _NO_CHANGES):
            raise DeploymentFault(f"the change set of stack {name} failed: {' '.join(reason.split())}")
        changes = list(status.get("Changes", []))
        while "NextToken" in status:
            status = self.client.describe_change_set(**address, NextToken=status["NextToken"])
            changes += status["Changes"]
        return _ChangeSet(address, [_change(one["ResourceChange"]) for one in changes])

    def why(self, stack: str) -> str:
        """Return the first failure of the last operation: the resource and the reason, or ''.

        A failure without a resource has the stack's reason.
        """
        first = ""
        for event in self._events(stack):
            status, reason = event["ResourceStatus"], event.get("ResourceStatusReason", "")
            if event["LogicalResourceId"] == event["StackName"]:
                if reason == "User Initiated":
                    break
                if status.endswith(("_FAILED", "ROLLBACK_IN_PROGRESS")):
                    first = first or " ".join(reason.split())
            elif status.endswith("_FAILED") and "cancelled" not in reason:
                first = f"{event['LogicalResourceId']} ({event['ResourceType']}): {' '.join(reason.split())}"
        return first

    def past(self, name: str) -> Iterator[str]:
        """Yield the ids of deleted stacks of that name. CloudFormation lists them for 90 days."""
        pages = self.client.get_paginator("list_stacks").paginate(StackStatusFilter=["DELETE_COMPLETE"])
        for page in pages:
            yield from (one["StackId"] for one in page["StackSummaries"] if one["StackName"] == name)

    def parts(self, stack: str) -> list[StackPart]:
        """The stack's resources, deleted ones included."""
        pages = self.client.get_paginator("list_stack_resources").paginate(StackName=stack)
        return [
            StackPart(
                one["LogicalResourceId"],
                one["ResourceType"],
                one["PhysicalResourceId"],
                one["ResourceStatus"] == "DELETE_SKIPPED",
            )
            for page in pages
            for one in page["StackResourceSummaries"]
            if one.get("PhysicalResourceId")
        ]

    def _events(self, stack: str) -> Iterator[dict[str, Any]]:
        for page in self.client.get_paginator("describe_stack_events").paginate(StackName=stack):
            yield from page["StackEvents"]


def stack_name(tenant: str) -> str:
    """Return the name of the tenant's stack. Raises `ValueError` for an invalid tenant name."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError(f"{tenant!r} cannot be a tenant: take up to 31 lower-case letters, digits and hyphens")
    return f"marless-{tenant}"


def function_names(stack: str) -> list[str]:
    """Return the names that functions of the stack may have in the template, see
    `marless.infra.deployment.template.fill_in`."""
    return [f"{stack}-{role}{suffix}" for role in ROLES for suffix in ("", IMAGE_SUFFIX)]


def resource_function(stack: str, resource: str) -> str:
    """The name of a resource's function. Tenants' names have no underscore, so it cannot belong to another stack."""
    return f"{stack}_{resource}"


def artifacts_bucket(account: str, region: str, tenant: str) -> str:
    """Return the bucket of the tenant's packages. If S3 would refuse the name, a digest replaces the tenant."""
    start = f"marless-artifacts-{account}-{region}-"
    whole = start + tenant
    return whole if _BUCKET.fullmatch(whole) else start + hashlib.sha256(tenant.encode()).hexdigest()[:12]


def repository(tenant: str) -> str:
    """The registry's repository of the tenant's images."""
    return f"marless/{tenant.rstrip('-')}"
