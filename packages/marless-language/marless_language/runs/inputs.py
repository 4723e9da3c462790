"""The inputs of a run with agents that speak."""

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.opponents import FixedOpponents
from marless.coordinator.drive.ports import Storage
from marless.functions.messages.order import LanguageModel
from marless.runs.run_store import RunStore
from marless_language.runs.language_models import store_model
from marless_language.runs.opposed_roles import store_opposed_roles


def store(config: RunConfig, run: str, storage: Storage, runs: RunStore) -> tuple[LanguageModel, FixedOpponents | None]:
    """Store the language model, and the adapters of opponents if a run among `runs` has them. Raises `UserError` and
    `StorageFault`."""
    model = store_model(config, storage)
    return model, store_opposed_roles(config, run, storage, model, runs)
