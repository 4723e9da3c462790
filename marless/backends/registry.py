"""All back-ends by name: ours, and those that other packages offer by an entry point of the group `marless.backends`.

The value of an entry point is a `Backend` object, such as ``my_package.my_module:BACKEND``.
"""

from importlib import import_module
from typing import cast

from coordinator.errors import UserError
from functions.plug_ins import plug_ins
from marless.backends.base import Backend, RemoteBackend

GROUP = "marless.backends"
DEFAULT = "local"
# Which deployment is meant where nobody says.
DEFAULT_REMOTE = "aws"
BUILT_IN = {
    "local": "marless.backends.local",
    "inline": "marless.backends.inline",
    "emulated": "marless.backends.emulated",
    "aws": "marless.backends.aws",
}


def names() -> list[str]:
    """The names of all back-ends, ours first."""
    return [*BUILT_IN, *sorted(plug_ins(GROUP).keys() - BUILT_IN.keys())]


def backend(name: str) -> Backend:
    """The back-end of that name, for use; raises `UserError` as `lookup` does, and where its packages are missing."""
    entry = lookup(name)
    if entry.extra:
        from marless.extras import require

        require(entry.extra, f"back-end {name}")
    return entry


def lookup(name: str) -> Backend:
    """The back-end of that name, whose packages may be missing; raises `UserError` for one that nobody knows or that
    cannot be loaded."""
    if name in BUILT_IN:
        return cast(Backend, import_module(BUILT_IN[name]).BACKEND)
    offers = plug_ins(GROUP).get(name)
    if not offers:
        raise UserError(f"there is no back-end {name}; known are {', '.join(names())}")
    try:
        loaded = offers[0].load()
    except Exception as error:
        raise UserError(f"back-end {name} ({offers[0].value}) cannot be loaded: {error}") from error
    if not isinstance(loaded, Backend):
        raise UserError(f"back-end {name}: {offers[0].value} is no Backend object; see docs of marless.backends")
    return loaded


def remote(name: str) -> RemoteBackend:
    """The back-end of that name, whose runs live in a deployment; raises `UserError`."""
    found = backend(name)
    if not isinstance(found, RemoteBackend):
        raise UserError(f"back-end {name} has no deployments: its runs are on this machine")
    return found


def remote_names() -> list[str]:
    """The names of back-ends whose runs live in a deployment."""
    return [name for name in names() if lookup(name).remote]
