"""The interface of back-ends: where a run's functions, objects and ledger are.

Commands ask the back-end and never name it. A back-end is one object in a separate module. A line in
`marless.backends.registry` or an entry point of the group `marless.backends` registers it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import msgspec

from marless.backends.read_only import NoInvoker, ReadOnlyLedger, ReadOnlyStorage
from marless.coordinator.drive.ports import Invoker, Ledger, Storage
from marless.coordinator.errors import UserError
from marless.coordinator.placement.coordination_cost import LATENCIES, Latency
from marless.coordinator.platform import LatencyName, Platform
from marless.coordinator.pricing.bill import Meter
from marless.coordinator.pricing.prices import StorageClass
from marless.functions.function_specs import FUNCTIONS, PLACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from marless.coordinator.config.schema import RunConfig
    from marless.functions.resources.settings import Resource
    from marless.infra.aws.clients import Cloud
    from marless.infra.aws.deployment_ref import DeploymentRef
    from marless.infra.aws.detached_ports import Deployed
    from marless.infra.deployment import Change, Deployment
    from marless.infra.local.separate_pools import SeparatePools
    from marless.infra.local.single_run_pool import OwnPool
    from marless.infra.local.task_pool import TaskPool

# The module that serves each function.
FUNCTION_MODULES = {spec.name: spec.module for spec in FUNCTIONS}
# The default tenant of deployments.
TENANT = "default"


@dataclass(frozen=True)
class Connection:
    """Storage, ledger and invoker of one run, and the properties of the platform behind them."""

    storage: Storage
    ledger: Ledger
    invoker: Invoker
    platform: Platform
    # The use of repeated requests since the last call.
    repeated: Callable[[], Meter] = Meter
    # The place of functions' printed output, such as ``runs/first/workers``, or ''.
    printed: str = ""
    # Has environments' questions to these resources answered from now on, where functions run here.
    serve: Callable[["Mapping[str, Resource]"], None] = lambda resources: None
    # Has answers refused from now on by this check of the files that they come from, see `Lane.refusal`.
    compare_code: Callable[["Callable[[Mapping[str, str], str], str]"], None] = lambda check: None
    # How many workers there are at present, where they come and go, and lines about them since the last call.
    width: Callable[[], int] | None = None
    news: Callable[[], list[str]] = list
    # Whether processors that round otherwise than this one may serve the run.
    any_processor: bool = False
    # Returns once storage has ended its background work for the run.
    settle: Callable[[], None] = lambda: None

    def for_reading(self) -> Self:
        """Return the same connection, but writes and invocations raise `StorageFault`."""
        self.invoker.close()
        return replace(
            self, storage=ReadOnlyStorage(self.storage), ledger=ReadOnlyLedger(self.ledger), invoker=NoInvoker()
        )

    def prewarm(self, function: str = "") -> None:
        """Let workers import modules for the first tasks while this process still starts. `function` names a function
        that serves all."""
        prewarm: Callable[[str], None] | None = getattr(self.invoker, "prewarm", None)
        if prewarm is not None:
            for name in (function,) if function else PLACED:
                prewarm(name)

    def withdraw(self) -> None:
        """Report the attempts as withdrawn that no worker has begun, because the run is to stop."""
        withdraw: Callable[[], None] | None = getattr(self.invoker, "withdraw", None)
        if withdraw is not None:
            withdraw()

    def close(self) -> None:
        """Ends the functions, or forgets them, lets storage settle, then closes the ledger."""
        self.invoker.close()
        self.settle()
        self.ledger.close()


@dataclass(frozen=True)
class LocatedDeployment:
    """A deployment for a run: the run's place in it, its contents, its program's version, and its external resources by
    name. `deploy_command` deploys it again.
    """

    deployment_ref: "DeploymentRef"
    deployed: "Deployed"
    code: str
    resources: "Mapping[str, Resource]"
    deploy_command: str


@dataclass(frozen=True)
class WorkerDemand:
    """The demand of runs on a cluster: so many workers, each with that part of a core and that much memory.

    0 means no demand. Runs with unknown settings may follow. `runs` are read once, and only if workers dial in."""

    runs: "Iterable[RunConfig]"
    count: int
    cores: float = 1.0
    memory_mb: float = 0.0
    more_follow: bool = False


class WorkerListener(Protocol):
    """Workers of other machines dial in there. Its pools are made of them."""

    def run_pool(self, blobs_root: Path, modules: "Mapping[str, str]") -> "OwnPool":
        """Return a pool of one run."""

    def pool(self, modules: "Mapping[str, str]", logs: Path, most: float) -> "TaskPool":
        """Return a pool for many runs, with at most `most` tasks at once."""

    def separate_pools(self, modules: "Mapping[str, str]", logs: Path) -> "SeparatePools":
        """Return pools of one slot for each run."""


Listen: TypeAlias = "Callable[[WorkerDemand], AbstractContextManager[WorkerListener | None]]"
"""Opens a connection for workers that dial in, as many as are demanded; it has no listener without such workers."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement of a back-end: the version found, or the missing part and its installation.

    A part that is not `needed` makes things better.
    """

    name: str
    ready: bool
    text: str
    needed: bool = True


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The readiness of a back-end: it is ready if every needed part is ready."""

    ready: bool
    what: str
    parts: tuple[Part, ...] = ()


