"""marless resume: goes on with a run that was stopped, was killed, failed, or may train on."""

from argparse import ArgumentParser, Namespace
from contextlib import closing

import msgspec

from coordinator import provenance
from coordinator.cli import effective
from coordinator.cli import options as common
from coordinator.cli.detaching import detach
from coordinator.cli.ending import Ending, conclude
from coordinator.cli.errors import USER_ERROR, UserError
from coordinator.cli.folder import CONFIG, Identity, RunFolder, sha256
from coordinator.cli.signals import Signals
from coordinator.config import RunConfig, convert, override
from functions.contract import StorageFault
from infra import wiring

EXAMPLES = """examples:
  marless resume latest
  marless resume first stop.rounds=600"""


def arguments(parser: ArgumentParser) -> None:
    common.run(parser)
    parser.add_argument("settings", nargs="*", metavar="stop.key=value", help="new limits")
    common.workers(parser)
    common.detach(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """`marless resume`: goes on with a run that did not finish; its exit code."""
    folder = RunFolder.find(options.run)
    with Signals() as signals, folder.driving():
        options.folder = folder.path
        identity = folder.identity()
        if options.detach and identity.residence is None:
            raise UserError(f"{folder.name} is a run on this machine; --detach needs one in the cloud")
        old = _unchanged(folder, identity)
        config = _with_limits(old, options.settings)
        return conclude(_go_on(folder, identity, old, config, options, signals))


def _unchanged(folder: RunFolder, identity: Identity) -> RunConfig:
    """The run's configuration; `UserError` unless the resumed run will give the bytes of an uninterrupted one."""
    if folder.config_sha256() not in identity.configs:
        path = folder.path / CONFIG
        raise UserError(f"{path} was edited after the run began; start a new run with it: marless train {path}")
    if provenance.code_sha256() != identity.code_sha256:
        began = f"commit {identity.commit}" if identity.commit else f"code {identity.code_sha256[:12]}, of no commit"
        raise UserError(f"the program changed since {folder.name} began ({began}); go back to that, or start a new run")
    config = folder.config()
    present = provenance.surroundings(config.task, config.algorithm.name)
    if changes := provenance.changes(identity.surroundings, present):
        raise UserError(f"{folder.name} would go on with other bytes: {changes}; go back to that, or start a new run")
    return config


def _with_limits(config: RunConfig, settings: list[str]) -> RunConfig:
    other = next((text for text in settings if not text.startswith("stop.")), None)
    if other is not None:
        raise UserError(f"{other}: a run keeps its configuration; only limits (stop.*) can be set anew")
    document = msgspec.to_builtins(config)
    for text in settings:
        override(document, text)
    return convert(document, "the command line")


def _go_on(
    folder: RunFolder, identity: Identity, old: RunConfig, config: RunConfig, options: Namespace, signals: Signals
) -> Ending:
    try:
        backend = wiring.BACKENDS[identity.backend](folder.path, options.workers, residence=identity.residence)
    except StorageFault as fault:
        return Ending(USER_ERROR, str(fault))
    with closing(backend):
        backend.prewarm()
        from coordinator.cli.finished import outstanding
        from coordinator.cli.session import launch

        try:
            if ending := outstanding(folder, identity, old, config, backend):
                return ending
            if config != old:
                identity = _record(folder, identity, config)
        except StorageFault as fault:
            return Ending(USER_ERROR, str(fault))
        if options.detach:
            return detach(folder, config, identity, backend)
        return launch(folder, config, identity, backend, options, signals)


def _record(folder: RunFolder, identity: Identity, config: RunConfig) -> Identity:
    """Writes the new limits; the plan knows the new file before it is there, so that a kill in between does no harm."""
    text = effective.document(config).encode()
    configs = tuple(dict.fromkeys((*identity.configs, sha256(text))))
    identity = msgspec.structs.replace(identity, configs=configs)
    folder.identify(identity)
    folder.write(CONFIG, text, durable=True)
    return identity
