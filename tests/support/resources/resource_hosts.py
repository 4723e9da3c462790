"""Hosts of resources by name, for the suite that all of them pass (`tests/contracts/test_resources.py`)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from functions.contract import ResourceRef
from functions.resources.action_meter import ActionMeter
from functions.resources.asking import Asking
from functions.resources.in_process import InProcess
from functions.resources.port import Host
from functions.resources.settings import Resource, identity
from infra.local.file_storage import FileStorage

Serve = Callable[[Mapping[str, Resource], Path], AbstractContextManager[Host]]
"""A host of resources, whose kept answers are below a folder."""


@contextmanager
def in_process(resources: Mapping[str, Resource], folder: Path) -> Iterator[Host]:
    yield InProcess(resources, FileStorage(folder))


HOSTS: dict[str, Serve] = {"in process": in_process}
# These serve actions in other processes, so that a function that hangs or dies harms nobody.
APART: dict[str, Serve] = {}


def asking(
    resources: Mapping[str, Resource],
    folder: Path,
    host: Host | None,
    asked_by: str = "run/000000/sample/0",
    meter: ActionMeter | None = None,
) -> Asking:
    """The resources of a task of a run whose objects are below `folder`; `meter` counts what it asks."""
    refs = {
        name: ResourceRef(identity=identity(name, resource), keep=resource.keep) for name, resource in resources.items()
    }
    return Asking(refs, FileStorage(folder), host, asked_by, meter)