class Backend(ABC):
    """A back-end with runs in their folders, on this machine."""

    name: str
    summary: str
    """One line for help texts and `marless doctor`."""
    remote: bool = False
    """Runs live in a deployment, outside their folder; the back-end is a `RemoteBackend`."""
    runs_here: bool = True
    """Functions run on this machine's cores, which also measure them."""
    workers_dial_in: bool = False
    """Functions run on machines of which this one knows only what they say when they dial in."""
    extra: str = ""
    """The extra of this package without which it cannot be used; '' for none."""
    latency_name: LatencyName = ""
    """As in `Platform`."""

    @abstractmethod
    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """Connects to the run in `folder`.

        With `read_only`, see `Connection.for_reading`: writes and invocations are refused, and the folder does not
        change. `deployment_ref` says where a run lives that is not in its folder. Raises `StorageFault`.
        """

    def at(self, address: str) -> "Backend":
        """Return the back-end with the cluster at the address. Raises `UserError` if it has no cluster."""
        raise UserError(f"an address (`head` of --machines) is for a cluster, and back-end {self.name} has none")

    def for_run(self, config: "RunConfig") -> "Backend":
        """Return the back-end for a run, if its workers depend on the run's needs."""
        return self

    def listening(self, demand: WorkerDemand) -> "AbstractContextManager[WorkerListener | None]":
        """Within the block a cluster keeps these workers dialled in to the listener. It is None if functions are
        processes of this machine. Raises `UserError` for a cluster that cannot be used."""
        return nullcontext()

    def has_run(self, folder: Path) -> bool:
        """Return whether the run in `folder` is known."""
        return True

    def readiness(self) -> Readiness:
        """Return the parts of the back-end that this machine has. Looking takes seconds at most."""
        return Readiness(ready=True, what=self.summary)

    def packages(self) -> Part:
        """Return whether the packages of its extra are installed, and how to install them."""
        from marless.extras import is_installed

        ready = is_installed(self.extra)
        return Part(name="packages", ready=ready, text="installed" if ready else f"the extra {self.extra}")

    def latency(self, storage: StorageClass) -> Latency | None:
        """Return the durations of requests besides the work, or None if all is on this machine's disk."""
        return LATENCIES[self.latency_name][storage] if self.latency_name else None


class RemoteBackend(Backend):
    """A back-end with runs in a tenant's deployment. A coordinator function can drive them."""

    remote = True
    survives: str
    """For how long a detached run goes on, as the end of a sentence."""

    @abstractmethod
    def cloud(self, region: str | None) -> "Cloud":
        """Return clients for the account, without starting it. Raises `UserError` and `StorageFault`."""

    @abstractmethod
    def prepare(self, run: str, tenant: str, region: str | None) -> LocatedDeployment:
        """The tenant's deployment for a new run, with this version of the program.

        Raises `StorageFault`, and `UserError` if the deployment is missing or has a version that cannot be renewed.
        """

    @abstractmethod
    def deployed(self, folder: Path, deployment_ref: "DeploymentRef") -> "Deployed":
        """The deployment that the run in `folder` lives in. Raises `StorageFault`."""

    @abstractmethod
    def deploy(self, request: "DeployRequest") -> "Deployment":
        """Make or renew a deployment. Raises `UserError` and the faults of deploying."""

    @abstractmethod
    def preview(self, request: "DeployRequest") -> "Sequence[Change]":
        """Return the changes that `deploy` would make. Raises the same errors."""

    @abstractmethod
    def template(self, request: "DeployRequest") -> str:
        """Return the template that `deploy` would send, after uploading its packages. Raises the same errors."""

    @abstractmethod
    def teardown(self, tenant: str, region: str | None, remove: Callable[["Cloud", str], int]) -> int:
        """Call `remove` with the account and its name in words. Returns the exit code. Raises `UserError`."""

    def release(self, run: str, keep: bool) -> None:
        """End processes that were started for the run alone, unless `keep` is set."""


@dataclass(frozen=True)
class DeployRequest:
    """The request of `marless cloud deploy`."""

    tenant: str
    region: str | None
    parameters: dict[str, str]
    """The template's parameters that the user set."""
    plugins: list[str]
    confirm: Callable[[str], None]
    """Asks the user; raises `UserError` when the answer is no."""
    report: Callable[[str], None]
    """Shows a line of progress."""
    tags: dict[str, str] | None = None
    """Of the stack and what is in it; None keeps those of the last deployment."""
    service_role: str | None = None
    """The ARN of the role as which CloudFormation acts."""
    resources: "Mapping[str, Resource | None]" = field(default_factory=dict)
    """External resources to deploy, by name; None removes one."""
