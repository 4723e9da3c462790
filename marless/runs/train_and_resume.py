"""Trains a new run, and resumes one."""

import logging
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from marless.backends import registry
from marless.backends.base import Backend, Connection, LocatedDeployment, RemoteBackend
from marless.coordinator.config.config_keys import general
from marless.coordinator.config.exactness import is_exact
from marless.coordinator.config.loading import convert, override
from marless.coordinator.config.schema import Functions, RunConfig
from marless.coordinator.drive import run_manifest
from marless.coordinator.errors import FINISHED, USER_ERROR, Ending, UserError
from marless.coordinator.pricing.prices import ELSEWHERE, USUAL, priced_as
from marless.functions.algorithms.registry import algorithm
from marless.functions.errors import StorageFault
from marless.functions.function_specs import NAMES
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.program import program_name
from marless.reports.provenance import CodeChange
from marless.runs.detach import detach
from marless.runs.drive_settings import DriveSettings, RunLocation
from marless.runs.folder import CONFIG, Identity, RunFolder, suggestion
from marless.runs.inputs.required_packages import refuse_gpu_elsewhere, refuse_language, require_packages
from marless.runs.integrity.code_record import changes_here
from marless.signals import Signals

# Settings that do not change a byte of the weights.
_LIMITS = ("stop.", "log.", *(f"functions.{name}.timeout_s=" for name in Functions.__struct_fields__))
# Settings of a resource that change no answer.
_HOW_ASKED = ("slots", "rate", "timeout_s", "attempts", "memory_mb")

# Parts of a run's origin that no change of code explains.
_NO_CODE = ("machine", "gpu")

_LOGGER = logging.getLogger(__name__)


def train(
    config: RunConfig, location: RunLocation, drive: DriveSettings, run: str | None = None
) -> tuple[RunFolder, Ending]:
    """Make the folder and drive the run. Deletes the folder of an impossible run. Raises `UserError`."""
    backend = location.backend
    if drive.detach and not isinstance(backend, RemoteBackend):
        remote = ", or ".join(f"--backend {name}" for name in registry.remote_names())
        raise UserError(f"--detach needs a run in the cloud: {remote}")
    require_packages(config, backend.runs_here)
    if isinstance(backend, RemoteBackend):
        refuse_language(config.algorithm.name)
    folder = location.store.create(run, f"{suggestion(config)}-s{config.seed}")
    drive.on_folder(folder)
    with drive.signals as signals, folder.driving():
        folder.begin()
        try:
            ending = _begin(folder, config, location, drive, signals)
        except BaseException:
            if not folder.begun:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        if not ending.keeps_folder:
            shutil.rmtree(folder.path, ignore_errors=True)
        if isinstance(backend, RemoteBackend):
            at_end = ending.code == FINISHED and not drive.detach
            backend.release(folder.name, keep=ending.keeps_folder and not at_end)
    return folder, ending


def resume(
    folder: RunFolder, settings: list[str], drive: DriveSettings, address: str | None = None, changed_code: bool = False
) -> Ending:
    """Resume a run under new limits, on the cluster at the address if there is one. `changed_code` allows that its code
    changed. Raises `UserError`."""
    with drive.signals as signals, folder.driving():
        drive.on_folder(folder)
        identity = folder.identity()
        if drive.detach and identity.deployment_ref is None:
            raise UserError(f"{folder.name} is a run on this machine; --detach needs one in the cloud")
        old, changes = config_and_changes(folder, identity, changed_code)
        config = with_limits(old, settings)
        backend = registry.backend(identity.backend, address)
        require_packages(config, backend.runs_here)
        if identity.deployment_ref is not None:
            _refuse_longer(config.functions, identity.deployment_ref)

        def go_on(connection: Connection) -> Identity | Ending:
            from marless.runs.beginning import continue_run

            return continue_run(folder, identity, old, config, connection, changes)

        return _drive(folder, config, backend, identity.deployment_ref, go_on, drive, signals)


def _begin(
    folder: RunFolder, config: RunConfig, location: RunLocation, drive: DriveSettings, signals: Signals
) -> Ending:
    backend, deployment = location.backend, None
    try:
        if isinstance(backend, RemoteBackend):
            config, deployment = _locate(folder, config, location, backend)
        deployment_ref = deployment.deployment_ref if deployment else None

        def begin(connection: Connection) -> Identity:
            from marless.runs.beginning import begin_run

            return begin_run(folder, config, backend.name, deployment_ref, connection.storage, store=location.store)

        ending = _drive(folder, config, backend, deployment_ref, begin, drive, signals)
    except (StorageFault, UserError) as fault:
        if folder.begun:
            raise
        return Ending(USER_ERROR, str(fault), keeps_folder=False)
    if deployment is not None and folder.begun and not ending.keeps_folder:
        from marless.cloud.remote_runs import forget

        forget(deployment.deployed.outside(deployment.deployment_ref.run), folder.identity())
    return ending


