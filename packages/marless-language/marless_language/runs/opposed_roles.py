"""The adapters of another run's roles, stored as the opponents of a new run with agents that speak."""

from marless.coordinator.config.schema import RANDOM, RunConfig
from marless.coordinator.core.opponents import FixedOpponents
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError
from marless.functions import codec
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.messages.order import LanguageModel
from marless.reports.policy import same_task
from marless.runs.run_policies import keep_opponents
from marless.runs.run_store import RunStore
from marless.runs.stored_run import look
from marless_language.specs import adapter_name


def store_opposed_roles(
    config: RunConfig, run: str, storage: Storage, model: LanguageModel, runs: RunStore
) -> FixedOpponents | None:
    """Store a copy of the newest adapters of the side that does not learn, from a run among `runs`. None if all sides
    learn, or if the side speaks at random. Raises `UserError` for a run of another task, model or size of adapters, and
    `StorageFault`."""
    settings, where = config.opponents, f"opponents.policies {config.opponents.policies}"
    if settings.side is None or settings.policies == RANDOM:
        return None
    try:
        with look(runs.find(settings.policies)) as other:
            state, theirs = other.saved_state, other.plan.inputs.language_model
            if not same_task(other.plan.config.task, config.task) or theirs is None or state.team is None:
                raise UserError(f"{where}: it was trained on another task")
            if (theirs.base.sha256, theirs.rank, theirs.layers) != (model.base.sha256, model.rank, model.layers):
                raise UserError(f"{where}: its adapters are of another model or size; name its model, rank and layers")
            sides, groups = state.env_spec.sides, state.team.groups
            tensors = codec.fetch_tensors(other.storage, state.policies)
    except (CorruptObject, NoSuchObject) as error:
        raise UserError(f"{where}: {error}") from error
    agents = [agent for agent, side in enumerate(sides) if side == settings.side]
    adapters = {adapter_name(agent): tensors[adapter_name(groups[agent])] for agent in agents}
    return FixedOpponents(policies=keep_opponents(adapters, run, storage), greedy=False)
