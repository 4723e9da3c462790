"""A deployed function's settings, and the addresses of a tenant's data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

CODE = "MARLESS_CODE"
"""The environment variable with the SHA-256 of the deployed program."""
ASKABLE = "MARLESS_RESOURCES"
"""The environment variable with what a worker's tasks may ask: `AskableFunction` by a resource's name, as JSON."""


@dataclass(frozen=True)
class Settings:
    """Bucket, table and tenant of a deployment, and the SHA-256 of its program."""

    bucket: str
    table: str
    tenant: str
    code: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the template's environment variables. Raises `KeyError` for a missing variable."""
        return cls(
            bucket=environment["MARLESS_BUCKET"],
            table=environment["MARLESS_TABLE"],
            tenant=environment["MARLESS_TENANT"],
            code=environment.get(CODE, ""),
        )

    def objects(self, run: str) -> str:
        """The prefix of a run's objects."""
        return f"tenants/{self.tenant}/runs/{run}/"

    @property
    def listing(self) -> str:
        """The prefix of objects that belong to no single run."""
        return f"tenants/{self.tenant}/live/"

    def ledger(self, run: str) -> str:
        """The partition of a run's ledger."""
        return f"run/{self.tenant}/{run}"

    def completions(self, run: str) -> str:
        """The prefix of the partition keys of a run's completion sets."""
        return f"sets/{self.tenant}/{run}"

    @property
    def live(self) -> str:
        """The partition that lists the tenant's detached runs."""
        return f"live/{self.tenant}"

    @property
    def budget(self) -> str:
        """The partition of the tenant's budget."""
        return f"budget/{self.tenant}"
