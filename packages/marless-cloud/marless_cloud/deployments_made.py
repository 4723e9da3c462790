"""The deployments of a tenant, from the published versions of its coordinator, and faults of the present one."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import CODE
from marless.infra.deployment import ROLES, Deployment
from marless.infra.deployment.stack import WHOLE, Stacks

_LATEST = "$LATEST"


class MadeDeployment(NamedTuple):
    """A version of the coordinator, the time of its deployment (UTC, ISO format), and the hash of its program."""

    version: str
    time: str
    code: str
    is_present: bool


def made_deployments(cloud: Cloud, deployment: Deployment) -> list[MadeDeployment]:
    """Return the deployments with a version that still exists, the oldest first. Raises `StorageFault`."""
    present = deployment.functions["coordinator"].rpartition(":")[2]
    return [
        MadeDeployment(number, config["LastModified"], _variables(config).get(CODE, ""), number == present)
        for config in _versions(cloud, deployment, "coordinator")
        if (number := config["Version"]) != _LATEST
    ]


def faults(cloud: Cloud, deployment: Deployment) -> Iterator[str]:
    """Yield a line for each difference between the deployment and its stack. Raises `StorageFault`."""
    with storage_errors("look at", f"stack {deployment.stack}"):
        stack = Stacks(cloud).find(deployment.stack)
    if stack and stack.status not in WHOLE:
        yield f"stack {stack.name} is {stack.status}"
    for role in ROLES:
        for config in _versions(cloud, deployment, role):
            if config["Version"] == _LATEST:
                settings = {"MB": ("MemorySize", deployment.memory_mb), "s": ("Timeout", deployment.timeout_s)}
                for unit, (name, of_role) in settings.items():
                    if config[name] != of_role[role]:
                        yield f"the {role} has {config[name]} {unit}, and its stack {of_role[role]} {unit}"


def _versions(cloud: Cloud, deployment: Deployment, role: str) -> Iterator[dict[str, Any]]:
    name = deployment.functions[role].split(":")[-2]
    with storage_errors("look at", name):
        pages = cloud.client("lambda").get_paginator("list_versions_by_function").paginate(FunctionName=name)
        yield from pages.search("Versions[]")


def _variables(config: Mapping[str, Any]) -> Mapping[str, str]:
    variables: Mapping[str, str] = config.get("Environment", {}).get("Variables", {})
    return variables
