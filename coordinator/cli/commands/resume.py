"""marless resume: goes on with a run that was stopped, was killed, failed, or may train on."""

from argparse import ArgumentParser, Namespace
from contextlib import closing

import msgspec

from coordinator.cli import arguments as common
from coordinator.config import dump
from coordinator.config.schema import Functions, RunConfig, convert, override
from coordinator.errors import USER_ERROR, UserError
from coordinator.reports import provenance
from coordinator.runs.detach import detach
from coordinator.runs.ending import Ending, conclude
from coordinator.runs.folder import CONFIG, Identity, RunFolder, sha256
from coordinator.runs.signals import Signals
from functions.contract import StorageFault
from infra import wiring
from infra.aws.deployment_ref import DeploymentRef

EXAMPLES = """examples:
  marless resume latest
  marless resume first stop.rounds=600
  marless resume first functions.evaluator.timeout_s=300"""

# What may change without changing a byte of what is learned.
_LIMITS = ("stop.", *(f"functions.{name}.timeout_s=" for name in Functions.__struct_fields__))


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.run(parser)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="new limits: stop.* and functions.*.timeout_s")
    common.workers(parser)
    common.detach(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """`marless resume`: goes on with a run that did not finish; its exit code."""
    folder = RunFolder.find(options.run)
    with Signals() as signals, folder.driving():
        options.folder = folder.path
        identity = folder.identity()
        if options.detach and identity.deployment_ref is None:
            raise UserError(f"{folder.name} is a run on this machine; --detach needs one in the cloud")
        old = _unchanged(folder, identity)
        config = _with_limits(old, options.settings)
        if identity.deployment_ref is not None:
            _refuse_longer(config.functions, identity.deployment_ref)
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
    other = next((text for text in settings if not text.startswith(_LIMITS)), None)
    if other is not None:
        limits = "limits (stop.* and functions.*.timeout_s)"
        raise UserError(f"{other}: a run keeps its configuration; only {limits} can be set anew")
    document = msgspec.to_builtins(config)
    for text in settings:
        override(document, text)
    return convert(document, "the command line")


def _refuse_longer(functions: Functions, deployment_ref: DeploymentRef) -> None:
    """`UserError` for a time-out that the deployed function does not have."""
    for name, size in msgspec.structs.asdict(functions).items():
        if size.timeout_s > deployment_ref.timeout_s[name]:
            most = deployment_ref.timeout_s[name]
            raise UserError(f"functions.{name}.timeout_s: the run's deployed {name} has {most} s; ask for no more")


def _go_on(
    folder: RunFolder, identity: Identity, old: RunConfig, config: RunConfig, options: Namespace, signals: Signals
) -> Ending:
    try:
        backend = wiring.BACKENDS[identity.backend](
            folder.path, options.workers, deployment_ref=identity.deployment_ref
        )
    except StorageFault as fault:
        return Ending(USER_ERROR, str(fault))
    with closing(backend):
        backend.prewarm()
        from coordinator.cli.views.choice import choose
        from coordinator.runs.finalise import outstanding
        from coordinator.runs.session import launch

        try:
            if ending := outstanding(folder, identity, old, config, backend):
                return ending
            if config != old:
                identity = _record(folder, identity, config)
        except StorageFault as fault:
            return Ending(USER_ERROR, str(fault))
        if options.detach:
            return detach(folder, config, identity, backend)
        return launch(folder, config, identity, backend, choose(options.json), signals, options.started)


def _record(folder: RunFolder, identity: Identity, config: RunConfig) -> Identity:
    """Writes the new limits; the plan knows the new file before it is there, so that a kill in between does no harm."""
    text = dump.document(config).encode()
    configs = tuple(dict.fromkeys((*identity.configs, sha256(text))))
    identity = msgspec.structs.replace(identity, configs=configs)
    folder.identify(identity)
    folder.write(CONFIG, text, durable=True)
    return identity
