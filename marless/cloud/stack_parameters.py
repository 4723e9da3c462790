"""The parameters of a tenant's stack: from the user, the last deployment, or the template's defaults."""

from collections.abc import Mapping

from marless.cloud import resource_options
from marless.functions.resources.settings import Resource
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors
from marless.infra.deployment import stack_name, template
from marless.infra.deployment.resource_functions import PARAMETER, of_parameter, to_parameter
from marless.infra.deployment.stack import Stacks

# Set by every deployment, not by the user.
_OURS = ("Tenant", "Code", "Release")


def merged_parameters(
    cloud: Cloud,
    tenant: str,
    user_parameters: Mapping[str, str],
    resources: Mapping[str, Resource | None] | None = None,
) -> dict[str, str]:
    """Return all parameters of a deployment: `user_parameters`, then the tenant's last deployment, then defaults.

    External `resources` are added to the last deployment's resources. None removes one. They are complete, so deploying
    twice requests the same stack twice. Raises `StorageFault`, and `UserError` for a resource that is not there.
    """
    name, usual = stack_name(tenant), template.defaults(template.text())
    with storage_errors("look for", f"stack {name}"):
        stack = Stacks(cloud).find(name)
    # A newer template may have dropped one.
    before = {key: value for key, value in stack.parameters.items() if key in usual} if stack else {}
    after = {key: value for key, value in {**usual, **before}.items() if key not in _OURS} | dict(user_parameters)
    return after | {PARAMETER: to_parameter(resource_options.merged(of_parameter(after[PARAMETER]), resources or {}))}
