"""Worker processes that Ray places on the nodes of a cluster. The run itself lives in its folder, as a local one."""

import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from marless.backends.badge import badge, driver_badge
from marless.backends.base import Connection, Part, Readiness, WorkerDemand
from marless.backends.local import ListeningBackend, LocalBackend
from marless.coordinator.errors import UserError
from marless_cluster.ray.cluster import RayError, installed
from marless_cluster.ray.head import ADDRESS, AUTO, LOCAL, head_here, trouble

if TYPE_CHECKING:
    from marless.coordinator.config.schema import RunConfig
    from marless.infra.aws.deployment_ref import DeploymentRef
    from marless_cluster.remote.dial_in_workers import PoolListener

# The processes of a head of Ray 2.60 without its page, added up.
_COST = "a head takes about 500 MB"
# A check of this machine waits only so long for a silent head.
_PATIENCE_S = 15.0


class RayBackend(LocalBackend):
    """Functions are processes on nodes of the Ray cluster at `address`. By default this is RAY_ADDRESS, or ``auto``."""

    name = "ray"
    summary = "worker processes that Ray places on the nodes of a cluster"
    extra = "ray"
    workers_dial_in = True

    def __init__(self, address: str | None = None, runs: "Sequence[RunConfig]" = ()) -> None:
        self._address, self._runs = address, runs

    @property
    def address(self) -> str:
        """The address of the head."""
        return self._address or os.environ.get(ADDRESS) or AUTO

    def at(self, address: str) -> Self:
        """See `Backend.at`."""
        return type(self)(address, self._runs)

    def for_run(self, config: "RunConfig") -> Self:
        """See `Backend.for_run`."""
        return type(self)(self._address, [config])

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`. Raises `UserError` for a cluster that cannot be used."""
        if read_only:
            return super().open(folder, workers, read_only, deployment_ref)
        with ExitStack() as stack:
            listener = stack.enter_context(self.listening(WorkerDemand(self._runs, workers)))
            connection = ListeningBackend(listener).open(folder, workers)
            placed = stack.pop_all()

        def settle() -> None:
            connection.settle()
            placed.close()

        return replace(connection, settle=settle)

    def listening(self, demand: WorkerDemand) -> "AbstractContextManager[PoolListener]":
        """See `Backend.listening`."""
        return _listening(self.address, demand)

    def readiness(self) -> Readiness:
        """Return whether Ray is installed, and whether a process answers at its head's address."""
        packages = self.packages()
        if not packages.ready:
            return Readiness(ready=False, what=self.summary, parts=(packages,))
        parts = (_version(packages), self._head())
        return Readiness(ready=all(part.ready for part in parts if part.needed), what=self.summary, parts=parts)

    def _head(self) -> Part:
        problem = trouble(self.address, _PATIENCE_S)
        where = head_here() if self.address == AUTO else self.address
        text = problem or ("begins with a run" if self.address == LOCAL else f"answers at {where}")
        # Without a head, the address `local` starts one, and another machine may have one.
        return Part(name="head", ready=not problem, text=f"{text}; {_COST}", needed=self.address != AUTO)


@contextmanager
def _listening(address: str, demand: WorkerDemand) -> "Iterator[PoolListener]":
    from marless_cluster.ray.cluster import connect
    from marless_cluster.ray.placed_workers import PlacedWorkers, node_address
    from marless_cluster.remote.addresses import Address
    from marless_cluster.remote.dial_in_workers import PoolListener
    from marless_cluster.remote.faults import DialInError

    with ExitStack() as stack:
        try:
            ray, is_ours = connect(address, logging.getLogger("marless.cluster").info)
            if is_ours:
                stack.callback(ray.shutdown)
            # Only this run's workers have the token, so it needs no distribution.
            token = secrets.token_bytes(32)
            listener = PoolListener(Address(node_address(ray), 0), token, driver_badge(demand.runs, demand.more_follow))
        except (RayError, DialInError) as error:
            raise UserError(f"back-end ray: {error}") from None
        stack.callback(listener.close)
        options = {"num_cpus": demand.cores, "memory": int(demand.memory_mb * 2**20) or None}
        placed = PlacedWorkers(ray, demand.count, options, listener.address, token, badge, listener.tell)
        stack.callback(placed.close)
        yield listener


def _version(packages: Part) -> Part:
    try:
        return Part(name="packages", ready=True, text=f"Ray {installed().__version__}")
    except RayError as error:
        return Part(name="packages", ready=False, text=str(error))


BACKEND = RayBackend()
