"""The adapters under test: each port's suite runs against every back-end of `BACKENDS`.

The AWS adapters run against the emulated account, which is started when the first test needs it.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asking import begin
from emulated import Emulated, emulated
from shell import Shell

from marless.backends.badge import Badge
from marless.infra.aws.awslambda import LambdaInvoker
from marless.infra.aws.dynamodb import DynamoLedger
from marless.infra.aws.s3 import S3Storage
from marless.infra.local.dispatch import Capacity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Lane
from marless.infra.local.single_run_pool import WorkerPool
from marless.infra.local.sqlite_ledger import SqliteLedger
from marless.infra.local.task_pool import TaskPool
from marless_cluster.remote.addresses import Address
from marless_cluster.remote.dial_in_workers import dial_in_run
from marless_cluster.remote.listener import Listener

BACKENDS = ["local", "emulated"]
TOKEN, BADGE = b"a token of the contract suite", Badge("test", "any")


@dataclass(frozen=True)
class Backend:
    """One adapter and its store: `open` makes a client here, `source` makes one called `client` in another process."""

    open: Callable[[], Any]
    source: str


Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulated(tmp_path_factory.mktemp("account")) as account:
        yield account


@pytest.fixture
def run() -> str:
    """A unique run name, which separates tests in the shared emulated account."""
    return str(uuid.uuid4())


@pytest.fixture
def local_storage(tmp_path: Path) -> Backend:
    root = tmp_path / "blobs"
    source = (
        "from marless.infra.local.file_storage import FileStorage\nfrom pathlib import Path\n"
        f"client = FileStorage(Path({str(root)!r}))\n"
    )
    return Backend(lambda: FileStorage(root), source)


@pytest.fixture
def emulated_storage(account: Emulated, run: str) -> Backend:
    prefix = f"tenants/one/runs/{run}"
    source = _source(account, f"client = S3Storage(cloud, {account.bucket!r}, {prefix!r})\n")
    return Backend(lambda: S3Storage(account.cloud, account.bucket, prefix), source)


@pytest.fixture(params=BACKENDS)
def storage(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_storage")


@pytest.fixture
def blobs(storage: Backend) -> Any:
    return storage.open()


@pytest.fixture
def local_ledgers(tmp_path: Path) -> Backend:
    path = tmp_path / "ledger.sqlite"
    source = (
        "import os\nfrom marless.infra.local.sqlite_ledger import SqliteLedger\nfrom pathlib import Path\n"
        f"client = SqliteLedger(Path({str(path)!r}))\n"
    )
    return Backend(lambda: SqliteLedger(path), source)


@pytest.fixture
def emulated_ledgers(account: Emulated, emulated_storage: Backend, run: str) -> Backend:
    scope = f"run/one/{run}"
    source = f"{emulated_storage.source}client = DynamoLedger(cloud, {account.table!r}, {scope!r}, client)\n"
    return Backend(lambda: DynamoLedger(account.cloud, account.table, scope, emulated_storage.open()), source)


@pytest.fixture(params=BACKENDS)
def ledgers(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_ledgers")


@pytest.fixture
def ledger(ledgers: Backend) -> Iterator[Any]:
    client = ledgers.open()
    yield client
    client.close()


@pytest.fixture
def local_invokers(tmp_path: Path, shell: Shell) -> Backend:
    """Two workers. 'actor' is served by `echo`, 'learner' by a module that does not exist."""
    shell.import_from(Path(__file__).parent)
    root = tmp_path / "blobs"
    modules = {"actor": "echo", "learner": "no_such_module"}
    source = (
        "from marless.infra.local.single_run_pool import WorkerPool\nfrom pathlib import Path\n"
        "from attempts import attempt_of\n"
        f"client = WorkerPool(2, Path({str(root)!r}), {modules!r})\n"
    )
    return Backend(lambda: WorkerPool(2, root, modules), source)


class BusyLane(Lane):
    """A lane next to 7 others, each with a hundred tasks."""

    def __init__(self, root: Path, modules: dict[str, str]) -> None:
        pool = TaskPool(Capacity(4, 4), modules, root.parent / "workers")
        for number in range(7):
            neighbour = pool.lane(f"{number}", root.parent / f"{number}")
            for task_ in range(100):
                begin(neighbour, f"{task_}", "sleep" if task_ % 50 else "exit", 0.02)
        super().__init__(pool, "own", root, 1.0)
        pool.open(self)
        self._own = pool

    def close(self) -> None:
        super().close()
        self._own.close()


@pytest.fixture
def shared_invokers(local_invokers: Backend, tmp_path: Path) -> Backend:
    """A lane of a pool of four workers. `local_invokers` explains its functions."""
    modules = {"actor": "echo", "learner": "no_such_module"}
    return Backend(lambda: BusyLane(tmp_path / "blobs", modules), "")


@pytest.fixture(scope="session")
def listener() -> Iterator[Listener]:
    listener = Listener(Address("127.0.0.1", 0), TOKEN, BADGE)
    source = (
        "from marless.backends.badge import Badge\nfrom marless_cluster.remote.addresses import Address\n"
        "from marless_cluster.remote.worker_agent import WorkerAgent\n"
        f"WorkerAgent(Address('127.0.0.1', {listener.address.port}), 2, {TOKEN!r}, Badge('test', 'any'), print,"
        " modules={'actor': 'echo', 'learner': 'no_such_module'}).run()"
    )
    folders = [str(Path(__file__).parent), *(folder or str(Path.cwd()) for folder in sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    agent = subprocess.Popen([sys.executable, "-c", source], env=environment)
    yield listener
    agent.kill()
    agent.wait()
    listener.close()


@pytest.fixture
def remote_invokers(listener: Listener, tmp_path: Path) -> Backend:
    modules = {"actor": "echo", "learner": "no_such_module"}
    return Backend(lambda: dial_in_run(listener, tmp_path / "blobs", modules), "")


@pytest.fixture
def emulated_invokers(account: Emulated) -> Backend:
    """Two at a time. 'actor' is served by `echo`, 'learner' by a module that does not exist. Both are new."""
    versions = account.functions("echo.on_lambda", "no_such_module.handler")
    functions = dict(zip(("actor", "learner"), versions, strict=True))
    source = _source(account, f"client = LambdaInvoker(cloud, {functions!r}, 2)\n")
    return Backend(lambda: LambdaInvoker(account.cloud, functions, 2), source)


@pytest.fixture(params=[*BACKENDS, "shared", "remote"])
def invokers(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_invokers")


@pytest.fixture
def invoker(invokers: Backend) -> Iterator[Any]:
    client = invokers.open()
    yield client
    client.close()


@pytest.fixture
def pool(local_invokers: Backend) -> Iterator[WorkerPool]:
    with local_invokers.open() as client:
        yield client


@pytest.fixture
def python() -> Iterator[Run]:
    """Runs source text in another process that imports the same modules. Kills running processes at the end."""
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


def _source(account: Emulated, rest: str) -> str:
    """Source text that finds the account from another process. The keys open nothing else, so they may be public."""
    cloud = account.cloud
    return (
        "import os\nfrom marless.infra.aws.awslambda import LambdaInvoker\n"
        "from marless.infra.aws.clients import Cloud\n"
        "from marless.infra.aws.dynamodb import DynamoLedger\nfrom marless.infra.aws.s3 import S3Storage\n"
        f"cloud = Cloud({cloud.region!r}, {cloud.endpoint!r}, {cloud.credentials!r})\n{rest}"
    )
