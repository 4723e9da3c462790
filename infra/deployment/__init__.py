"""Deploys, describes and removes a tenant's stack.

The same code deploys to AWS and to an emulated account.
"""

from marless.infra.deployment.deploy import deploy, filled_in, preview
from marless.infra.deployment.description import Deployment, describe
from marless.infra.deployment.identity_policy import WHO, identity_policy
from marless.infra.deployment.package_upload import Image, Packages
from marless.infra.deployment.stack import IMAGE_SUFFIX, RESOURCE, ROLES, Change, DeploymentFault, stack_name
from marless.infra.deployment.teardown import teardown

__all__ = [
    "IMAGE_SUFFIX",
    "RESOURCE",
    "ROLES",
    "WHO",
    "Change",
    "Deployment",
    "DeploymentFault",
    "Image",
    "Packages",
    "deploy",
    "describe",
    "filled_in",
    "identity_policy",
    "preview",
    "stack_name",
    "teardown",
]
