"""The token that a driver and its workers share."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from functions.resources.settings import DIAL_IN_TOKEN
from functions.system_errors import explain
from infra.remote.faults import DialInError

VARIABLE = DIAL_IN_TOKEN
_LEAST_BYTES = 16


def token_file(environment: Mapping[str, str]) -> Path:
    """Where the token is unless somebody says otherwise; a home folder that machines share brings it to all."""
    home = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "marless" / "token"


def token_in(text: str, source: str) -> bytes:
    """Raises `DialInError` for a text that can be guessed."""
    token = text.strip().encode()
    if len(token) < _LEAST_BYTES:
        raise DialInError(f"the token in {source} has fewer than {_LEAST_BYTES} characters")
    return token


def read_token(path: Path) -> bytes:
    """Raises `DialInError` when the file cannot be read, or holds no token."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = explain(error, "copy it from the driver's machine") if isinstance(error, OSError) else "it is no text"
        raise DialInError(f"cannot read the token in {path}: {why}") from None
    return token_in(text, str(path))


def make_token(path: Path) -> None:
    """Writes a new token into a file that only its owner can read, unless the file is there; raises `DialInError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise DialInError(f"cannot write a token into {path}: {explain(error)}") from None
