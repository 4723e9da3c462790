"""Hashes of the files next to a run's objects. The ledger keeps them, and `marless runs verify` compares them.

They are committed before the files are written. A kill in between leaves a file as it was, so that is right, too.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from marless.coordinator.core.state import State
from marless.coordinator.drive.ports import Ledger
from marless.coordinator.file_reading import UnreadableFile, open_file, read_file
from marless.functions.encoding import from_json, to_json
from marless.runs.folder import ATTEMPTS, BILL, EVALUATIONS, IDENTITY, METRICS, SUMMARY, Identity, RunFolder, sha256

COVERED = (METRICS, ATTEMPTS, BILL, SUMMARY, EVALUATIONS)
# Files that grow by appended lines.
_GROWING = (METRICS, ATTEMPTS)
_ITEM = "files"


class HashRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files after `round` rounds: the hashes that each may have. For growing files, the size and hash of the first
    part."""

    round: int = 0
    whole: dict[str, tuple[str, ...]] = {}
    growing: dict[str, tuple[int, str]] = {}
    plan: str = ""
    """The hash of what plan.json says for as long as the run lasts."""


class FileHashes:
    """Keeps the hashes of the files in `folder` in the run's ledger. Raises `StorageFault`."""

    def __init__(self, ledger: Ledger, folder: RunFolder, identity: Identity) -> None:
        self._ledger, self._folder, self._identity = ledger, folder, identity
        self._growing = {name: _Growing(folder.path / name) for name in _GROWING}

    def expect(self, round_: int, bodies: Mapping[str, bytes]) -> None:
        """To be called before `bodies` are written, by name, after `round_` rounds."""
        before, version = _load(self._ledger)
        covered_bodies = {name: body for name, body in bodies.items() if name in COVERED}
        whole = {name: (sha256(body), *_present(self._folder.path / name)) for name, body in covered_bodies.items()}
        growing = {name: part for name, file in self._growing.items() if (part := file.read())}
        recorded_hashes = HashRecord(
            round=round_, whole=before.whole | whole, growing=growing, plan=plan_hash(self._identity, round_)
        )
        self._ledger.commit(_ITEM, to_json(recorded_hashes), version)

    def rewind(self, round_: int) -> None:
        """Forgets files of rounds after `round_`, which are trained again."""
        before, version = _load(self._ledger)
        if before.round > round_:
            self._ledger.commit(
                _ITEM, to_json(HashRecord(round=round_, plan=plan_hash(self._identity, round_))), version
            )


def hashes_of(folder: RunFolder, identity: Identity, ledger: Ledger) -> FileHashes | None:
    """Return the hashes of a run with a ledger on this machine. In the cloud every write is paid for."""
    return None if identity.deployment_ref else FileHashes(ledger, folder, identity)


class _Growing:
    """The hash of a file, which is read from where the last reading ended."""

    def __init__(self, path: Path) -> None:
        self._path, self._size, self._digest = path, 0, hashlib.sha256()

    def read(self) -> tuple[int, str] | None:
        """Return the size in bytes and the hash of the file, or None."""
        try:
            with open_file(self._path) as (file, _):
                file.seek(self._size)
                more = file.read()
        except UnreadableFile:
            return None
        self._size += len(more)
        self._digest.update(more)
        return self._size, self._digest.hexdigest()


def changed(
    ledger: Ledger, folder: RunFolder, identity: Identity, state: State, is_driven: bool
) -> tuple[list[str], list[str]]:
    """Return the faults in the files of a run in `state`, and the names of files without a hash in the ledger.

    While a driver writes them none can be told to be wrong.
    """
    recorded_hashes = HashRecord() if is_driven else _load(ledger)[0]
    present = {name: _present(folder.path / name) for name in recorded_hashes.whole}
    wrong = [name for name, hashes in recorded_hashes.whole.items() if not set(present[name]) & set(hashes)]
    for name, (size, digest) in recorded_hashes.growing.items():
        body = _read(folder.path / name) or b""
        # Only a later round appends to it, or the attempts of a round that a kill has ended.
        goes_on = state.round > recorded_hashes.round or (name == ATTEMPTS and state.status == "running")
        appended_bytes = 0 if goes_on else len(body) - size
        wrong += [name] if sha256(body[:size]) != digest or appended_bytes else []
    known_names = {*recorded_hashes.whole, *recorded_hashes.growing}
    if recorded_hashes.plan:
        known_names.add(IDENTITY)
        wrong += [IDENTITY] if plan_hash(identity, recorded_hashes.round) != recorded_hashes.plan else []
    not_covered = [name for name in (IDENTITY, *COVERED) if name not in known_names and (folder.path / name).exists()]
    return [f"{name} does not match its hash in the ledger" for name in wrong], not_covered


def plan_hash(identity: Identity, round_: int = 0) -> str:
    """Return the hash of the lasting content of plan.json after `round_` rounds. It covers changes of code that are
    older than that.

    A change of limits adds a hash of the configuration, and its file is compared with them. Empty fields do not count,
    so a new field of a later program changes no hash. Inputs count as fields of the plan, where they once were.
    """
    changes = tuple(change for change in identity.changes if change.round < round_)
    fields = msgspec.to_builtins(
        msgspec.structs.replace(identity, configs=(), changes=changes, format_version=msgspec.UNSET)
    )
    inputs = fields.pop("inputs", {})
    return sha256(to_json(_without_empty(fields | inputs)))


def _without_empty(value: object) -> object:
    return {name: _without_empty(one) for name, one in value.items() if one} if isinstance(value, dict) else value


def _load(ledger: Ledger) -> tuple[HashRecord, int]:
    if (record := ledger.load(_ITEM)) is None:
        return HashRecord(), 0
    return from_json(record.body, HashRecord, "the ledger's item of files"), record.version


def _present(path: Path) -> tuple[str, ...]:
    body = _read(path)
    return () if body is None else (sha256(body),)


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except UnreadableFile:
        return None
