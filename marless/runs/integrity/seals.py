"""Seals of runs. A run's folder holds a seal of its config.toml, made with a key that this user alone has.

So a run that is copied, moved or renamed stays the user's own, and a configuration of another person has no seal.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

_SEAL, _CONFIG, _KEY_BYTES = ".seal", "config.toml", 32
# Hashes of the configurations that were sealed without a place for a key. They count in this process.
_SEALED_HERE = set[str]()


def seal(run: Path) -> None:
    """Mark the configuration in the folder of a run as known to this user."""
    with suppress(OSError):
        if (key := _key(create=True)) is not None:
            (run / _SEAL).write_text(_mac(key, run), encoding="ascii")
            return
    _SEALED_HERE.add(_hash_of(run))


def is_sealed(run: Path) -> bool:
    """Return whether this user knows the configuration in the folder of a run."""
    with suppress(OSError):
        if _hash_of(run) in _SEALED_HERE:
            return True
        key, text = _key(create=False), (run / _SEAL).read_bytes()
        return key is not None and hmac.compare_digest(text, _mac(key, run).encode())
    return False


def _hash_of(run: Path) -> str:
    return hashlib.sha256((run / _CONFIG).read_bytes()).hexdigest()


def _mac(key: bytes, run: Path) -> str:
    return hmac.new(key, (run / _CONFIG).read_bytes(), "sha256").hexdigest()


def _key(create: bool) -> bytes | None:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    if state.startswith("~"):  # this user has no home folder
        return None
    path = Path(state) / "marless" / "key"
    if create and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink()
    key = path.read_bytes()
    return key if len(key) == _KEY_BYTES else None
