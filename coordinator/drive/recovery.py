"""Find the state for a new driver to continue a run: the newest state with all its objects.

Also find the stored objects that are no longer needed."""

import msgspec

from marless.coordinator.core.apply import apply
from marless.coordinator.core.budget import load_meter
from marless.coordinator.core.events import Metered, Resumed
from marless.coordinator.core.round_graph import PHASES
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.ledger_items import CHECKPOINT, Unresumable, decode_state, find_damaged
from marless.coordinator.drive.ports import Ledger, Storage
from marless.functions import keys
from marless.functions.messages.message import Record


def intact_state(plan: Plan, state: State, storage: Storage, ledger: Ledger) -> State:
    """Return `state` if all its objects are intact, or without the round in flight if only that is damaged.

    Otherwise return the last checkpoint with the present bill. Raises `Unresumable` if it is damaged or missing."""
    if not (problem := find_damaged(storage, state.durable_refs)):
        if not find_damaged(storage, state.round_refs):
            return state
        phase = "round" if PHASES[state.phase].in_round else state.phase
        return msgspec.structs.replace(state, slots={}, phase=phase, proposal=None, decision=None)
    if (record := ledger.load(CHECKPOINT)) is None:
        raise Unresumable(f"{problem}; the run has no checkpoint to go back to")
    checkpoint = decode_state(record.body)
    if worse := find_damaged(storage, checkpoint.durable_refs):
        raise Unresumable(f"{problem}; the checkpoint of round {checkpoint.round} is damaged too: {worse}")
    measurements = {
        name: getattr(state, name) for name in ("meter", "billed_calls", "slowest", "most_calls", "timings", "peaks")
    }
    resumed_state = apply(plan, msgspec.structs.replace(checkpoint, **measurements), Resumed())
    return apply(plan, resumed_state, Metered(load_meter(plan, record)))


def leftover_keys(plan: Plan, state: State, checkpoint: Record | None, stored_keys: list[str]) -> list[str]:
    """Return the `stored_keys` of objects from later rounds or unanswered attempts. A power loss may have torn them.
    After a kill between their commits the checkpoint may be newer than the state."""
    checkpoint_refs = decode_state(checkpoint.body).durable_refs if checkpoint else ()
    refs = (*state.durable_refs, *state.round_refs, *checkpoint_refs, *plan.inputs.refs())
    keys_in_use = {ref.key for ref in refs} | set(state.checkpointed)
    return [key for key in stored_keys if key not in keys_in_use and not _is_half_written(plan, state, key)]


def _is_half_written(plan: Plan, state: State, key: str) -> bool:
    """Return whether a task of the round in flight may still store the object's siblings. Functions in the cloud
    outlive their driver, and objects of a cloud are never torn."""
    works = state.slots if plan.platform.functions_outlive_driver else ()
    return any(key.startswith(f"{keys.output_prefix(state.round, work)}.") for work in works)
