"""Removes a tenant's stack and everything that stacks leave behind."""

import time
from collections.abc import Collection

from botocore.exceptions import ClientError

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import explain, storage_errors
from marless.infra.deployment import leftovers
from marless.infra.deployment.leftovers import Owned
from marless.infra.deployment.stack import DeploymentFault, Say, Stack, StackPart, Stacks, Wait, stack_name

# Tables are deleted asynchronously, and listings show deleted resources for a while.
_PAUSES_S = (1.0, 5.0, 20.0)


def teardown(cloud: Cloud, tenant: str, say: Say = lambda line: None, wait: Wait = time.sleep) -> list[str]:
    """Remove the tenant's deployment with its runs. Returns a line for each remaining resource, none on success.

    It is idempotent, and also removes a half-made deployment or one with a deleted stack. Raises `StorageFault` if AWS
    refuses a request.
    """
    name, stacks = stack_name(tenant), Stacks(cloud, wait)
    with storage_errors("remove", f"stack {name}"):
        identity = cloud.client("sts").get_caller_identity()
        stack = stacks.wait_until_stable(name, say)
        parts = [part for past in stacks.past(name) for part in stacks.parts(past)]
        if stack is not None:
            parts += stacks.parts(stack.id)
            _try_to_remove(stacks, stack, say)
        ownership = Owned(name, tenant, identity["Account"], stacks.client.meta.region_name, parts)
        hurdles = _remove_leftovers(cloud, ownership, say)
        remaining = [f"{_line(part)}{hurdles.get(part, '')}" for part in _finally(cloud, ownership, hurdles, wait)]
        still = stacks.find(name)
        if still is not None and not remaining:  # no resource blocks the deletion any more
            _try_to_remove(stacks, still, say)
            still = stacks.find(name)
        return remaining if still is None else [f"stack {name}: {still.status}, {stacks.why(still.id)}", *remaining]


def _remove_leftovers(cloud: Cloud, ownership: Owned, say: Say) -> dict[StackPart, str]:
    hurdles = {}
    for part in leftovers.remaining(cloud, ownership):
        say(f"removing {_line(part)}")
        try:
            leftovers.delete(cloud, part, say)
        except (DeploymentFault, ClientError) as error:
            hurdles[part] = f" ({explain(error) if isinstance(error, ClientError) else error})"
    return hurdles


def _finally(cloud: Cloud, ownership: Owned, stuck: Collection[StackPart], wait: Wait) -> list[StackPart]:
    """The remaining resources, after deleted ones had time to leave the services' listings."""
    remaining = leftovers.remaining(cloud, ownership)
    for pause_s in _PAUSES_S:
        if any(part not in stuck for part in remaining):
            wait(pause_s)
            remaining = leftovers.remaining(cloud, ownership)
    return remaining


def remove_stack(stacks: Stacks, stack: Stack, say: Say) -> None:
    """Lift the stack's protection and delete it. Raises `DeploymentFault` if CloudFormation fails.

    Bucket and table stay behind.
    """
    stacks.protect(stack, False)
    say(f"deleting stack {stack.name}")
    stacks.client.delete_stack(StackName=stack.id)
    if stacks.wait_until_stable(stack.id, say) is not None:
        raise DeploymentFault(f"stack {stack.name} cannot be deleted: {stacks.why(stack.id)}")


def remove_kept(cloud: Cloud, stacks: Stacks, stack: Stack, say: Say) -> None:
    """Delete the resources that the deleted stack left behind. Raises `DeploymentFault` and `ClientError`."""
    for part in stacks.parts(stack.id):
        if part.is_skipped and part.type in leftovers.DELETIONS:
            say(f"removing {_line(part)}")
            leftovers.delete(cloud, part, say)


def _try_to_remove(stacks: Stacks, stack: Stack, say: Say) -> None:
    """Remove the stack. A failure is only logged, because the caller reports a remaining stack."""
    try:
        remove_stack(stacks, stack, say)
    except DeploymentFault as fault:
        say(str(fault))


def _line(part: StackPart) -> str:
    return f"{part.type.removeprefix('AWS::').replace('::', ' ')} {part.id}"