def _drive(
    folder: RunFolder,
    config: RunConfig,
    backend: Backend,
    deployment_ref: DeploymentRef | None,
    begin: Callable[[Connection], Identity | Ending],
    drive: DriveSettings,
    signals: Signals,
) -> Ending:
    """Begin or continue the run, and drive it or hand it over to the cloud.

    Workers start first: they import their modules at the same time as this process.
    """
    backend = drive.backend(backend)
    if backend.workers_dial_in:
        refuse_gpu_elsewhere(config.algorithm.device)
    try:
        connection = backend.for_run(config).open(folder.path, drive.workers, deployment_ref=deployment_ref)
    except StorageFault as fault:
        return Ending(USER_ERROR, str(fault), keeps_folder=folder.begun)
    with closing(connection):
        connection.prewarm(algorithm(config.algorithm.name).function)
        connection.serve(config.resources)
        from marless.runs.session import launch

        try:
            identity = begin(connection)
        except StorageFault as fault:
            return Ending(USER_ERROR, str(fault), keeps_folder=folder.begun)
        if isinstance(identity, Ending):
            return identity
        from marless.runs.beginning import compare_code, with_processors

        compare_code(folder, config, connection)
        identity = with_processors(folder, identity, config, connection)
        if drive.detach:
            return detach(folder, config, identity, connection)
        return launch(folder, config, identity, connection, drive.view(), signals, drive.started)


def _locate(
    folder: RunFolder, config: RunConfig, location: RunLocation, backend: RemoteBackend
) -> tuple[RunConfig, LocatedDeployment]:
    from marless.cloud.deployments import fit

    name = folder.path.name
    deployment = backend.prepare(name, location.tenant, location.region)
    if run_manifest.read(deployment.deployed.outside(name).ledger) is not None:
        raise UserError(f"tenant {location.tenant} has a run {name} already; pick another name")
    return fit(priced(config, deployment.deployment_ref.region), deployment), deployment


def priced(config: RunConfig, there: str) -> RunConfig:
    """The configuration with the price list of the region `there`, unless the user chose another list."""
    if config.pricing.region not in (USUAL, there):
        _LOGGER.warning("the bill and stop.dollars are at prices of %s, not of %s", config.pricing.region, there)
        return config
    if priced_as(there) == ELSEWHERE:
        _LOGGER.warning("there is no price list of %s: the bill and stop.dollars are at prices too high", there)
    return msgspec.structs.replace(config, pricing=msgspec.structs.replace(config.pricing, region=priced_as(there)))


def config_and_changes(
    folder: RunFolder, identity: Identity, changed_code: bool = False
) -> tuple[RunConfig, list[CodeChange]]:
    """Return the run's configuration, and the changes of code since the run stopped, which `changed_code` allows.

    Raises `UserError` if the resumed run would have other bytes than an uninterrupted run and this is not allowed.
    """
    if folder.edited(identity):
        path = folder.path / CONFIG
        again = f"{program_name()} train {shlex.quote(str(path))}"
        raise UserError(f"{path} was edited after the run began; start a new run with it: {again}")
    config = folder.config()
    changes = changes_here(folder, identity, config)
    if is_exact(config):
        changes = [change for change in changes if change.part != "machine"]
    refused = [change for change in changes if change.part in _NO_CODE] if changed_code else changes
    if refused:
        began = f" (it began with commit {identity.commit})" if identity.commit else ""
        what = f"{folder.name} would continue with other bytes{began}: {', '.join(map(str, refused))}; go back to that"
        if any(change.part in _NO_CODE for change in refused):
            raise UserError(f"{what}, or start a new run")
        again = f"{program_name()} resume {folder.argument} --changed-code"
        raise UserError(
            f"{what}, start a new run, or continue with the changed code (in Python changed_code=True): {again}"
        )
    return config, changes


def with_limits(config: RunConfig, settings: Sequence[str]) -> RunConfig:
    """Return the configuration with new limits and loggers. Raises `UserError` for any other setting."""
    other = next((text for text in settings if not is_limit(text.partition("=")[0])), None)
    if other is not None:
        allowed = f"limits (stop.* and functions.*.timeout_s), log.to, and of a resource {', '.join(_HOW_ASKED)}"
        raise UserError(f"{other}: a run keeps its configuration; only {allowed} can be set anew")
    document = msgspec.to_builtins(config)
    override(document, settings)
    return convert(document, "the command line")


def is_limit(key: str) -> bool:
    """Return whether the setting changes no byte of the weights, so that a resume may change it."""
    return f"{key}=".startswith(_LIMITS) or (general(key) != key and key.rpartition(".")[2] in _HOW_ASKED)


def _refuse_longer(functions: Functions, deployment_ref: DeploymentRef) -> None:
    for name, most in deployment_ref.timeout_s.items():
        if name in NAMES and getattr(functions, name).timeout_s > most:
            raise UserError(f"functions.{name}.timeout_s: the run's deployed {name} has {most} s; ask for no more")
