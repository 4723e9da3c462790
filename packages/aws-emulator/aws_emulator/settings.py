"""The settings of an emulated account, as its starter gives them to its process."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AccountSettings:
    """`code`: the folders that functions import from, besides the one that this package lies in.

    `concurrency`: the account's quota of concurrent executions. Further ones are throttled. 1,000 is Lambda's default,
    new accounts have as few as 10 (developer guide, "Lambda quotas"). `memory_mb`: the most memory of a function. New
    accounts have less than Lambda's 10,240 MB, often 3,008 (same page, without a number). `processes`: the most
    functions that run at once on this machine. Further ones wait. `runtime` and `architecture`: the platform of
    functions' packages, in Lambda's names. '' is unknown, and a stack with functions for another platform is refused.
    `inherited_variables`: environment variables that functions take over from the account's process. `faults`: whether
    tests may inject faults, see `middleware.faults`.
    """

    region: str = "us-east-1"
    code: tuple[Path, ...] = ()
    concurrency: int = 1000
    memory_mb: int = 10_240
    processes: int = 8
    runtime: str = ""
    architecture: str = ""
    inherited_variables: tuple[str, ...] = ()
    faults: bool = False

    def arguments(self) -> list[str]:
        """The command-line arguments of the account's process."""
        return [
            f"--region={self.region}",
            f"--concurrency={self.concurrency}",
            f"--memory={self.memory_mb}",
            f"--processes={self.processes}",
            f"--runtime={self.runtime}",
            f"--architecture={self.architecture}",
            *(f"--code={path.absolute()}" for path in self.code),
            *(f"--inherit={name}" for name in self.inherited_variables),
            *(["--faults"] if self.faults else []),
        ]


DEFAULTS = AccountSettings()
