"""Functions run in the tests' own process where one worker is enough and the process is not the point."""

import pytest

from coordinator.backends import local
from coordinator.backends.inline import InlineInvoker
from functions.data import replay_loading
from infra.local.files import FileStorage
from infra.local.processes import WorkerPool


def _pool(workers, blobs_root, modules):
    if workers > 1:
        return WorkerPool(workers, blobs_root, modules)
    replay_loading._kept.clear()  # a new process remembers nothing of other runs
    return InlineInvoker(FileStorage(blobs_root))


@pytest.fixture(scope="module", autouse=True)
def _one_worker_is_this_process():
    """A process takes a third of a second to start, longer than most runs of the tests last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "WorkerPool", _pool)
        yield


@pytest.fixture
def processes(monkeypatch):
    """Worker processes, also where there is one."""
    monkeypatch.setattr(local, "WorkerPool", WorkerPool)
