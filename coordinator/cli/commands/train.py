"""marless train: a new run, from the first round to the last."""

import re
import shutil
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing

from coordinator.cli import arguments as common
from coordinator.cloud.remote_runs import forget
from coordinator.config import dump
from coordinator.config.schema import RunConfig, load
from coordinator.core.opponents import KEY, Fixed
from coordinator.drive import run_manifest
from coordinator.errors import FINISHED, USER_ERROR, UserError
from coordinator.reports import provenance
from coordinator.reports.evaluations import names
from coordinator.runs.detach import detach
from coordinator.runs.ending import Ending, conclude
from coordinator.runs.folder import CONFIG, Identity, RunFolder, now, sha256
from coordinator.runs.signals import Signals
from functions.contract import StorageFault
from infra import wiring
from infra.aws.deployment_ref import DeploymentRef

EXAMPLES = """examples:
  marless train                                     three agents learn to cover three landmarks
  marless train my_run.toml algorithm.lr=3e-4       a file, and a setting in place of the file's
  marless train task.name=mpe/simple_adversary stop.seconds=60 --run first

`marless config` lists all settings."""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.configuration(parser)
    common.backend(parser)
    common.workers(parser)
    parser.add_argument("--run", metavar="NAME", help="name of the run (default: task, algorithm, seed and time)")
    common.detach(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Makes the folder, drives the run in it, and leaves nothing of a run that cannot be."""
    config = load(*common.split(options.settings))
    if options.detach and options.backend == "local":
        raise UserError("--detach needs a run in the cloud: --backend aws, or --backend emulated to try it")
    folder = RunFolder.create(options.run, _suggestion(config))
    options.folder = folder.path
    with Signals() as signals, folder.driving():
        folder.begin()
        ending = _begin(folder, config, options, signals)
        if not ending.kept:
            shutil.rmtree(folder.path, ignore_errors=True)
        if options.backend == "emulated":
            from coordinator.cloud.emulated import leave

            at_end = ending.code == FINISHED and not options.detach
            leave(folder.name, keep=ending.kept and not at_end)
    return conclude(ending)


def _begin(folder: RunFolder, config: RunConfig, options: Namespace, signals: Signals) -> Ending:
    """Workers start first: while they import what they need, this process does."""
    deployment_ref: DeploymentRef | None = None
    try:
        if options.backend != "local":
            config, deployment_ref = _settled(folder, config, options)
        backend = wiring.BACKENDS[options.backend](folder.path, options.workers, deployment_ref=deployment_ref)
    except (StorageFault, UserError) as fault:
        return Ending(USER_ERROR, str(fault), kept=False)
    with closing(backend):
        backend.prewarm()
        from coordinator.cli.views.choice import choose
        from coordinator.runs.opponent_policies import brought
        from coordinator.runs.session import launch

        try:
            opponents = brought(config, folder.path.name, backend.storage)
            identity = _identify(folder, config, options.backend, deployment_ref, opponents)
        except (StorageFault, UserError) as fault:
            return Ending(USER_ERROR, str(fault), kept=False)
        if options.detach:
            return detach(folder, config, identity, backend)
        ending = launch(folder, config, identity, backend, choose(options.json), signals, options.started)
        if deployment_ref is not None and not ending.kept:
            backend.storage.delete([KEY] if opponents else [])
            forget(
                wiring.deployed(options.backend, folder.path, deployment_ref).outside(deployment_ref.run).ledger,
                identity,
            )
        return ending


def _settled(folder: RunFolder, config: RunConfig, options: Namespace) -> tuple[RunConfig, DeploymentRef]:
    """Where the run will live, and its configuration with the sizes that functions have there; raises `UserError`."""
    from coordinator.cloud.deployments import fitted, present

    found = present(folder.path.name, options.backend, options.tenant, options.region)
    if run_manifest.read(found.deployed.outside(folder.path.name).ledger) is not None:
        raise UserError(f"tenant {options.tenant} has a run {folder.path.name} already; pick another name with --run")
    if config.pricing.region != found.deployment_ref.region:
        there, prices = found.deployment_ref.region, config.pricing.region
        print(f"the bill and stop.dollars are at prices of {prices}; {there} may cost more", file=sys.stderr)
    return fitted(config, found), found.deployment_ref


def _identify(
    folder: RunFolder,
    config: RunConfig,
    backend: wiring.BackendName,
    deployment_ref: DeploymentRef | None,
    opponents: Fixed | None,
) -> Identity:
    """Writes the configuration and then the plan, which makes the folder a run."""
    text = dump.document(config).encode()
    identity = Identity(
        run=folder.path.name,
        backend=backend,
        code_sha256=provenance.code_sha256(),
        commit=provenance.commit(),
        surroundings=provenance.surroundings(config.task, config.algorithm.name),
        created=now(),
        configs=(sha256(text),),
        deployment_ref=deployment_ref,
        opponents=opponents,
    )
    folder.write(CONFIG, text, durable=True)
    folder.identify(identity)
    return identity


def _suggestion(config: RunConfig) -> str:
    """A name such as ``simple_spread-mappo-s1``."""
    task = re.sub(r"[^a-z0-9_-]", "_", names(config.task)[1])
    return f"{task}-{config.algorithm.name}-s{config.seed}"
