"""More folders of modules for another process's imports, after the folders of its own Python.

PYTHONPATH comes before Python's library, and cannot hold a folder with a colon in its name. A variable of MARLess
names such folders, and the folders that are to come last.
"""

import os
import sys
from collections.abc import Iterable

from marless.functions.encoding import from_json, to_json

_VARIABLE = "MARLESS_IMPORT_FOLDERS"


def last_folders(folders: Iterable[str]) -> dict[str, str]:
    """Return the variable that names the folders for `add_last_folders`."""
    return {_VARIABLE: to_json(list(folders)).decode()}


def add_last_folders() -> list[str]:
    """Let this process import modules of the folders that its parent named, after all others. Return these folders."""
    folders = from_json(os.environ.pop(_VARIABLE, "[]").encode(), list[str])
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    return folders
