"""Checks object keys. Every storage adapter uses it."""

import re

# Parts that start with a dot are refused: '..' would leave the run, and unfinished objects have dotted names.
_KEY = re.compile(r"[^./\0][^/\0]*(?:/[^./\0][^/\0]*)*")


def check_key(key: str) -> str:
    """Return `key`. Raises `ValueError` if it could lead outside its run."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a key: keys are relative, and no part is empty or starts with a dot")
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix`, which may end inside a part. Raises `ValueError` if its folders are not a valid key."""
    folder, slash, _ = prefix.rpartition("/")
    if slash:
        check_key(folder)
    return prefix
