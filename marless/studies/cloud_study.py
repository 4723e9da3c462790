"""A study in the cloud: begun from its folder, governed by the deployed coordinator, fetched back into its folder."""

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from marless.backends import registry
from marless.backends.base import LocatedDeployment, RemoteBackend
from marless.cloud.watching import Watch
from marless.coordinator.config.schema import Pricing, RunConfig
from marless.coordinator.drive import run_manifest, study_governor
from marless.coordinator.drive.ledger_items import Unresumable
from marless.coordinator.drive.run_manifest import STUDY
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_json
from marless.coordinator.governor.study_state import StudyPlan, StudyState
from marless.coordinator.platform import Platform
from marless.functions.encoding import Undecodable, to_json, to_json_file
from marless.functions.errors import CorruptObject
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.runs import summary
from marless.runs.beginning import begin_run
from marless.runs.folder import IDENTITY, RunFolder, decode_identity
from marless.runs.inputs.required_packages import refuse_elsewhere, refuse_language
from marless.runs.lease_renewal import manifest_of
from marless.runs.run_store import require_name
from marless.runs.train_and_resume import priced
from marless.runs.view import View
from marless.signals import Signals
from marless.studies.study import FILE, Study
from marless.studies.study_file import StudyFile
from marless.studies.study_run import StudyRun

# Studies on this machine do without the AWS SDK.
if TYPE_CHECKING:
    from marless.infra.aws.detached_ports import Deployed

DEPLOYMENT = "deployment.json"
# Searches with settings that are known from the start.
_KNOWN_AT_ONCE = ("grid", "random")


class StudyPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The place of a study (deployment.json)."""

    backend: str
    deployment_ref: DeploymentRef

    @property
    def name(self) -> str:
        """The study's name there, which stays when its folder is moved."""
        return self.deployment_ref.run

    def name_of(self, run: StudyRun) -> str:
        """The run's name there, where runs of other studies may be called the same here."""
        return f"{self.name}.{run.name}"

    def deployed(self, folder: Path) -> "Deployed":
        """Return the deployment. Raises `StorageFault`."""
        return registry.remote(self.backend).deployed(folder, self.deployment_ref)


def place_of(folder: Path) -> StudyPlace | None:
    """Return the place of the study in the folder, or None on this machine. Raises `UserError`."""
    path = folder / DEPLOYMENT
    return read_json(path, StudyPlace) if path.exists() else None


def settle(folder: Path, backend: RemoteBackend, deployment: LocatedDeployment) -> StudyPlace:
    """Make the deployment the place of the study in the folder. Raises `StorageFault`."""
    place = StudyPlace(backend=backend.name, deployment_ref=deployment.deployment_ref)
    RunFolder(folder).write(DEPLOYMENT, to_json_file(place), durable=True)
    return place


def refuse(file: StudyFile) -> None:
    """Raise `UserError` for features that a study in the cloud lacks."""
    if file.halving:
        raise UserError("halving: a study in the cloud has no early stopping; leave it out, or train on this machine")
    if file.search.rule not in _KNOWN_AT_ONCE:
        raise UserError(
            f"search.rule: {file.search.rule} learns from runs that ended, which a study in the cloud cannot;"
            f" use {' or '.join(_KNOWN_AT_ONCE)}, or train on this machine"
        )
    if file.search.parallel is not None:
        raise UserError("search.parallel: a study in the cloud begins runs as there is room; set pool.workers instead")
    algorithm = file.base.get("algorithm")
    settings = algorithm if isinstance(algorithm, dict) else {}
    refuse_elsewhere(settings.get("device"))
    refuse_language(settings.get("name"))


def adopt(folder: Path, deployment: LocatedDeployment) -> None:
    """Fill the folder of a study that began on another machine. Raises `UserError` if there is none."""
    name, tenant = folder.name, deployment.deployment_ref.tenant
    try:
        plan = study_governor.read_plan(deployment.deployed, name)
    except Undecodable as error:
        raise UserError(f"{name} was begun by another version of marless: {error}") from error
    if plan is None:
        raise UserError(f"tenant {tenant} has no study {name}; give its file, such as {name}.toml")
    RunFolder(folder).write(FILE, bytes(plan.file), durable=True)


