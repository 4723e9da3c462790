"""Deploys, describes and removes a tenant's stack.

The same code deploys to AWS and to an emulated account.
"""

from infra.deployment.deploy import deploy, filled_in, preview
from infra.deployment.description import Deployment, describe
from infra.deployment.identity_policy import WHO, identity_policy
from infra.deployment.package_upload import Image, Packages
from infra.deployment.stack import IMAGE_SUFFIX, RESOURCE, ROLES, Change, DeploymentFault, stack_name
from infra.deployment.teardown import teardown

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
