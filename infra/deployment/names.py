"""How the parts of a deployment are called. Pure."""

import hashlib
import re

ROLES = ("actor", "learner", "evaluator", "coordinator")

# The template's parameter `Tenant`.
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
# S3 user guide, "General purpose bucket naming rules".
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


def stack_name(tenant: str) -> str:
    """The name of the tenant's stack; raises `ValueError` for what no tenant may be called."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError(f"{tenant!r} cannot be a tenant: take up to 31 lower-case letters, digits and hyphens")
    return f"marless-{tenant}"


def function_name(stack: str, role: str) -> str:
    """What a function of the stack is called, as the template says."""
    return f"{stack}-{role}"


def artifacts_bucket(account: str, region: str, tenant: str) -> str:
    """The bucket of the tenant's packages; a name that S3 would not take gets a digest for the tenant."""
    start = f"marless-artifacts-{account}-{region}-"
    whole = start + tenant
    return whole if _BUCKET.fullmatch(whole) else start + hashlib.sha256(tenant.encode()).hexdigest()[:12]


def repository(tenant: str) -> str:
    """The registry's repository of the tenant's images."""
    return f"marless/{tenant.rstrip('-')}"
