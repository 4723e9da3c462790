"""Stack operations on translated templates, for the resource types of our template.

moto's CloudFormation is not used. It silently drops unknown types and properties, reports no events of single
resources, and lacks rollbacks. It publishes a function's next version before it updates the function, and imports most
of moto. Here every resource is created through its service's API, and an error names each part that is not emulated.
Statuses, their order and the policies `Retain` follow the CloudFormation user guide: "Stack status codes", "Stack
failure options" and "DeletionPolicy attribute".
"""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from botocore.exceptions import ClientError

from aws_emulator.cloudformation import intrinsics, permissions
from aws_emulator.cloudformation.change_sets import ChangeSet, change_set_id, changes, with_tags
from aws_emulator.cloudformation.intrinsics import Scope
from aws_emulator.cloudformation.inventory import missing
from aws_emulator.cloudformation.prerequisites import Packages, unmet
from aws_emulator.cloudformation.resources.kind import Kind
from aws_emulator.cloudformation.stack import Judge, Resource, Stack, anything, physical_name, stack_id

Template = Mapping[str, Any]
Calls = Callable[[str, permissions.Place, Mapping[str, Any]], Iterator[permissions.Call]]
_SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Invalid(Exception):
    """A request that CloudFormation refuses. The message is CloudFormation's."""

    code = "ValidationError"


class Exists(Invalid):
    """The stack exists already."""

    code = "AlreadyExistsException"


class _Failed(Exception):
    """A resource could not be created or updated, or the template is invalid. The message says why."""


