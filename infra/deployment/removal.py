"""Removing a tenant's stack, and all that a stack can leave behind."""

import time

from infra.cloud import Cloud
from infra.deployment import bucket, leftovers
from infra.deployment.leftovers import Owned
from infra.deployment.names import stack_name
from infra.deployment.stack import DeploymentFault, Part, Say, Stack, Stacks, Wait
from infra.trouble import told

# A function that still runs can write into the bucket between its emptying and its deletion; functions go in the first
# attempt, so the second one finds nobody writing, but for those that were at it.
_ATTEMPTS = 3
# Tables go by and by, and lists show what is gone for a while.
_PAUSES_S = (1.0, 5.0, 20.0)


def teardown(cloud: Cloud, tenant: str, say: Say = lambda line: None, wait: Wait = time.sleep) -> list[str]:
    """Removes all that was deployed for the tenant, its runs included; returns what is left, one line each.

    Nothing is left when all went well. It does no harm to do it again, to a deployment that failed half-way, or to one
    whose stack somebody else has deleted. Raises `StorageFault` where AWS refuses to listen.
    """
    name, stacks = stack_name(tenant), Stacks(cloud, wait)
    with told("remove", f"stack {name}"):
        identity = cloud.client("sts").get_caller_identity()
        stack = stacks.settled(name)
        parts = [part for past in stacks.past(name) for part in stacks.parts(past)]
        if stack is not None:
            parts += stacks.parts(stack.id)
            _try_to_remove(cloud, stacks, stack, say)
        owned = Owned(name, tenant, identity["Account"], stacks.client.meta.region_name, parts)
        for part in leftovers.remaining(cloud, owned):
            say(f"removing {_line(part)}")
            leftovers.delete(cloud, part)
        left = [_line(part) for part in _finally(cloud, owned, wait)]
        still = stacks.find(name)
        return left if still is None else [f"stack {name}: {still.status}, {stacks.why(still.id)}", *left]


def _finally(cloud: Cloud, owned: Owned, wait: Wait) -> list[Part]:
    """What remains when the services had time to forget."""
    left = leftovers.remaining(cloud, owned)
    for pause_s in _PAUSES_S:
        if left:
            wait(pause_s)
            left = leftovers.remaining(cloud, owned)
    return left


def remove_stack(cloud: Cloud, stacks: Stacks, stack: Stack, say: Say) -> None:
    """Empties the stack's buckets and deletes it; raises `DeploymentFault` when CloudFormation cannot."""
    for _ in range(_ATTEMPTS):
        for part in stacks.parts(stack.id):
            if part.type == "AWS::S3::Bucket" and (count := bucket.empty(cloud, part.id)):
                say(f"deleted {count:,} objects from {part.id}")
        say(f"deleting stack {stack.name}")
        stacks.client.delete_stack(StackName=stack.id)
        if stacks.settled(stack.id) is None:
            return
    raise DeploymentFault(f"stack {stack.name} cannot be deleted: {stacks.why(stack.id)}")


def _try_to_remove(cloud: Cloud, stacks: Stacks, stack: Stack, say: Say) -> None:
    """A stack that stays is reported with all else that is left."""
    try:
        remove_stack(cloud, stacks, stack, say)
    except DeploymentFault as fault:
        say(str(fault))


def _line(part: Part) -> str:
    return f"{part.type.removeprefix('AWS::').replace('::', ' ')} {part.id}"
