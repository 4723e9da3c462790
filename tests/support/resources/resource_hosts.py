"""Hosts of resources by name, for the suite that all of them pass (`tests/contracts/test_resources.py`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from attempts import attempt_of

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.messages.order import ResourceRef
from marless.functions.resources.asking import Asking
from marless.functions.resources.call_meter import CallMeter
from marless.functions.resources.port import CallOutcome, Host, ResourceCall
from marless.functions.resources.serving.in_process import InProcess
from marless.functions.resources.settings import Resource, identity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Lane
from marless.infra.local.resources.blocking_host import BlockingHost
from marless.infra.local.single_run_pool import WorkerPool

Serve = Callable[[Mapping[str, Resource], Path], AbstractContextManager[Host]]
"""A host of resources, whose kept answers are below a folder."""


@contextmanager
def in_process(resources: Mapping[str, Resource], folder: Path) -> Iterator[Host]:
    yield InProcess(resources, FileStorage(folder))


_OUTCOMES = MessagePackDecoder[list[CallOutcome]](list[CallOutcome])


class _AskingTasks:
    """A host that asks its actions by tasks of a pool, one after the other."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def ask(self, name: str, actions: Sequence[ResourceCall]) -> list[CallOutcome]:
        self._lane.invoke(attempt_of("actor", "run/000000/sample/0", 0, to_message_pack((name, list(actions))), 120.0))
        while not (reports := self._lane.wait(10.0)):
            pass
        assert reports[0].outcome == "answered", reports[0].detail
        return _OUTCOMES.decode(reports[0].body)


@contextmanager
def in_a_pool(resources: Mapping[str, Resource], folder: Path) -> Iterator[Host]:
    """Processes of the resources, asked by tasks in a process of a run."""
    with WorkerPool(1, folder, {"actor": "asking_tasks"}) as lane:
        lane.serve(resources)
        yield _AskingTasks(lane)


@contextmanager
def in_processes(resources: Mapping[str, Resource], folder: Path) -> Iterator[Host]:
    with closing(BlockingHost(resources, folder, folder.with_name("logs"))) as host:
        yield host


HOSTS: dict[str, Serve] = {"in process": in_process}
# These serve actions in other processes, so that a function that hangs or dies is harmless.
APART: dict[str, Serve] = {"in processes": in_processes, "in a pool": in_a_pool}


def asking(
    resources: Mapping[str, Resource],
    folder: Path,
    host: Host | None,
    asked_by: str = "run/000000/sample/0",
    meter: CallMeter | None = None,
) -> Asking:
    """The resources of a task of a run with objects below `folder`. `meter` counts its calls."""
    refs = {
        name: ResourceRef(identity=identity(name, resource), keep=resource.keep) for name, resource in resources.items()
    }
    return Asking(refs, FileStorage(folder), host, asked_by, meter)
