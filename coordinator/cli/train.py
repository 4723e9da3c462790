"""marless train: a new run, from the first round to the last."""

import re
import shutil
from argparse import ArgumentParser, Namespace
from contextlib import closing

from coordinator import provenance
from coordinator.cli import effective
from coordinator.cli import options as common
from coordinator.cli.ending import Ending, conclude
from coordinator.cli.errors import USER_ERROR
from coordinator.cli.folder import CONFIG, Identity, RunFolder, now, sha256
from coordinator.cli.options import prewarm
from coordinator.cli.signals import Signals
from coordinator.config import RunConfig, load
from coordinator.reports.evaluations import names
from functions.contract import StorageFault
from infra import wiring

EXAMPLES = """examples:
  marless train                                     three agents learn to cover three landmarks
  marless train my_run.toml algorithm.lr=3e-4       a file, and a setting in place of the file's
  marless train task.name=mpe/simple_adversary stop.seconds=60 --run first

`marless config` lists all settings."""


def arguments(parser: ArgumentParser) -> None:
    common.configuration(parser)
    common.backend(parser)
    common.workers(parser)
    parser.add_argument("--run", metavar="NAME", help="name of the run (default: task, algorithm, seed and time)")
    common.json(parser)


def run(options: Namespace) -> int:
    """Makes the folder, drives the run in it, and leaves nothing of a run that cannot be."""
    config = load(*common.split(options.settings))
    folder = RunFolder.create(options.run, _suggestion(config))
    options.folder = folder.path
    with Signals() as signals, folder.driving():
        folder.begin()
        ending = _begin(folder, config, options, signals)
        if not ending.kept:
            shutil.rmtree(folder.path, ignore_errors=True)
    return conclude(ending)


def _begin(folder: RunFolder, config: RunConfig, options: Namespace, signals: Signals) -> Ending:
    """Workers start first: while they import what they need, this process does."""
    try:
        backend = wiring.BACKENDS[options.backend](folder.path, options.workers)
    except StorageFault as fault:
        return Ending(USER_ERROR, str(fault), kept=False)
    with closing(backend):
        prewarm(backend)
        from coordinator.cli.session import launch

        try:
            identity = _identify(folder, config, options.backend)
        except StorageFault as fault:
            return Ending(USER_ERROR, str(fault), kept=False)
        return launch(folder, config, identity, backend, options, signals)


def _identify(folder: RunFolder, config: RunConfig, backend: wiring.BackendName) -> Identity:
    """Writes the configuration and then the plan, which makes the folder a run."""
    text = effective.document(config).encode()
    identity = Identity(
        run=folder.path.name,
        backend=backend,
        code_sha256=provenance.code_sha256(),
        commit=provenance.commit(),
        surroundings=provenance.surroundings(config.task),
        created=now(),
        configs=(sha256(text),),
    )
    folder.write(CONFIG, text, durable=True)
    folder.identify(identity)
    return identity


def _suggestion(config: RunConfig) -> str:
    """A name such as ``simple_spread-mappo-s1``."""
    task = re.sub(r"[^a-z0-9_-]", "_", names(config.task)[1])
    return f"{task}-{config.algorithm.__struct_config__.tag}-s{config.seed}"
