"""The functions of external resources: one for each in a tenant's stack, in addition to the functions that train.

The stack's parameter `ExternalResources` has them as JSON, so that later deployments know them. The template has their
role and their log group. This module adds their functions. An actor, learner or evaluator has their versions in its
environment, so a run that keeps the versions that it began with keeps theirs.
"""

import re
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from msgspec.structs import fields

from marless.functions.encoding import JsonDecoder, Undecodable, to_json_text
from marless.functions.resources.settings import Resource
from marless.infra.aws.function_settings import ASKABLE
from marless.infra.aws.resource_settings import SERVES, AskableFunction
from marless.infra.deployment.stack import RESOURCE, DeploymentFault, resource_function

PARAMETER, TOKENS = "ExternalResources", "ResourceTokens"

# Seconds for a function to end by itself with a message, before Lambda ends it, and the longest time-out (Lambda
# developer guide, "Lambda quotas").
_MARGIN_S, _LONGEST_S = 5, 900
# API_CreateFunction, FunctionName.
_LONGEST_NAME = 64
_WORKER = re.compile(r"          POWERTOOLS_SERVICE_NAME: (?!coordinator).+")
_HERE = Path(__file__).parent

_PARAMETERS = JsonDecoder[dict[str, Resource]](dict[str, Resource])


def to_parameter(resources: Mapping[str, Resource]) -> str:
    """Return the value of the stack's parameter, or ''."""
    return to_json_text({name: _set(resource) for name, resource in sorted(resources.items())}) if resources else ""


def of_parameter(text: str) -> dict[str, Resource]:
    """Return the resources of a stack by name. Raises `DeploymentFault` if another program version wrote them."""
    try:
        return _PARAMETERS.decode(text.encode()) if text else {}
    except Undecodable as error:
        raise DeploymentFault(f"the stack's parameter {PARAMETER} cannot be read: {error}") from error


def logical_id(name: str) -> str:
    """The name of a resource's function in the template, which takes letters and digits alone. All are different,
    because a resource's name has no capitals. They also differ from other parts, such as ResourceRole."""
    return f"Resource{name[0].upper()}{name[1:].replace('_', 'X')}Function"


def with_functions(template: str, resources: Mapping[str, Resource], tokens: str, tenant: str) -> str:
    """The template with a function for each resource. Workers have their versions in the environment.

    `tokens` is the value of `TOKENS`: the names of resources with a token. Systems Manager has it as a parameter of the
    tenant, so no tenant can name the token of another. Raises `DeploymentFault` for a resource that is not deployed.
    """
    token_of = {name: f"/marless/{tenant}/{name}" for name in tokens.split(",") if name}
    if strangers := token_of.keys() - resources.keys():
        raise DeploymentFault(
            f"--resource-tokens names {min(strangers)}, which is not deployed. Name all others, or '' for none"
        )
    if not resources:
        return template
    functions = "".join(_function(name, value, token_of.get(name, "")) for name, value in sorted(resources.items()))
    outputs = "".join(
        f"  {logical_id(name)}Version:\n    Value: !Ref {logical_id(name)}.Version\n" for name in sorted(resources)
    )
    template = _WORKER.sub(lambda match: f"{match[0]}\n          {ASKABLE}: {_askable(resources)}", template)
    before, separator, after = template.partition("\nOutputs:\n")
    return f"{before}\n{functions}{separator}{outputs}{after}"


def require_names(stack: str, resources: Mapping[str, Resource]) -> None:
    """Raises `DeploymentFault` for a name that is too long for a function of the stack."""
    for name in resources:
        function = resource_function(stack, name)
        if len(function) > _LONGEST_NAME:
            raise DeploymentFault(
                f"resource {name}: its function would be {function}, of {len(function)} characters; Lambda takes"
                f" {_LONGEST_NAME}"
            )


def _function(name: str, resource: Resource, token: str) -> str:
    files = ("resource_function.yaml", *(["resource_token.yaml"] if token else []))
    served = {"name": name, "resource": _set(resource)} | ({"token": token} if token else {})
    return "".join((_HERE / file).read_text("utf-8") for file in files).format(
        logical=logical_id(name),
        name=name,
        memory_mb=resource.memory_mb,
        timeout_s=min(_LONGEST_S, ceil(resource.timeout_s) + _MARGIN_S),
        slots=resource.slots,
        service=RESOURCE,
        variable=SERVES,
        own=_quoted(served),
        token=token,
    )


def _askable(resources: Mapping[str, Resource]) -> str:
    """Return YAML that lets CloudFormation fill in the ARNs of the versions."""
    askable = {
        name: AskableFunction(f"${{{logical_id(name)}.Version}}", resource.slots, resource.timeout_s, resource.attempts)
        for name, resource in sorted(resources.items())
    }
    return f"!Sub {_quoted(askable)}"


def _set(resource: Resource) -> dict[str, object]:
    # Defaults are left out, because parameters and variables hold few bytes.
    values = {field.name: (getattr(resource, field.name), field.default) for field in fields(resource)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _quoted(value: object) -> str:
    return to_json_text(to_json_text(value))
