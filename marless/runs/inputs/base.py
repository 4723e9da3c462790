"""The networks of a finished run, stored as the base of a new run's differences."""

import hashlib
from contextlib import suppress

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError
from marless.functions import codec, keys
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.adapters.state import frozen_networks, whole_networks
from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.learner import FrozenNetworks
from marless.reports.weights import Tensors, gather
from marless.runs.run_store import RunStore
from marless.runs.stored_run import Stored, look


def store_base(config: RunConfig, storage: Storage, store: RunStore) -> FrozenNetworks | None:
    """Store the state of the groups of a run in the store, without their optimisers.

    Returns None if `base.policies` is unset. The object is the same whichever run it is stored for, and its key follows
    from its content. Raises `StorageFault`, and `UserError` if the base is no finished run.
    """
    if config.base.policies is None:
        return None
    try:
        with look(store.find(config.base.policies)) as run:
            if run.state.status != "finished" or run.state.team is None:
                raise UserError(f"{config.base.policies} is no finished run; train it to its end first")
            team, tensors = run.state.team, _whole_state(run)
    except (CorruptObject, NoSuchObject, UserError) as error:
        raise UserError(f"base.policies: {error}") from error
    spec = algorithms.algorithm(config.algorithm.name)
    parts = {part for part in spec.parts if not part.endswith("_optimiser")}
    frozen = {name: array for name, array in tensors.items() if name.partition("/")[0] in parts}
    body = codec.encode(frozen, TaskHeader(task="base"))
    key = keys.object_key(f"rounds/base-{hashlib.sha256(body).hexdigest()[:16]}", "learner")
    with suppress(KeyTaken):  # of a run of this name that never began
        storage.put(key, body)
    return FrozenNetworks(networks=codec.reference(key, body), team=team)


def _whole_state(run: Stored) -> Tensors:
    state, base = run.saved_state, run.plan.inputs.base
    tensors = gather(state, run.storage)
    if base is None or state.team is None:
        return tensors
    frozen_tensors = codec.decode(codec.fetch(run.storage, base.networks), base.networks.key)
    return tensors | whole_networks(tensors | frozen_networks(frozen_tensors, base.team, state.team))
