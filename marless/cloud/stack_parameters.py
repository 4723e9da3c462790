"""The parameters of a tenant's stack: from the user, the last deployment, or the template's defaults."""

from collections.abc import Mapping

from infra.aws.clients import Cloud
from infra.aws.error_messages import storage_errors
from infra.deployment import stack_name, template
from infra.deployment.stack import Stacks

# Set by every deployment, not by the user.
_OURS = ("Tenant", "Code", "Release")


def merged_parameters(cloud: Cloud, tenant: str, user_parameters: Mapping[str, str]) -> dict[str, str]:
    """All parameters of a deployment: those `user_parameters`, else those of the tenant's last deployment, else
    defaults.

    They are complete, so deploying twice requests the same stack twice. Raises `StorageFault`.
    """
    name, usual = stack_name(tenant), template.defaults(template.text())
    with storage_errors("look for", f"stack {name}"):
        stack = Stacks(cloud).find(name)
    # A newer template may have dropped one.
    before = {key: value for key, value in stack.parameters.items() if key in usual} if stack else {}
    return {key: value for key, value in {**usual, **before}.items() if key not in _OURS} | dict(user_parameters)