def begin(study: Study, place: StudyPlace, deployment: LocatedDeployment) -> StudyPlan:
    """Writes all runs and the study into the tenant's ledger, and calls the governor, which begins them.

    Afterwards the study does not need this machine. After a kill, repeat the call. Raises `UserError` when the tenant
    has runs of these names already, and for runs that need a GPU.
    """
    for run in study.runs:
        refuse_elsewhere(run.config.algorithm.device)
        refuse_language(run.config.algorithm.name)
    beginning = _Beginning(study, place, deployment)
    owners = {beginning.write(run): run.owner for run in study.runs}
    owners_by_name = {name: study.owner(name) for name in owners.values()}
    width = place.deployment_ref.width
    plan = StudyPlan(
        study=place.name,
        tenant=place.deployment_ref.tenant,
        file=msgspec.Raw(to_json(study.file)),
        coordinator=place.deployment_ref.functions["coordinator"],
        width=min(width, study.file.pool.workers or width),
        at_work=study.file.pool.runs,
        owners=owners,
        weights={name: owner.weight for name, owner in owners_by_name.items()},
        dollars=study.file.dollars,
        caps={name: owner.dollars for name, owner in owners_by_name.items() if owner.dollars is not None},
    )
    return study_governor.begin(deployment.deployed, plan)


class _Beginning:
    def __init__(self, study: Study, place: StudyPlace, deployment: LocatedDeployment) -> None:
        self._study, self._place, self._located = study, place, deployment
        self._prices: dict[Pricing, Pricing] = {}
        self._platform: Platform | None = None

    def write(self, run: StudyRun) -> str:
        """Make the folder of a run and write its manifest. Returns the run's name in the tenant."""
        name = self._place.name_of(run)
        require_name(name, "the study's name with the run's")
        folder = RunFolder(self._study.folder / "runs" / run.name)
        folder.path.mkdir(parents=True, exist_ok=True)
        ref = msgspec.structs.replace(self._place.deployment_ref, run=name)
        outside = self._located.deployed.outside(name)
        if (folder.path / IDENTITY).is_file():
            identity, config = folder.identity(), folder.config()
        else:
            config = self._fit(run.config)
            identity = begin_run(folder, config, self._place.backend, ref, outside.storage, run.registration)
        manifest = manifest_of(identity, ref, config, self._platform_of(folder, ref), detached=True)
        manifest = msgspec.structs.replace(manifest, study=STUDY + self._place.name)
        if (there := run_manifest.read(outside.ledger)) is None:
            run_manifest.write(outside.ledger, manifest)
        elif decode_identity(there.identity) != identity:
            raise UserError(f"tenant {ref.tenant} has a run {name} already; give the study's file another name")
        return name

    def _fit(self, config: RunConfig) -> RunConfig:
        if config.pricing not in self._prices:
            self._prices[config.pricing] = priced(config, self._place.deployment_ref.region).pricing
        from marless.cloud.deployments import fit

        return fit(msgspec.structs.replace(config, pricing=self._prices[config.pricing]), self._located)

    def _platform_of(self, folder: RunFolder, ref: DeploymentRef) -> Platform:
        if self._platform is None:
            with closing(registry.backend(self._place.backend).open(folder.path, 1, deployment_ref=ref)) as connection:
                self._platform = connection.platform
        return self._platform


def fetch(folder: Path, place: StudyPlace) -> StudyState | None:
    """Write the state of the study's runs, and the results of ended runs, into their folders.

    Returns the progress of the study, or None before its start. Raises `StorageFault`.
    """
    there = place.deployed(folder)
    if (plan := study_governor.read_plan(there, place.name)) is None:
        return None
    state = study_governor.read_state(there, place.name) or StudyState()
    for name in plan.owners:
        run = _run_folder(folder / "runs" / name.removeprefix(f"{place.name}."), name, there)
        before = summary.earlier(run)
        if (name in state.live or name in state.over) and (before is None or before.status != "finished"):
            with suppress(Unresumable, CorruptObject):  # the governor reports faults of the run
                _look(run, place)
    return state


def stop(folder: Path, place: StudyPlace) -> None:
    """End the study. Raises `StorageFault`, and `UserError` if it has not begun."""
    there = place.deployed(folder)
    if (plan := study_governor.read_plan(there, place.name)) is None:
        raise UserError(f"{place.name} has not begun")
    study_governor.stop(there, plan)


def mark(study: Study, place: StudyPlace, state: StudyState) -> None:
    """Gives each run of the study the status that the governor knows."""
    for run in study.runs:
        outcome = state.over.get(name := place.name_of(run))
        if outcome is not None:
            run.status, run.reason, run.dollars = outcome.status, outcome.reason, outcome.dollars
        elif name in state.live:
            run.status = "running"
        else:
            run.status = "new"


def _look(folder: RunFolder, place: StudyPlace) -> None:
    identity, signals = folder.identity(), Signals()
    signals.stop()  # the watch ends after one look
    with closing(
        registry.backend(place.backend).open(folder.path, 1, deployment_ref=identity.deployment_ref)
    ) as connection:
        Watch(folder, identity, connection, View(), signals, time.monotonic()).follow()


def _run_folder(path: Path, name: str, there: "Deployed") -> RunFolder:
    folder = RunFolder(path)
    if not (folder.path / IDENTITY).is_file():
        manifest = run_manifest.read(there.outside(name).ledger)
        assert manifest is not None
        folder.adopt(manifest)
    return folder