class Stacks:
    """The stacks of one region of an account. Operations run in the background, one at a time for each stack.

    `packages` is the platform that functions' packages were built for.
    """

    def __init__(self, kinds: Mapping[str, Kind], region: str, account: str, packages: Packages) -> None:
        self._kinds, self._region, self._account, self._packages = kinds, region, account, packages
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Stack]:
        """All stacks, including deleted ones, oldest first."""
        return list(self._stacks.values())

    def find(self, name: str) -> Stack:
        """The stack with that id, or the existing one with that name. Raises `Invalid`."""
        for stack in self.all():
            if name == stack.id or (name == stack.name and not stack.is_deleted):
                return stack
        raise Invalid(f"Stack with id {name} does not exist")

    def create(
        self,
        name: str,
        template: Template,
        parameters: Mapping[str, str],
        *,
        tags: Mapping[str, str] | None = None,
        termination_protection: bool = False,
        judge: Judge = anything,
    ) -> Stack:
        """Starts to create a stack. Raises `Invalid`. `judge` decides on the calls in the caller's name."""
        with self._lock:
            if any(stack.name == name and not stack.is_deleted for stack in self.all()):
                raise Exists(f"Stack [{name}] already exists")
            stack = Stack(
                name,
                stack_id(self._region, self._account, name),
                tags=tags or {},
                termination_protection=termination_protection,
            )
            self._stacks[stack.id] = stack
            stack.judge = judge
            stack.enter("CREATE_IN_PROGRESS", "User Initiated")
        _begin(self._creating, stack, template, parameters)
        return stack

    def update(
        self,
        name: str,
        template: Template,
        parameters: Mapping[str, str],
        *,
        tags: Mapping[str, str] | None = None,
        uses_transform: bool = False,
        judge: Judge = anything,
    ) -> Stack:
        """Starts to update a stack. Raises `Invalid`, also if a template without a transform is unchanged.

        CloudFormation does not compare `uses_transform` ones. By default the stack keeps its present tags.
        """
        with self._lock:
            stack = self.find(name)
            if stack.status not in _SETTLED:
                raise Invalid(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
            new_tags = stack.tags if tags is None else tags
            if not uses_transform and (stack.template, stack.parameters, stack.tags) == (
                template,
                parameters,
                new_tags,
            ):
                raise Invalid("No updates are to be performed.")
            stack.tags, stack.judge = new_tags, judge
            stack.enter("UPDATE_IN_PROGRESS", "User Initiated")
        _begin(self._updating, stack, template, parameters)
        return stack

    def propose(
        self,
        name: str,
        change_set: str,
        template: Template,
        parameters: Mapping[str, str],
        tags: Mapping[str, str] | None = None,
    ) -> ChangeSet:
        """Makes a change set, of a new stack too. Raises `Invalid`."""
        with self._lock:
            stack = next((s for s in self.all() if name in (s.name, s.id) and not s.is_deleted), None)
            if stack is None:
                stack = Stack(name, stack_id(self._region, self._account, name))
                self._stacks[stack.id] = stack
                stack.enter("REVIEW_IN_PROGRESS", "User Initiated")
            elif stack.status not in (*_SETTLED, "REVIEW_IN_PROGRESS"):
                raise Invalid(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
            new_tags = stack.tags if tags is None else tags
            scope = Scope(template, self._parameters(stack, template, parameters), _ExistingResources(stack))
            definitions = [(logical, template["Resources"][logical]) for logical in _order(template, scope)]
            differences = changes(stack.resources, definitions, scope, lambda type_: self._kinds[type_].create_only)
            if new_tags != stack.tags:
                differences = with_tags(stack.resources, differences)
            proposal = ChangeSet(
                change_set_id(stack, change_set), change_set, stack, differences, template, parameters, new_tags
            )
            self._change_sets[proposal.id] = proposal
            return proposal

    def find_change_set(self, change_set: str, stack: str = "") -> ChangeSet:
        """The change set with that id, or with that name of the stack. Raises `Invalid`."""
        for candidate in self._change_sets.values():
            if change_set == candidate.id or (
                change_set == candidate.name and stack in (candidate.stack.name, candidate.stack.id)
            ):
                return candidate
        raise Invalid(f"ChangeSet [{change_set}] does not exist")

    def execute(self, change_set: ChangeSet, judge: Judge = anything) -> None:
        """Starts the update that a change set describes. Raises `Invalid`."""
        if not change_set.changes:
            raise Invalid(f"ChangeSet [{change_set.id}] cannot be executed in its current status of [FAILED]")
        self.withdraw(change_set)
        self.update(
            change_set.stack.id,
            change_set.template,
            change_set.parameters,
            tags=change_set.tags,
            uses_transform=True,
            judge=judge,
        )

    def withdraw(self, change_set: ChangeSet) -> None:
        """Deletes a change set."""
        self._change_sets.pop(change_set.id, None)

    def delete(self, name: str, judge: Judge = anything) -> None:
        """Starts to delete a stack. A missing stack is ignored, as by CloudFormation. Raises `Invalid`."""
        with self._lock:
            stack = next((s for s in self.all() if name in (s.name, s.id) and not s.is_deleted), None)
            if stack is None:
                return
            if stack.termination_protection:
                raise Invalid(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
            if stack.busy:
                raise Invalid(f"Stack [{stack.id}] cannot be deleted while in status {stack.status}")
            stack.judge = judge
            stack.enter("DELETE_IN_PROGRESS", "User Initiated")
        _begin(self._deleting, stack)

    def _creating(self, stack: Stack, template: Template, parameters: Mapping[str, str]) -> None:
        stack.template, stack.parameters = template, parameters
        try:
            self._apply(stack, template, parameters, [])
        except _Failed as error:
            stack.enter("ROLLBACK_IN_PROGRESS", str(error))
            failure = self._remove(stack, [of for of in stack.resources.values() if not of.retain_in_rollback])
            stack.enter("ROLLBACK_FAILED" if failure else "ROLLBACK_COMPLETE", failure)
        else:
            stack.enter("CREATE_COMPLETE")

    def _updating(self, stack: Stack, template: Template, parameters: Mapping[str, str]) -> None:
        old_resources: list[Resource] = []
        try:
            self._apply(stack, template, parameters, old_resources)
        except _Failed as error:
            self._roll_back(stack, str(error), old_resources)
            return
        stack.template, stack.parameters = template, parameters
        stack.enter("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean(stack, old_resources)
        stack.enter("UPDATE_COMPLETE")

    def _roll_back(self, stack: Stack, reason: str, old_resources: list[Resource]) -> None:
        stack.enter("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        replacing = [stack.resources[before.logical] for before in old_resources]
        stack.resources |= {before.logical: before for before in old_resources}
        try:
            self._apply(stack, stack.template, stack.parameters, [])
        except _Failed as error:
            stack.enter("UPDATE_ROLLBACK_FAILED", str(error))
            return
        self._clean(stack, replacing, rolling_back=True)
        stack.enter("UPDATE_ROLLBACK_COMPLETE")

    def _deleting(self, stack: Stack) -> None:
        retained_resources = [resource for resource in stack.resources.values() if resource.retain]
        for resource in retained_resources:
            stack.record(resource.logical, resource.type, resource.physical.id, "DELETE_SKIPPED")
        failure = self._remove(stack, [resource for resource in stack.resources.values() if not resource.retain])
        stack.enter("DELETE_FAILED" if failure else "DELETE_COMPLETE", failure)

    def _apply(
        self, stack: Stack, template: Template, parameters: Mapping[str, str], old_resources: list[Resource]
    ) -> None:
        """Creates and updates the template's resources. Deletes none. Appends the replaced ones to `old_resources`.

        Raises `_Failed`.
        """
        scope = Scope(template, self._parameters(stack, template, parameters), _ExistingResources(stack))
        try:
            logical_ids = _order(template, scope)
            for logical in logical_ids:
                before = stack.resources.get(logical)
                after = stack.resources[logical] = self._settle(stack, logical, template["Resources"][logical], scope)
                if before is not None and before.physical.id != after.physical.id:
                    old_resources.append(before)
            self._require_prerequisites(stack, [stack.resources[logical] for logical in logical_ids])
            stack.outputs = {
                name: str(scope.resolve(output["Value"]))
                for name, output in template.get("Outputs", {}).items()
                if "Condition" not in output or scope.holds(output["Condition"])
            }
        except CycleError as error:
            raise _Failed(f"Circular dependency between resources: [{', '.join(error.args[1])}]") from error
        except (intrinsics.Unresolved, KeyError) as error:
            raise _Failed(f"Template error: {error}") from error

    def _require_prerequisites(self, stack: Stack, resources: list[Resource]) -> None:
        """Raises `_Failed` if a function or a rule could not work, which is known when all resources exist."""
        others = [resource for other in self.all() if other is not stack for resource in other.resources.values()]
        for resource, reason in unmet(resources, others, self._packages):
            doing = stack.status.partition("_")[0]
            stack.record(resource.logical, resource.type, resource.physical.id, f"{doing}_FAILED", reason)
            raise _Failed(_failure(doing, resource.logical, reason))

    def _settle(self, stack: Stack, logical: str, definition: Mapping[str, Any], scope: Scope) -> Resource:
        """Creates, updates, replaces or keeps the resource. Raises `_Failed`."""
        type_, before = definition["Type"], stack.resources.get(logical)
        doing = "UPDATE" if before else "CREATE"
        physical = before.physical.id if before else ""
        try:
            properties = scope.resolve(definition.get("Properties", {}))
            if strange := missing(definition, properties):
                raise ValueError(f"the emulated account does not know {', '.join(strange)}")
            kind = self._kinds[type_]
            if before is not None and before.properties == properties:
                physical_resource = before.physical
            elif before is not None and all(before.properties.get(p) == properties.get(p) for p in kind.create_only):
                stack.record(logical, type_, physical, "UPDATE_IN_PROGRESS")
                update = partial(permissions.update, before=before.properties)
                self._authorize(stack, update, type_, before.physical.id, properties)
                kind.update(before.physical, before.properties, properties)
                physical_resource = before.physical
                stack.record(logical, type_, physical_resource.id, "UPDATE_COMPLETE")
            else:
                stack.record(logical, type_, physical, f"{doing}_IN_PROGRESS")
                name = physical_name(stack.name, logical, type_)
                self._authorize(stack, permissions.creation, type_, name, properties)
                physical_resource = kind.create(name, properties)
                stack.record(logical, type_, physical_resource.id, f"{doing}_COMPLETE")
        except Exception as error:
            reason = _reason(error)
            stack.record(logical, type_, physical, f"{doing}_FAILED", reason)
            raise _Failed(_failure(doing, logical, reason)) from error
        policy = definition.get("DeletionPolicy", "Delete")
        retention = (policy != "Delete", policy == "Retain", definition.get("UpdateReplacePolicy") == "Retain")
        return Resource(logical, type_, physical_resource, properties, *retention)

    def _clean(self, stack: Stack, old_resources: list[Resource], rolling_back: bool = False) -> None:
        """Deletes resources that the update dropped or replaced. A resource that cannot be deleted is left behind."""
        scope = Scope(stack.template, self._parameters(stack, stack.template, stack.parameters))
        logical_ids = set(_order(stack.template, scope))
        removals = [resource for logical, resource in stack.resources.items() if logical not in logical_ids]
        retained_ids = {of.logical for of in removals if (of.retain_in_rollback if rolling_back else of.retain)}
        self._remove(stack, [resource for resource in removals if resource.logical not in retained_ids])
        for resource in removals:
            stack.resources.pop(resource.logical, None)
        for resource in old_resources:
            if not resource.retain_when_replaced:
                self._drop(stack, resource)

    def _remove(self, stack: Stack, resources: list[Resource]) -> str:
        """Deletes the resources in reverse order of creation. Returns the failures, '' if there are none."""
        failures: list[str] = []
        for resource in reversed(resources):
            if reason := self._drop(stack, resource):
                failures.append(f"[{resource.logical}] {reason}")
            else:
                del stack.resources[resource.logical]
        return f"The following resource(s) failed to delete: {'; '.join(failures)}" if failures else ""

    def _drop(self, stack: Stack, resource: Resource) -> str:
        stack.record(resource.logical, resource.type, resource.physical.id, "DELETE_IN_PROGRESS")
        try:
            self._authorize(stack, permissions.deletion, resource.type, resource.physical.id, resource.properties)
            self._kinds[resource.type].delete(resource.physical, resource.properties)
        except Exception as error:
            reason = _reason(error)
            stack.record(resource.logical, resource.type, resource.physical.id, "DELETE_FAILED", reason)
            return reason
        stack.record(resource.logical, resource.type, resource.physical.id, "DELETE_COMPLETE")
        return ""

    def _authorize(self, stack: Stack, calls: Calls, type_: str, id: str, properties: Mapping[str, Any]) -> None:
        """Raises `ValueError` if the caller may not make one of the calls."""
        roles = {
            role.physical.id: permissions.Role(
                role.physical.attributes["Arn"], role.properties.get("PermissionsBoundary", "")
            )
            for role in stack.resources.values()
            if role.type == "AWS::IAM::Role"
        }
        place = permissions.Place(self._region, self._account, permissions.name_of(type_, properties, id), roles)
        for call in calls(type_, place, properties):
            if denial := stack.judge(*call):
                raise ValueError(denial)

    def _parameters(self, stack: Stack, template: Template, arguments: Mapping[str, str]) -> dict[str, Any]:
        defaults = {name: of["Default"] for name, of in template.get("Parameters", {}).items() if "Default" in of}
        return {
            **defaults,
            **arguments,
            "AWS::AccountId": self._account,
            "AWS::Region": self._region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": stack.name,
            "AWS::StackId": stack.id,
        }


class _ExistingResources(Mapping[str, Any]):
    """The stack's resources in the form of `Scope.resources`."""

    def __init__(self, stack: Stack) -> None:
        self._resources = stack.resources

    def __getitem__(self, logical: str) -> tuple[str, Mapping[str, str]]:
        physical = self._resources[logical].physical
        return physical.id, physical.attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


def _order(template: Template, scope: Scope) -> list[str]:
    """The resources with true conditions, each after its dependencies."""
    resources = template["Resources"]
    definitions = {
        logical: definition
        for logical, definition in resources.items()
        if "Condition" not in definition or scope.holds(definition["Condition"])
    }
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for logical, definition in definitions.items():
        depends_on = definition.get("DependsOn", [])
        dependencies = {
            *([depends_on] if isinstance(depends_on, str) else depends_on),
            *intrinsics.names(definition.get("Properties", {})),
        }
        sorter.add(logical, *(name for name in definitions if name in dependencies))
    return list(sorter.static_order())


def _begin(work: Callable[..., None], stack: Stack, *arguments: Any) -> None:
    threading.Thread(target=work, args=(stack, *arguments), name=f"stack-{stack.name}", daemon=True).start()


def _failure(doing: str, logical: str, reason: str) -> str:
    return f"The following resource(s) failed to {doing.lower()}: [{logical}]. {reason}"


def _reason(error: Exception) -> str:
    if isinstance(error, ClientError):
        return f"{error.response['Error'].get('Message', '')} ({error.response['Error'].get('Code', '')})"
    if not isinstance(error, ValueError | intrinsics.Unresolved):
        traceback.print_exception(error, file=sys.stderr)
        return f"{type(error).__name__}: {error}"
    return str(error)
