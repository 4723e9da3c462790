"""The program's packages with common names, which files of the user's folder may have, too."""

import sys
from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_NAMES = ("coordinator", "functions", "infra")


def import_own_packages() -> None:
    """Import them before files of the same names next to the user's script.

    Raises `ImportError`, one line, where the user's file was imported before.
    """
    sys.path.insert(0, str(_ROOT))
    try:
        for name in _NAMES:
            module = import_module(name)
            file = module.__file__ or next(iter(module.__path__))
            if not Path(file).resolve().is_relative_to(_ROOT):
                raise ImportError(f"{file} has the name of a package of marless: rename it, or import marless first")
    finally:
        sys.path.remove(str(_ROOT))
