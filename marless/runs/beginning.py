"""The beginning of a run on any platform: a new run is written down, and a stopped run is checked and continues."""

from collections.abc import Sequence

import msgspec

from marless.backends.base import Connection
from marless.coordinator.config import toml_dump
from marless.coordinator.config.exactness import is_exact
from marless.coordinator.config.schema import RunConfig, Stop
from marless.coordinator.core.apply import apply
from marless.coordinator.core.decide import limit_reached
from marless.coordinator.core.events import Resumed
from marless.coordinator.core.round_graph import in_flight
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.ledger_items import load_state
from marless.coordinator.drive.ports import Storage
from marless.coordinator.drive.recovery import intact_state
from marless.coordinator.errors import FINISHED, USER_ERROR, Ending, UserError
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.program import program_name
from marless.reports import provenance
from marless.reports.provenance import CodeChange
from marless.reports.user_code import captured_source
from marless.runs import summary
from marless.runs.folder import CONFIG, Identity, RunFolder, now, sha256
from marless.runs.inputs.stored_inputs import store_inputs
from marless.runs.integrity.code_record import CodeRecord
from marless.runs.integrity.file_hashes import hashes_of
from marless.runs.integrity.ledger_loss import refuse_lost
from marless.runs.integrity.trusted_origin import seal
from marless.runs.run_files import Documents
from marless.runs.run_store import RUNS, RunStore
from marless.runs.stored_run import plan_of


def begin_run(
    folder: RunFolder,
    config: RunConfig,
    backend: str,
    deployment_ref: DeploymentRef | None,
    storage: Storage,
    registration: str = "",
    store: RunStore = RUNS,
) -> Identity:
    """Store the inputs of a new run, then write its configuration and its plan, which makes the folder a run.

    The configuration names other runs in the `store`.

    Raises `UserError` for unusable inputs, and `StorageFault`.
    """
    name = deployment_ref.run if deployment_ref else folder.path.name
    inputs = store_inputs(config, name, storage, store)
    text = toml_dump.document(config).encode()
    identity = Identity(
        run=name,
        backend=backend,
        code_sha256=provenance.code_sha256(),
        commit=provenance.commit(),
        environment_fingerprint=provenance.fingerprint_of(config),
        created=now(),
        configs=(sha256(text),),
        deployment_ref=deployment_ref,
        inputs=inputs,
        registration=registration,
    )
    captured_source.store(folder.path, captured_source.modules_of(msgspec.to_builtins(config)))
    folder.write(CONFIG, text, durable=True)
    seal(folder, config)
    folder.identify(identity)
    return identity


def continue_run(
    folder: RunFolder,
    identity: Identity,
    old: RunConfig,
    config: RunConfig,
    backend: Connection,
    changes: Sequence[CodeChange] = (),
) -> Identity | Ending:
    """Return the plan of a run that continues, with the new limits of `config` and a record of code `changes`.

    Return its ending if there is nothing to train. Raises `StorageFault`, and `UserError` for a lost ledger.
    """
    if ending := _outstanding(folder, identity, old, config, backend):
        return ending
    if changes:
        identity = _record_changes(folder, identity, config, backend, changes)
    return identity if config == old else _record_limits(folder, identity, config)


def compare_code(folder: RunFolder, config: RunConfig, backend: Connection, shared: CodeRecord | None = None) -> None:
    """Have answers compared with the run's code from now on. `shared` is the record of its study.

    Raises `UserError` for a run with other code than its study, and `StorageFault`.
    """
    record = CodeRecord(folder.path, folder.argument, shared)
    if fault := record.begin(config):
        raise UserError(fault)
    backend.compare_code(record.refusal)


def with_processors(folder: RunFolder, identity: Identity, config: RunConfig, backend: Connection) -> Identity:
    """Return the plan of a run that begins or continues with these workers. It records whether their processors may
    differ and its bytes depend on them."""
    if not backend.any_processor or identity.any_processor or is_exact(config):
        return identity
    identity = msgspec.structs.replace(identity, any_processor=True)
    folder.identify(identity)
    return identity


def _record_changes(
    folder: RunFolder, identity: Identity, config: RunConfig, backend: Connection, changes: Sequence[CodeChange]
) -> Identity:
    state, done = load_state(backend.ledger), 0
    if state is not None:
        done = intact_state(plan_of(identity, config, backend), state, backend.storage, backend.ledger).round
    dated = (msgspec.structs.replace(change, round=done) for change in changes)
    identity = msgspec.structs.replace(identity, changes=(*identity.changes, *dated))
    folder.identify(identity)
    CodeRecord(folder.path, folder.argument).accept()
    return identity


def _record_limits(folder: RunFolder, identity: Identity, config: RunConfig) -> Identity:
    """Write the new limits. The plan names the new file before it exists, so that a kill in between does no harm."""
    text = toml_dump.document(config).encode()
    identity = msgspec.structs.replace(identity, configs=tuple(dict.fromkeys((*identity.configs, sha256(text)))))
    folder.identify(identity)
    captured_source.store(folder.path, captured_source.modules_of(msgspec.to_builtins(config)))
    folder.write(CONFIG, text, durable=True)
    seal(folder, config)
    return identity


def _outstanding(
    folder: RunFolder, identity: Identity, old: RunConfig, config: RunConfig, backend: Connection
) -> Ending | None:
    if (state := load_state(backend.ledger)) is None:
        refuse_lost(folder, backend.storage.list("rounds/"))
    if state is None or state.status != "finished":
        return None
    plan = plan_of(identity, config, backend)
    if not (limit := _reached_limit(plan, state, old.stop)):
        return None
    if not summary.has_finished(folder):
        measurements = summary.measured_before(folder, state.seconds)
        hashes = hashes_of(folder, identity, backend.ledger)
        Documents(folder, plan, identity, backend.storage, hashes).complete(state, measurements, "finished")
        return Ending(FINISHED, f"{folder.name} had finished; wrote its summary and policies")
    again = f"{program_name()} resume {folder.argument} {_example(limit, state, config.stop)}"
    return Ending(USER_ERROR, f"{folder.name} is finished ({limit}); raise the limit with: {again}")


def _reached_limit(plan: Plan, state: State, old: Stop) -> str:
    target = plan.config.stop.return_
    if state.reason == "return" and target is not None and old.return_ is not None and target <= old.return_:
        return "stop.return"
    following = apply(plan, state, Resumed())
    reason = limit_reached(plan, following, in_flight(plan, following))
    return f"stop.{reason}" if reason else ""


def _example(key: str, state: State, stop: Stop) -> str:
    doubled_limits = {
        "stop.rounds": 2 * state.round or 100,
        "stop.env_steps": 2 * state.env_steps,
        "stop.seconds": round(2 * state.seconds + 1),
        "stop.dollars": 2 * (stop.dollars or 0.0),
        "stop.return": (stop.return_ or 0.0) + 1.0,
    }
    return f"{key}={doubled_limits[key]:.12g}"
