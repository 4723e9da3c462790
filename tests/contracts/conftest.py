"""The adapters under test: each port's suite runs against every back-end named in `params`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.files import FileStorage
from infra.processes import WorkerPool
from infra.sqlite import SqliteLedger


@dataclass(frozen=True)
class Backend:
    """One adapter and its store: `open` makes a client here, `source` makes one called `client` in another process."""

    open: Callable[[], Any]
    source: str


Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def local_storage(tmp_path: Path) -> Backend:
    root = tmp_path / "blobs"
    source = (
        f"from infra.files import FileStorage\nfrom pathlib import Path\nclient = FileStorage(Path({str(root)!r}))\n"
    )
    return Backend(lambda: FileStorage(root), source)


@pytest.fixture(params=["local"])
def storage(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_storage")


@pytest.fixture
def blobs(storage: Backend) -> Any:
    return storage.open()


@pytest.fixture
def local_ledgers(tmp_path: Path) -> Backend:
    path = tmp_path / "ledger.sqlite"
    source = (
        "import os\nfrom infra.sqlite import SqliteLedger\nfrom pathlib import Path\n"
        f"client = SqliteLedger(Path({str(path)!r}))\n"
    )
    return Backend(lambda: SqliteLedger(path), source)


@pytest.fixture(params=["local"])
def ledgers(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_ledgers")


@pytest.fixture
def ledger(ledgers: Backend) -> Iterator[Any]:
    client = ledgers.open()
    yield client
    client.close()


@pytest.fixture
def local_invokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Two workers; 'actor' is served by `echo`, 'learner' by a module that does not exist."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    root = tmp_path / "blobs"
    modules = {"actor": "echo", "learner": "no_such_module"}
    source = (
        "from infra.processes import WorkerPool\nfrom pathlib import Path\n"
        f"client = WorkerPool(2, Path({str(root)!r}), {modules!r})\n"
    )
    return Backend(lambda: WorkerPool(2, root, modules), source)


@pytest.fixture(params=["local"])
def invokers(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_invokers")


@pytest.fixture
def invoker(invokers: Backend) -> Iterator[Any]:
    client = invokers.open()
    yield client
    client.close()


@pytest.fixture
def pool(local_invokers: Backend) -> Iterator[WorkerPool]:
    """For what only local processes must show."""
    with local_invokers.open() as client:
        yield client


@pytest.fixture
def python() -> Iterator[Run]:
    """Runs source text in another process that imports what this one can; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(source: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)}
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen([sys.executable, "-c", source], env=environment, stdin=pipe, stdout=pipe, text=True)
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
