"""Describes a deployment from its stack."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from marless.functions.resources.settings import Resource
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors
from marless.infra.deployment.resource_functions import PARAMETER, of_parameter
from marless.infra.deployment.stack import ROLES, Stack, Stacks


@dataclass(frozen=True)
class Deployment:
    """A tenant's deployment.

    By role ('actor', 'learner', 'evaluator', 'coordinator'): `functions` are the ARNs of the published versions,
    `memory_mb` and `timeout_s` their settings. `dead_letters` is the queue's URL. `code` is the SHA-256 of the program.
    `concurrency` is reserved for each worker function, None if they share the account's. `resources` are the external
    resources by name, each with a function.
    """

    stack: str
    tenant: str
    region: str
    account: str
    bucket: str
    table: str
    dead_letters: str
    functions: Mapping[str, str]
    memory_mb: Mapping[str, int]
    timeout_s: Mapping[str, int]
    code: str
    concurrency: int | None
    resources: Mapping[str, Resource] = field(default_factory=dict)


def describe(cloud: Cloud, stack: str) -> Deployment | None:
    """Return the deployment of the stack, or None if it is missing or its creation failed.

    Raises `StorageFault` if AWS refuses the request or cannot be reached.
    """
    with storage_errors("look for", f"stack {stack}"):
        stack_ = Stacks(cloud).find(stack)
    return describe_stack(stack_) if stack_ and "CoordinatorVersion" in stack_.outputs else None


def describe_stack(stack: Stack) -> Deployment:
    """The deployment that the stack's parameters and outputs describe."""
    outputs = stack.outputs
    _, _, _, region, account, _ = stack.id.split(":", 5)
    return Deployment(
        stack=stack.name,
        tenant=stack.parameters["Tenant"],
        region=region,
        account=account,
        bucket=outputs["Bucket"],
        table=outputs["Table"],
        dead_letters=outputs["DeadLetterQueue"],
        functions={role: outputs[f"{role.capitalize()}Version"] for role in ROLES},
        memory_mb={role: int(outputs[f"{role.capitalize()}Memory"]) for role in ROLES},
        timeout_s={role: int(outputs[f"{role.capitalize()}Timeout"]) for role in ROLES},
        code=outputs["Code"],
        concurrency=int(outputs["Concurrency"]) or None,
        resources=of_parameter(stack.parameters.get(PARAMETER, "")),
    )
