"""Find out if this process has imported foreign code: neither ours nor Python's."""

import sys

# Our packages, the packages that we compute, read and store with, and torch's imports. Their modules compute as they
# are told.
_OURS = """
    marless marless_cluster marless_language marless_tasks
    events numpy msgspec safetensors tokenizers threadpoolctl typing_extensions
"""
_TORCH = "torch torchgen sympy mpmath networkx jinja2 markupsafe filelock fsspec triton tqdm"
# A module that torch writes itself.
_WRITTEN_BY_TORCH = "_remote_module_non_scriptable"
# Modules that setuptools, if installed, makes every interpreter import.
_START_UP = "_distutils_hack cython_runtime __main__ __mp_main__"
_TRUSTED = {*_OURS.split(), *_TORCH.split(), _WRITTEN_BY_TORCH, *_START_UP.split(), *sys.stdlib_module_names}
# Of compiled extensions, and Python's own with the platform in its name.
_PREFIXES = ("_cython_", "_sysconfigdata_")


def is_trusted(package: str) -> bool:
    """Return whether a top-level package or module of this name is ours, Python's, or one that we compute with."""
    return package in _TRUSTED or package.startswith(_PREFIXES)


class SeenModules:
    """The names of the modules that this process had imported at the last look."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._last = (0, "")

    def fresh(self) -> set[str]:
        """Return the names of modules that were imported since the last call.

        Every task asks several times. The newest module is the last, so most calls compare only its name.
        """
        last = len(sys.modules), next(reversed(sys.modules))
        if last == self._last:
            return set()
        self._last, fresh = last, sys.modules.keys() - self._names
        self._names |= fresh
        return fresh


class Imports:
    """The foreign modules that this process has imported."""

    def __init__(self) -> None:
        self._seen = SeenModules()
        self.foreign = False

    def expect(self) -> None:
        """Accept all present modules, such as the runtime of a cloud function."""
        self._seen.fresh()
        self.foreign = False

    def look(self) -> bool:
        """Return whether anything else has been imported since. Once it was, it always is."""
        if not self.foreign:
            self.foreign = not all(is_trusted(name.partition(".")[0]) for name in self._seen.fresh())
        return self.foreign


IMPORTS = Imports()
