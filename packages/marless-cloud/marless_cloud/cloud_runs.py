"""The runs that a tenant's deployment holds: listed, removed, archived and restored from any machine."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from marless.backends.base import RemoteBackend
from marless.cloud.deployments import require_deployment
from marless.coordinator.core.state import Plan
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.ledger_items import CHECKPOINT, Unresumable, load_state
from marless.coordinator.drive.ports import Storage
from marless.coordinator.drive.run_manifest import RunManifest
from marless.coordinator.errors import UserError, one_line
from marless.functions.encoding import Undecodable
from marless.functions.errors import KeyTaken, StorageFault
from marless.infra.aws.detached_ports import Deployed, RunPorts
from marless.infra.aws.dynamodb import DynamoLedger
from marless.infra.aws.function_settings import Settings
from marless.infra.aws.s3 import tenant_runs
from marless.infra.local import own_process
from marless.infra.local.file_storage import FileStorage
from marless.runs.folder import decode_identity
from marless.runs.lease_renewal import this_process
from marless.runs.run_store import RunStore, require_name
from marless.runs.stored_run import Stored
from marless.runs.upkeep.archives import pack, unpack
from marless.runs.upkeep.listing import RunRow, row_of

THREADS = 16
"""The number of runs that are read at once, and of objects that are copied at once."""
# Where an archive has the ledger's items. No object of a run begins so.
_ITEMS = "items/"
_UNREADABLE = (Unresumable, Undecodable, StorageFault)


@dataclass(frozen=True)
class CloudRun:
    """A run and its ledger. For a run that cannot be read, `problem` says why. `study` is '' without a study."""

    name: str
    ledger: DynamoLedger
    stored: Stored | None = None
    study: str = ""
    problem: str = ""


class CloudRuns:
    """The runs of a tenant. Raises `UserError` without a deployment, and `StorageFault` if AWS refuses a request."""

    def __init__(self, backend: RemoteBackend, tenant: str, region: str | None) -> None:
        self._cloud = backend.cloud(region)
        deployment = require_deployment(backend, self._cloud, tenant, region)
        self._settings = Settings(deployment.bucket, deployment.table, deployment.tenant)
        self.deployed = Deployed(self._settings, self._cloud)

    def names(self) -> list[str]:
        """Return the names of all runs, sorted."""
        return tenant_runs(self._cloud, self._settings)

    def read(self, run: str) -> CloudRun:
        """Read a run."""
        ports = self._ports(run)
        try:
            stored, manifest = _stored(ports)
        except _UNREADABLE as error:
            return CloudRun(run, ports.ledger, problem=one_line(error))
        return CloudRun(run, ports.ledger, stored, manifest.study)

    def rows(self) -> list[RunRow]:
        """One row for each run, the oldest first."""
        with ThreadPoolExecutor(THREADS) as pool:
            rows = pool.map(self.row, self.names())
        return sorted(rows, key=lambda row: (row.created, row.run))

    def row(self, run: str) -> RunRow:
        """The progress of the run, and the bytes of its objects. `problem` says why a run cannot be read."""
        cloud_run, size = self.read(run), sum(self._ports(run).storage.sizes("").values())
        if cloud_run.stored:
            return row_of(cloud_run.stored, run=run, folder="", bytes=size)
        return RunRow(run=run, folder="", status="unreadable", bytes=size, problem=cloud_run.problem)

    def remove(self, run: str) -> None:
        """Remove the ledger of the run, then its objects.

        A command that was killed meanwhile can be typed again. Raises `UserError` for a run that is driven.
        """
        with self._without_driver(run) as ports:
            _clear(ports)
            self.deployed.live.remove(run)

    def archive(self, run: str, path: Path) -> int:
        """Write the run into the new file `path`, and return how many files that holds. Raises like `remove`."""
        with self._without_driver(run) as ports, TemporaryDirectory() as scratch:
            if (manifest := run_manifest.read(ports.ledger)) is None:
                raise UserError(f"{run} has no plan in the cloud, so it was removed in part. Remove it")
            folder = RunStore(Path(scratch)).create(run, run)
            folder.adopt(manifest)
            # Bodies of items that are objects are copied with their items.
            keys = [key for key in ports.storage.list("") if not key.startswith("ledger/")]
            _copy(ports.storage, FileStorage(folder.path / "objects"), keys)
            items = FileStorage(folder.path)
            for item, body in ports.ledger.items(""):
                if item != lease.LEASE:
                    items.put(f"{_ITEMS}{item}", body)
            return pack(folder, path)

    def restore(self, path: Path) -> str:
        """Put the run of an archive into the cloud, and return its name. The plan comes last: it makes it a run.

        A command that was killed meanwhile can be typed again. Raises `UserError` if there is a run of that name.
        """
        with TemporaryDirectory() as scratch:
            folder = unpack(path, RunStore(Path(scratch)))
            run, files = folder.identity().run, FileStorage(folder.path)
            bodies = {key.removeprefix(_ITEMS): files.get(key) for key in files.list(_ITEMS)}
            if run_manifest.MANIFEST not in bodies:
                raise UserError(f"{path} is not from `cloud archive`. `runs restore` reads it")
            ports = self._ports(run)
            if run_manifest.MANIFEST in ports.ledger.names():
                raise UserError(f"tenant {self._settings.tenant} has a run {run}. Remove it first")
            _clear(ports)  # leftovers of a killed command
            objects = FileStorage(folder.path / "objects")
            _copy(objects, ports.storage, objects.list(""))
            bodies |= {run_manifest.MANIFEST: bodies.pop(run_manifest.MANIFEST)}
            for item, body in bodies.items():
                ports.ledger.commit(item, body, 0)
        return run

    def _ports(self, run: str) -> RunPorts:
        require_name(run, "the run")
        return self.deployed.outside(run)

    @contextmanager
    def _without_driver(self, run: str) -> Iterator[RunPorts]:
        """Within the block nothing else drives the run. The lease of a run that the block removed goes, too."""
        ports = self._ports(run)
        if not ports.ledger.names() and not ports.storage.list(""):
            raise UserError(f"tenant {self._settings.tenant} has no run {run}")
        ledger, process = ports.ledger, this_process()
        try:
            lease.take(ledger, process, ledger.now, own_process.address(), own_process.has_ended)
        except lease.LeaseHeld as error:
            raise UserError(f"{run}: {error}") from error
        try:
            yield ports
        finally:
            if ledger.names() == [lease.LEASE]:
                ledger.remove(lease.LEASE)
            else:
                lease.release(ledger, process)


def _stored(ports: RunPorts) -> tuple[Stored, RunManifest]:
    """Raises one of `_UNREADABLE`."""
    manifest, (lease_, _) = run_manifest.read(ports.ledger), lease.read(ports.ledger)
    if manifest is None:
        raise StorageFault("it has no plan: somebody began to remove it or to restore it; type that command again")
    if (state := load_state(ports.ledger)) is None:
        raise StorageFault("it has not begun")
    driven = lease_.is_taken("", ports.ledger.now(), own_process.has_ended)
    plan: Plan = manifest.plan()
    identity, checkpoint = decode_identity(manifest.identity), load_state(ports.ledger, CHECKPOINT)
    stored = Stored(plan, identity, state, checkpoint, ports.storage, driven, ports.ledger, lease_.problem)
    return stored, manifest


def _clear(ports: RunPorts) -> None:
    # The lease stays. Objects go after the other items.
    for item in ports.ledger.names():
        if item != lease.LEASE:
            ports.ledger.remove(item)
    ports.storage.delete(ports.storage.list(""))


def _copy(source: Storage, target: Storage, keys: Iterable[str]) -> None:
    def _put(key: str) -> None:
        with suppress(KeyTaken):  # this same write stored it, but its answer was lost
            target.put(key, source.get(key))

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(_put, keys):
            pass
