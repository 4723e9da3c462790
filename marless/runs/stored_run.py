"""A stored run, for commands that only read. They lock and write nothing, and its folder may be read-only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from marless.backends import registry
from marless.backends.base import Connection
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive import lease
from marless.coordinator.drive.ledger_items import CHECKPOINT, load_state
from marless.coordinator.drive.ports import Ledger, Storage
from marless.coordinator.errors import UserError
from marless.coordinator.pricing.prices import load_prices
from marless.functions.errors import NoSuchObject
from marless.functions.messages.message import Ref
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.own_process import has_ended
from marless.runs.folder import Identity, RunFolder
from marless.runs.integrity.ledger_loss import behind, refuse_lost


@dataclass(frozen=True)
class Stored:
    """The plan, the state as committed last and at the last checkpoint, and the objects they refer to.

    `driven`: a process or the cloud drives the run now. `problem` is why the cloud could not continue it,
    `lost` how its ledger is older than its files.
    """

    plan: Plan
    identity: Identity
    state: State
    checkpoint: State | None
    storage: Storage
    driven: bool
    ledger: Ledger
    problem: str = ""
    lost: str = ""

    @property
    def standing(self) -> str:
        """The run's status for users: an unfinished run that nothing drives was interrupted."""
        if self.driven:
            return "running"
        return "interrupted" if self.state.status == "running" else self.state.status

    @property
    def saved_state(self) -> State:
        """The newest state with stored objects. If messages hold objects, this is the last checkpoint's state."""
        state = self.state
        if state.round_placement is None or not state.round_placement.inline_objects or self.checkpoint is None:
            return state
        return state if all(map(self._holds, state.durable_refs)) else self.checkpoint

    def _holds(self, ref: Ref) -> bool:
        try:
            self.storage.get(ref.key)
        except (NoSuchObject, ValueError):
            return False
        return True


@contextmanager
def look(folder: RunFolder) -> Iterator[Stored]:
    """Read a run. Raises `UserError` before its first commit."""
    identity, config = folder.identity(), folder.config()
    place = registry.backend(identity.backend)
    if not place.has_run(folder.path):
        refuse_lost(folder, FileStorage(folder.path / "objects").list("rounds/"))
        raise UserError(f"{folder.path} has no ledger; nothing is known of this run")
    backend = place.open(folder.path, 1, read_only=True, deployment_ref=identity.deployment_ref)
    try:
        lease_ = None if identity.deployment_ref is None else lease.read(backend.ledger)[0]
        # Before the state is read: files that are newer than it belong to a driver, or the ledger has lost something.
        is_driven = folder.driven() if lease_ is None else lease_.is_taken("", backend.ledger.now(), has_ended)
        if (state := load_state(backend.ledger)) is None:
            refuse_lost(folder, [] if is_driven else backend.storage.list("rounds/"))
            raise UserError(f"{folder.name} has not begun")
        plan, checkpoint = plan_of(identity, config, backend), load_state(backend.ledger, CHECKPOINT)
        problem, loss = lease_.problem if lease_ else "", "" if is_driven else behind(folder, state)
        yield Stored(plan, identity, state, checkpoint, backend.storage, is_driven, backend.ledger, problem, loss)
    finally:
        backend.close()


def plan_of(identity: Identity, config: RunConfig, backend: Connection) -> Plan:
    """The run's plan."""
    return Plan(
        run=identity.run,
        config=config,
        code=identity.code_sha256,
        prices=load_prices(config.pricing.region),
        platform=backend.platform,
        inputs=identity.inputs,
    )
