"""Stores the inputs of a new run before it begins: opponents' policies, a dataset, a base, and language models."""

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import RunInputs
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError
from marless.functions.algorithms.registry import algorithm
from marless.functions.environments.scripted import script_names
from marless.functions.environments.scripted.players import load
from marless.functions.errors import BadRequest
from marless.functions.function_specs import KINDS
from marless.runs.inputs.base import store_base
from marless.runs.inputs.datasets import store_dataset
from marless.runs.run_policies import store_opponents
from marless.runs.run_store import RUNS, RunStore


def store_inputs(config: RunConfig, run: str, storage: Storage, store: RunStore = RUNS) -> RunInputs:
    """Store the inputs of a new run. Its base and its opponents may be runs in the `store`.

    Raises `UserError` for unusable ones, and `StorageFault`.
    """
    _require_scripts(config)
    kind = KINDS.get(algorithm(config.algorithm.name).function)
    if kind and kind.tools:
        model, opponents = kind.tool("inputs:store")(config, run, storage, store)
    else:
        model, opponents = None, store_opponents(config, run, storage, store)
    return RunInputs(
        opponents=opponents,
        dataset=store_dataset(config, run, storage),
        base=store_base(config, storage, store),
        language_model=model,
    )


def _require_scripts(config: RunConfig) -> None:
    scripts_by_setting = {"opponents.policies": config.opponents.policies, "league.script": config.league.script or ""}
    for setting, text in scripts_by_setting.items():
        if script_names.is_scripted_name(text) and text != script_names.SCRIPTED:
            try:
                load(text)
            except BadRequest as error:
                raise UserError(f"{setting}: {error}") from error
