"""A run as its folder holds it, for commands that only look; nothing is locked or written, and it may be read-only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coordinator.cli.errors import UserError
from coordinator.cli.folder import Identity, RunFolder
from coordinator.loop import CHECKPOINT, lasting, stored
from coordinator.ports import Storage
from coordinator.pricing.prices import load_prices
from coordinator.state import Plan, State
from functions.contract import NoSuchObject, Ref
from infra import wiring


@dataclass(frozen=True)
class Stored:
    """The plan, the state as committed last and at the last checkpoint, and the objects they refer to."""

    plan: Plan
    identity: Identity
    state: State
    checkpoint: State | None
    storage: Storage

    @property
    def kept(self) -> State:
        """The newest state whose objects are stored: while objects travel inside messages, that of the checkpoint."""
        state = self.state
        if state.placing is None or not state.placing.carry or self.checkpoint is None:
            return state
        return state if all(map(self._holds, lasting(state))) else self.checkpoint

    def _holds(self, ref: Ref) -> bool:
        try:
            self.storage.get(ref.key)
        except NoSuchObject:
            return False
        return True


@contextmanager
def look(folder: RunFolder) -> Iterator[Stored]:
    """Raises `UserError` for a run that nothing is known of yet."""
    identity, config = folder.identity(), folder.config()
    if not (folder.path / wiring.LEDGER).is_file():
        raise UserError(f"{folder.path} has no ledger; nothing is known of this run")
    backend = wiring.BACKENDS[identity.backend](folder.path, workers=1, read_only=True)
    try:
        state = stored(backend.ledger)
        if state is None:
            raise UserError(f"{folder.name} has not begun")
        prices = load_prices(config.pricing.region)
        plan = Plan(identity.run, config, identity.code_sha256, prices, backend.init_limit_ms, backend.width)
        yield Stored(plan, identity, state, stored(backend.ledger, CHECKPOINT), backend.storage)
    finally:
        backend.close()


def standing(folder: RunFolder, state: State) -> str:
    """The run's status for people: a run that nobody drives and that did not end was interrupted."""
    if folder.driven():
        return "running"
    return "interrupted" if state.status == "running" else state.status
