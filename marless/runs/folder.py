"""A run's folder: its name, its files, its driver, its program and its configuration."""

import fcntl
import hashlib
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from marless.coordinator.config import toml_dump
from marless.coordinator.config.config_keys import imported_to_read
from marless.coordinator.config.loading import convert, read_toml
from marless.coordinator.config.renamed_keys import renamed
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import NO_INPUTS, RunInputs
from marless.coordinator.drive.run_manifest import RunManifest, with_inputs_together
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions.encoding import Undecodable, from_json, own_format, to_json_file
from marless.functions.errors import StorageFault
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.infra.local.sqlite_ledger import LEDGER_FILE
from marless.program import program_name
from marless.reports.atomic_files import replace, storage_errors, sync
from marless.reports.evaluations import names
from marless.reports.provenance import CodeChange, EnvironmentFingerprint, parts
from marless.reports.user_code import captured_source
from marless.runs.integrity.seals import is_sealed

CONFIG, IDENTITY, METRICS, BILL, SUMMARY = "config.toml", "plan.json", "metrics.jsonl", "bill.json", "summary.json"
CURVE, REPLAY, EVALUATIONS, ERRORS = "curve.png", "replay.gif", "evaluations.json", "error.log"
ATTEMPTS, TIMELINE, CODE, CALLBACKS = "attempts.jsonl", "timeline.html", "code.json", "callbacks.json"
POLICIES, BEST_POLICIES = "policies.safetensors", "best_policies.safetensors"

