"""All back-ends by name: ours, and other packages' back-ends by an entry point of the group `marless.backends`.

The value of an entry point is a `Backend` object, such as ``my_package.my_module:BACKEND``.
"""

from contextlib import AbstractContextManager

from marless.backends.base import Backend, RemoteBackend, WorkerDemand, WorkerListener
from marless.coordinator.errors import UserError
from marless.functions.plug_in_registry import Registry

DEFAULT = "local"
# The default back-end of deployments.
DEFAULT_REMOTE = "aws"
BACKENDS: Registry[Backend] = Registry(
    "marless.backends",
    {
        "local": "marless.backends.local",
        "inline": "marless.backends.inline",
        "emulated": "marless.backends.emulated",
        "aws": "marless.backends.aws",
    },
    label=lambda name: f"back-end {name}",
    problem=lambda value: "" if isinstance(value, Backend) else "is no Backend object; see docs of marless.backends",
    error=UserError,
    attribute="BACKEND",
    extras={"ray": "ray"},  # clusters, all of them
)


def names() -> list[str]:
    """Return the names of all back-ends: ours first, then this project's uninstalled ones."""
    return list(dict.fromkeys((*BACKENDS, *BACKENDS.extras)))


def backend(name: str, address: str | None = None) -> Backend:
    """Return the back-end of that name, for use, with its cluster at the address. Raises the `UserError` of `lookup`,
    also for missing packages and for an address without a cluster."""
    entry = lookup(name)
    if entry.extra:
        from marless.extras import require

        require(entry.extra, f"back-end {name}")
    return entry.at(address) if address else entry


def listening(
    name: str | None, address: str | None, demand: WorkerDemand
) -> AbstractContextManager[WorkerListener | None]:
    """Within the block the workers of the cluster of that name serve runs that this machine drives, if one is named.
    Raises `UserError` for a back-end that has no cluster or cannot be used."""
    place = backend(name or DEFAULT, address)
    if place.name not in (names_here := placed_here()):
        raise UserError(f"back-end {name}: workers are on this machine or on a cluster: {', '.join(names_here)}")
    return place.listening(demand)


def lookup(name: str) -> Backend:
    """Return the back-end of that name, even if its packages are missing. Raises `UserError` if it is unknown or
    broken."""
    return BACKENDS.lookup(name)


def remote(name: str) -> RemoteBackend:
    """Return the back-end of that name, with runs in a deployment. Raises `UserError`."""
    remote_backend = backend(name)
    if not isinstance(remote_backend, RemoteBackend):
        raise UserError(f"back-end {name} has no deployments: its runs are on this machine")
    return remote_backend


def cluster_names() -> list[str]:
    """Return the names of back-ends with workers on the nodes of a cluster."""
    return [name for name in names() if name in BACKENDS.extras or lookup(name).workers_dial_in]


def placed_here() -> list[str]:
    """The names of back-ends for many runs that this machine drives: its own processes, and clusters."""
    return [DEFAULT, *cluster_names()]


def remote_names() -> list[str]:
    """Return the names of back-ends with runs in a deployment."""
    return [name for name in BACKENDS if lookup(name).remote]
