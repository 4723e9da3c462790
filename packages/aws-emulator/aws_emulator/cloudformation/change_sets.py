"""Change sets: the changes that an update of a stack would make. Pure.

Statuses and reasons follow the CloudFormation user guide, "Update CloudFormation stacks using change sets", and the API
reference, `DescribeChangeSet`.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_emulator.cloudformation.intrinsics import Scope, Unresolved
from aws_emulator.cloudformation.stack import Resource, Stack

CreateOnly = Callable[[str], frozenset[str]]

NOTHING = "The submitted information didn't contain changes. Submit different information to create a change set."


@dataclass(frozen=True)
class Change:
    """`action` is Add, Modify or Remove. `replacement` is True, False or Conditional, and '' unless modified."""

    action: str
    logical: str
    type: str
    physical: str = ""
    replacement: str = ""


@dataclass(frozen=True)
class ChangeSet:
    """The changes that `template` with `parameters` and `tags` would make to a stack."""

    id: str
    name: str
    stack: Stack
    changes: Sequence[Change]
    template: Mapping[str, Any]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]

    @property
    def status(self) -> str:
        """A change set without changes has failed."""
        return "CREATE_COMPLETE" if self.changes else "FAILED"

    @property
    def reason(self) -> str:
        """The reason of its failure, or ''."""
        return "" if self.changes else NOTHING


def change_set_id(stack: Stack, name: str) -> str:
    """A new change set's ARN."""
    head = stack.id.partition(":stack/")[0]
    return f"{head}:changeSet/{name}/{uuid.uuid4()}"


def changes(
    before: Mapping[str, Resource],
    definitions: Sequence[tuple[str, Mapping[str, Any]]],
    scope: Scope,
    create_only: CreateOnly,
) -> list[Change]:
    """The differences of the resources `before` to those `definitions` (logical id, definition), in their order.

    `create_only` gives a type's properties that replace a resource if they change.
    """
    differences = []
    for logical, definition in definitions:
        old, type_ = before.get(logical), definition["Type"]
        if old is None:
            differences.append(Change("Add", logical, type_))
            continue
        replacement = _replacement(old, definition, scope, create_only(type_))
        if replacement:
            differences.append(Change("Modify", logical, type_, old.physical.id, replacement))
    names = {logical for logical, _ in definitions}
    removals = [old for logical, old in before.items() if logical not in names]
    return differences + [Change("Remove", old.logical, old.type, old.physical.id) for old in removals]


def with_tags(before: Mapping[str, Resource], differences: Sequence[Change]) -> list[Change]:
    """The changes when the stack's tags change too: every resource of the stack is modified."""
    modified_ids = {change.logical for change in differences}
    others = [old for old in before.values() if old.logical not in modified_ids]
    return [*differences, *(Change("Modify", old.logical, old.type, old.physical.id, "False") for old in others)]


def _replacement(old: Resource, definition: Mapping[str, Any], scope: Scope, create_only: frozenset[str]) -> str:
    """'' if the resource does not change. Conditional if that depends on a resource that does not exist yet."""
    try:
        properties = scope.resolve(definition.get("Properties", {}))
    except (Unresolved, KeyError):
        return "Conditional"
    if old.type != definition["Type"] or any(old.properties.get(name) != properties.get(name) for name in create_only):
        return "True"
    return "False" if old.properties != properties else ""
