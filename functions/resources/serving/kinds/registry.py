"""The kinds of resources, by the setting that selects the kind."""

import atexit
from collections.abc import Mapping
from importlib import import_module

from marless.functions.resources.serving.kinds.kind import ResourceKind
from marless.functions.resources.settings import Resource, identity

# A kind's module, which has `begin(name: str, resource: Resource) -> ResourceKind`.
KINDS: Mapping[str, str] = {
    "serve": "marless.functions.resources.serving.kinds.function",
    "command": "marless.functions.resources.serving.kinds.command",
    "http": "marless.functions.resources.serving.kinds.http",
}


class Kinds:
    """The resources that a process has begun, which it keeps until it ends."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, float, int, tuple[str, ...]], ResourceKind] = {}
        atexit.register(self.close)

    def of(self, name: str, resource: Resource) -> ResourceKind:
        """A resource, begun at its first question. Errors of `begin` pass through."""
        key = identity(name, resource), resource.timeout_s, resource.memory_mb, resource.sandbox_paths
        if key not in self._begun:
            self._begun[key] = begin(name, resource)
        return self._begun[key]

    def close(self) -> None:
        """Ends all of them."""
        while self._begun:
            self._begun.popitem()[1].close()


def begin(name: str, resource: Resource) -> ResourceKind:
    """A resource that is begun here. Raises `NoAnswer`, one line, if it cannot be."""
    setting = next(setting for setting in KINDS if getattr(resource, setting))
    kind: ResourceKind = import_module(KINDS[setting]).begin(name, resource)
    return kind
