"""Folders from which another process imports modules, besides those of its own Python.

PYTHONPATH stands before Python's library and cannot hold a folder with a colon in its name, so such folders, and those
that are to come last, travel in a variable of their own.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress

from functions.encoding import from_json, to_json

_VARIABLE = "MARLESS_IMPORT_FOLDERS"


def last_folders(folders: Iterable[str]) -> dict[str, str]:
    """Return the variable by which `add_last_folders` finds the folders."""
    return {_VARIABLE: to_json(list(folders)).decode()}


def go_to_last_folder() -> None:
    """Make the folder that was named last the current one, if it is on this machine."""
    with suppress(OSError):
        os.chdir(from_json(os.environ[_VARIABLE].encode(), list[str])[-1])


def add_last_folders() -> None:
    """Let this process import modules of the folders that its parent named, after all others."""
    folders = from_json(os.environ.pop(_VARIABLE, "[]").encode(), list[str])
    sys.path.extend(folder for folder in folders if folder not in sys.path)
