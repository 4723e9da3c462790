"""Published versions of functions, and the resolution of names and ARNs to them."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from aws_emulator.lambda_service.invocation_result import invalid, not_found

LIVE = "live"
LATEST = "$LATEST"
# "Configuring reserved concurrency for a function": the least concurrency of the account that stays unreserved. The
# message of an account with a lower quota names that quota instead, so that nothing can be reserved there.
LEAST_UNRESERVED = 100
# API_Invoke, FunctionName: a name, a partial ARN or an ARN, each with or without a qualifier.
_NAME = re.compile(
    r"(?:(?:arn:aws[a-z-]*:lambda:(?P<region>[a-z0-9-]+):)?(?P<account>\d{12}):function:)?"
    r"(?P<name>[A-Za-z0-9_-]{1,64})(?::(?P<qualifier>\$LATEST|[A-Za-z0-9_-]+))?"
)


@dataclass(frozen=True)
class FunctionVersion:
    """One published version of a function.

    `code` holds folders of modules: the first is LAMBDA_TASK_ROOT, and Python's library comes before the others.
    `max_retries`, `max_event_age_s` and `recursion_allowed` are not part of a version on AWS: they may differ when the
    same version is published again.
    """

    name: str
    version: str
    handler: str
    code: tuple[Path, ...]
    memory_mb: int = 128
    timeout_s: float = 3.0
    environment: Mapping[str, str] = field(default_factory=dict)
    role_arn: str = ""
    log_group: str = ""
    dead_letter_arn: str | None = None
    max_retries: int = 0
    max_event_age_s: float = 21_600.0
    recursion_allowed: bool = False

    def frozen(self) -> "FunctionVersion":
        """The immutable part of the version. Settings that may change are reset."""
        return replace(self, max_retries=0, max_event_age_s=0.0, recursion_allowed=False)


@dataclass(frozen=True)
class Target:
    """The version that a caller's name resolves to, and the ARN of that name with and without qualifier."""

    function: FunctionVersion
    arn: str
    unqualified_arn: str


class Registry:
    """The functions of one region of an account, thread-safe."""

    def __init__(self, region: str, account: str, concurrency: int) -> None:
        self._prefix = f"arn:aws:lambda:{region}:{account}:function:"
        self._region, self._account, self._concurrency = region, account, concurrency
        self._lock = threading.Lock()
        self._versions: dict[str, dict[str, FunctionVersion]] = {}
        self._newest: dict[str, FunctionVersion] = {}
        self._reserved: dict[str, int] = {}

    def publish(self, function: FunctionVersion) -> None:
        """Makes `function` the newest version of its name. The alias `live` and `$LATEST` point to it.

        Raises `ValueError` if the same version number was published with other content.
        """
        with self._lock:
            before = self._versions.get(function.name, {}).get(function.version)
            if before is not None and before.frozen() != function.frozen():
                raise ValueError(f"version {function.version} of {function.name} is published and cannot change")
            self._versions.setdefault(function.name, {})[function.version] = function
            self._newest[function.name] = function

    def reserve(self, name: str, concurrency: int | None) -> None:
        """Sets a function's reserved concurrency (API_PutFunctionConcurrency). None removes it.

        Raises `ValueError` if less than 100 would be left to the functions without a reservation.
        """
        with self._lock:
            reservations = {function: count for function, count in self._reserved.items() if function != name}
            if concurrency is not None:
                reservations[name] = concurrency
            least = min(LEAST_UNRESERVED, self._concurrency)
            if concurrency and self._concurrency - sum(reservations.values()) < least:
                raise ValueError(
                    f"Specified ReservedConcurrentExecutions for function {name} decreases account's "
                    f"UnreservedConcurrentExecution below its minimum value of [{least}]."
                )
            self._reserved = reservations

    def remove(self, name: str) -> None:
        """Removes all versions of a function and its reservation. A missing function is ignored."""
        with self._lock:
            self._reserved.pop(name, None)
            self._versions.pop(name, None)
            self._newest.pop(name, None)

    def remove_version(self, name: str, version: str) -> None:
        """Removes a version. A missing one is ignored."""
        with self._lock:
            self._versions.get(name, {}).pop(version, None)

    def resolve(self, name: str, qualifier: str | None) -> Target:
        """Resolves a name, a partial ARN or an ARN, each with an optional qualifier. Raises `Refused`."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise invalid(f"{name[:200]} is not the name or ARN of a function")
        arn_qualifier = match["qualifier"]
        if arn_qualifier and qualifier and arn_qualifier != qualifier:
            raise invalid("The derived qualifier from the function name does not match the specified qualifier.")
        qualifier = arn_qualifier or qualifier
        function_arn = f"{self._prefix}{match['name']}"
        arn = f"{function_arn}:{qualifier}" if qualifier else function_arn
        here = match["region"] in (None, self._region) and match["account"] in (None, self._account)
        function = self._find(match["name"], qualifier) if here else None
        if function is None:
            raise not_found(f"Function not found: {arn if here else name}")
        return Target(function, arn, function_arn)

    def current(self, function: FunctionVersion) -> bool:
        """Return whether the version still exists."""
        with self._lock:
            return self._versions.get(function.name, {}).get(function.version) is not None

    def reservation(self, name: str) -> int | None:
        """A function's reserved concurrency, which is also its limit. `None` if it has no reservation."""
        with self._lock:
            return self._reserved.get(name)

    def shared_concurrency(self) -> int:
        """The concurrency shared by functions without a reservation."""
        with self._lock:
            return self._concurrency - sum(self._reserved.values())

    def count(self) -> int:
        with self._lock:
            return len(self._newest)

    def _find(self, name: str, qualifier: str | None) -> FunctionVersion | None:
        with self._lock:
            if qualifier in (None, LATEST, LIVE):
                return self._newest.get(name)
            return self._versions.get(name, {}).get(str(qualifier))