_LOCK = ".lock"
_BEFORE_PLAN = {CONFIG, ERRORS, CODE, "workers", "objects"}
# `driven` holds the lock for a moment. A driver waits so long for it.
_LOCK_WAIT_S = 0.2


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The constant part of a run (plan.json).

    `code_sha256` and `commit` belong to the program that began it. `environment_fingerprint` has all other origins of
    its bytes. `created` is UTC in ISO format. `configs` are the hashes of the config.toml files that marless wrote for
    it, in order. `deployment_ref` locates a run in the cloud. With `any_processor` the workers' processors may have
    rounded differently. `changes` are the changes of code that the user allowed, in order. `registration` is the hash
    of the study's file, or ''.
    """

    run: str
    backend: str
    code_sha256: str
    commit: str | None
    environment_fingerprint: EnvironmentFingerprint
    created: str
    configs: tuple[str, ...]
    deployment_ref: DeploymentRef | None = None
    inputs: RunInputs = NO_INPUTS
    any_processor: bool = False
    changes: tuple[CodeChange, ...] = ()
    registration: str = ""
    format_version: int | msgspec.UnsetType = msgspec.field(default_factory=own_format)

    @property
    def parts(self) -> dict[str, str | None]:
        """The `provenance.parts` of the next round, after all `changes`. The values of files are in code.json."""
        before = parts(self.code_sha256, self.environment_fingerprint)
        return before | {one.part: one.after for one in self.changes if one.part in before}


def decode_identity(body: bytes | msgspec.Raw, source: str = "") -> Identity:
    """Return the content of a plan.json of this or an earlier version. Raises `Undecodable`, naming the `source`."""
    return from_json(with_inputs_together(bytes(body)), Identity, source)


class RunFolder:
    """The folder of one run, in a study or elsewhere. A run in a store is a `run_store.NamedRun`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The run's name in commands: its path, or its name in a store."""
        return str(self.path)

    @property
    def argument(self) -> str:
        """The same as a word of a command line."""
        return shlex.quote(self.name)

    @property
    def begun(self) -> bool:
        """True if the folder is a run, so it has a plan.json."""
        return (self.path / IDENTITY).is_file()

    def is_leftover(self) -> bool:
        """Return whether it holds only the files that a command makes before plan.json."""
        if self.path.is_symlink() or not self.path.is_dir():
            return False
        names = {entry.name for entry in self.path.iterdir() if not entry.name.startswith((".", LEDGER_FILE))}
        return names <= _BEFORE_PLAN

    def name_taken(self) -> UserError:
        """Return the error of a new run with this name."""
        resume = f"{program_name()} resume {shlex.quote(self.path.name)}"
        return UserError(
            f"there is a run {self.path.name} already; resume it ({resume}) or pick another name"
            if self.begun
            else f"there is something called {self.path} already that is not a run; pick another name"
        )

    def begin(self) -> None:
        """Deletes the ledger and the record of code that a killed command left. Raises `UserError` if it is a run."""
        if not self.is_leftover():
            raise self.name_taken()
        for path in (*self.path.glob(f"{LEDGER_FILE}*"), self.path / CODE):
            path.unlink(missing_ok=True)

    def identify(self, identity: Identity) -> None:
        """Write plan.json, which makes the folder a run. It survives a power loss."""
        self.write(IDENTITY, to_json_file(identity), durable=True)
        with storage_errors(self.path.parent):
            sync(self.path.parent)

    def adopt(self, manifest: RunManifest) -> None:
        """Make the folder of a run that began elsewhere. Raises `Undecodable` and `StorageFault`."""
        identity = decode_identity(manifest.identity)
        self.path.mkdir(parents=True, exist_ok=True)
        self.write(CONFIG, toml_dump.document(manifest.config).encode(), durable=True)
        self.identify(identity)

    def identity(self) -> Identity:
        """Return the content of plan.json. Raises `UserError` if it cannot be read."""
        path = self.path / IDENTITY
        try:
            return decode_identity(read_file(path), str(path))
        except Undecodable as error:
            raise UnreadableFile(str(error)) from error

    def config(self) -> RunConfig:
        """The run's configuration. Raises `ConfigError`, and `UserError` if it would import foreign code."""
        path = self.path / CONFIG
        document = renamed(read_toml(path))
        if code := imported_to_read(document):
            if not is_sealed(self.path):
                raise UserError(
                    f"{self.name} was not made by you on this machine, and imports {', '.join(code)}: read {path}, then"
                    " evaluate it with --trust, or trust=True in Python"
                )
            captured_source.use(self.path)
            sys.path.extend({str(Path.cwd())} - {*sys.path})
        return convert(document, str(path))

    def edited(self, identity: Identity) -> bool:
        """Return whether a user edited config.toml. Raises `UserError` if it cannot be read."""
        return sha256(read_file(self.path / CONFIG)) not in identity.configs

    def write(self, name: str, body: bytes, durable: bool = False) -> None:
        """Replace a file. `atomic_files.replace` explains `durable`. Raises `StorageFault` if the disk refuses it."""
        path = self.path / name
        with storage_errors(path):
            replace(path, body, durable)

    def become_latest(self) -> None:
        """Make it the latest run of its store, if it has one."""

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Make this process the run's only driver. Raises `UserError` if there is another driver."""
        try:
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            raise self._gone() from None
        try:
            try:
                with storage_errors(self.path / _LOCK):
                    is_alone = _try_lock(descriptor, _LOCK_WAIT_S)
            except StorageFault:
                (self.path / _LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # it is a folder of a run that began before
                    self.path.rmdir()
                raise
            if not is_alone:
                other = os.read(descriptor, 20).decode(errors="replace").strip()
                uses = "which trains, archives or removes it"
                raise UserError(f"{self.name} is in use by another process (pid {other or 'unknown'}), {uses}")
            if not (self.path / _LOCK).exists():  # removed, between the two
                raise self._gone()
            with storage_errors(self.path / _LOCK):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.close(descriptor)

    def _gone(self) -> UserError:
        return UserError(f"{self.path} was removed by another process")

    def driver(self) -> int | None:
        """The id of the process that drives the run now, if one does."""
        if not self.driven():
            return None
        text = read_file(self.path / _LOCK).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else None

    def driven(self) -> bool:
        """Return whether a process drives the run now."""
        try:
            descriptor = os.open(self.path / _LOCK, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return not _try_lock(descriptor, 0.0, fcntl.LOCK_SH)
        except OSError:  # a system without locks drives no runs
            return False
        finally:
            os.close(descriptor)


def suggestion(config: RunConfig) -> str:
    """A folder's name such as ``simple_spread-mappo``."""
    task = re.sub(r"[^a-z0-9_-]", "_", names(config.task)[1])
    return f"{task}-{config.algorithm.name.rpartition(':')[2]}"


def sha256(body: bytes) -> str:
    """The hash of a config.toml that plan.json holds."""
    return hashlib.sha256(body).hexdigest()


def now() -> str:
    """The time for plan.json."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _try_lock(descriptor: int, patience_s: float, kind: int = fcntl.LOCK_EX) -> bool:
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
