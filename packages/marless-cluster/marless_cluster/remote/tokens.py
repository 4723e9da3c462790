"""The token that a driver and its workers share."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from marless.functions.resources.settings import DIAL_IN_TOKEN
from marless.functions.system_errors import explain
from marless_cluster.remote.faults import DialInError

VARIABLE = DIAL_IN_TOKEN
_LEAST_LETTERS, _LEAST_BITS = 16, 56
# The bits of a word from a list of 8,192.
_WORD, _WORD_BITS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}"), 13


def token_file(environment: Mapping[str, str]) -> Path:
    """The default path of the token. A shared home folder brings the token to all machines.

    Raises `DialInError` for a user without a home folder.
    """
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    if home.startswith("~"):
        raise DialInError(f"this user has no home folder: name a file by --token-file, or set {VARIABLE} to the token")
    return Path(home) / "marless" / "token"


def token_in(text: str, source: str) -> bytes:
    """Raises `DialInError` for a text that can be guessed. A stranger who connects hears a proof, and may try words
    against it without asking again."""
    text = text.strip().removeprefix("\ufeff")  # as some editors begin a file
    if len(text) < _LEAST_LETTERS:
        raise DialInError(f"the token in {source} has fewer than {_LEAST_LETTERS} characters")
    if _bits(text) < _LEAST_BITS:
        raise DialInError(f"the token in {source} can be guessed; `marless train --machines` writes a better one")
    return text.encode()


def _bits(text: str) -> float:
    """Return the least number of bits to guess, if adjacent letters are words of a dictionary."""
    rest = _WORD.sub("", text)
    digits, letters = ([character for character in rest if kind(character)] for kind in (str.isdecimal, str.isalpha))
    alone = sum(bits * min(len(some), 4 * len(set(some))) for bits, some in ((3.3, digits), (4.7, letters)))
    return alone + _WORD_BITS * len(set(_WORD.findall(text)))


def read_token(path: Path) -> bytes:
    """Raises `DialInError` if the file is unreadable or empty of a token."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = explain(error, "copy it from the driver's machine") if isinstance(error, OSError) else "it is no text"
        raise DialInError(f"cannot read the token in {path}: {why}") from None
    return token_in(text, str(path))


def make_token(path: Path) -> None:
    """Writes a new token into a file that only its owner can read, unless the file is there. Raises `DialInError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise DialInError(f"cannot write a token into {path}: {explain(error)}") from None
