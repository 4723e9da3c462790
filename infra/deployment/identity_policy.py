"""The identity policies of people and pipelines that train or deploy, filled in for a tenant."""

from pathlib import Path
from typing import Literal

from marless.infra.deployment.function_kinds import with_permissions
from marless.infra.deployment.stack import artifacts_bucket, repository, stack_name

Who = Literal["trainer", "deployer"]
WHO: tuple[Who, ...] = ("trainer", "deployer")

_FOLDER = Path(__file__).resolve().parent / "policies"


def identity_policy(who: Who, account: str, region: str, tenant: str) -> str:
    """Return the policy document for an account, a region and a tenant.

    Raises `ValueError` for an invalid tenant name.
    """
    stack = stack_name(tenant)
    document = with_permissions((_FOLDER / f"{who}.json").read_text(encoding="utf-8"))
    values = {
        "marless-artifacts-ACCOUNT-REGION-TENANT": artifacts_bucket(account, region, tenant),
        "repository/marless/TENANT": f"repository/{repository(tenant)}",
        "marless-TENANT": stack,
        "TENANT": tenant,
        "REGION": region,
        "ACCOUNT": account,
    }
    for placeholder, value in values.items():
        document = document.replace(placeholder, value)
    return document
