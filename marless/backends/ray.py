"""Worker processes that Ray places on the nodes of a cluster; the run itself lives in its folder, as a local one."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from coordinator.errors import UserError
from infra.ray.cluster import ADDRESS, RayError, installed, trouble
from marless.backends.badge import badge
from marless.backends.base import Connection, Part, Readiness
from marless.backends.local import ListeningBackend, LocalBackend
from marless.output import note

if TYPE_CHECKING:
    from infra.aws.deployment_ref import DeploymentRef
    from infra.remote.listener import Listener

# The processes of a head of Ray 2.60 without its page, added up.
_COST = "a head takes about 500 MB"


class RayBackend(LocalBackend):
    """Functions are processes on nodes of the Ray cluster at `address`; None: what RAY_ADDRESS says, or ``auto``."""

    name = "ray"
    summary = "worker processes that Ray places on the nodes of a cluster"
    extra = "ray"
    workers_dial_in = True

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    @property
    def address(self) -> str:
        """Where the head is."""
        return self._address or os.environ.get(ADDRESS) or "auto"

    def at(self, address: str) -> Self:
        """See `Backend.at`."""
        return type(self)(address)

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`. Raises `UserError` for a cluster that cannot be used."""
        if read_only:
            return super().open(folder, workers, read_only, deployment_ref)
        lines: list[str] = []
        with ExitStack() as stack:
            listener = stack.enter_context(listening(self.address, workers, lines.append))
            connection = ListeningBackend(listener).open(folder, workers)
            placed = stack.pop_all()

        def news() -> list[str]:
            return [*connection.news(), *(lines.pop(0) for _ in range(len(lines)))]

        def settle() -> None:
            connection.settle()
            placed.close()

        return replace(connection, news=news, settle=settle)

    def readiness(self) -> Readiness:
        """Whether Ray is installed, and whether somebody answers where its head should be."""
        packages = self.packages()
        if not packages.ready:
            return Readiness(ready=False, what=self.summary, parts=(packages,))
        parts = (_version(packages), self._head())
        return Readiness(ready=all(part.ready for part in parts if part.needed), what=self.summary, parts=parts)

    def _head(self) -> Part:
        if self.address in ("auto", "local"):
            return Part(name="head", ready=True, text=f"of this machine, if one runs; {_COST}", needed=False)
        problem = trouble(self.address)
        return Part(name="head", ready=not problem, text=problem or f"answers at {self.address}")


@contextmanager
def listening(address: str, count: int, say: Callable[[str], None]) -> "Iterator[Listener]":
    """Within the block Ray keeps `count` workers dialled in to the listener; raises `UserError`.

    `say` takes lines about what becomes of them, from another thread.
    """
    from infra.ray.cluster import connect
    from infra.ray.placed_workers import PlacedWorkers, node_address
    from infra.remote.addresses import Address
    from infra.remote.faults import DialInError
    from infra.remote.listener import Listener

    with ExitStack() as stack:
        try:
            ray, is_ours = connect(address, note)
            if is_ours:
                stack.callback(ray.shutdown)
            # Only this run's workers have the token, so nobody has to be told of it.
            token = secrets.token_bytes(32)
            listener = Listener(Address(node_address(ray), 0), token, badge())
        except (RayError, DialInError) as error:
            raise UserError(f"back-end ray: {error}") from None
        stack.callback(listener.close)
        stack.callback(PlacedWorkers(ray, count, listener.address, token, badge, say).close)
        yield listener


def _version(packages: Part) -> Part:
    try:
        return Part(name="packages", ready=True, text=f"Ray {installed().__version__}")
    except RayError as error:
        return Part(name="packages", ready=False, text=str(error))


BACKEND = RayBackend()
