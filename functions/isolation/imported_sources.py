"""The modules that a source imports, as far as its text shows it."""

import ast
import os
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import cache_from_source

# So many files are followed, at most.
_MOST = 1000
# Python compares a source with its cache by size and by whole seconds.
_RACY_S = 2.0


def imported_names(path: str, package: str = "") -> list[str]:
    """Return the dotted names of modules that a source of the package may import. Other files import none."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            packages = package.split(".")
            above = packages[: len(packages) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module or ""]))
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [*{".".join(name.split(".")[: end + 1]) for name in names for end in range(name.count(".") + 1)}]


def beside_script(path: str) -> list[str]:
    """Return the paths of the modules in the folder of a Python program that it imports."""
    folder, waiting, paths = os.path.dirname(path), imported_names(path), dict[str, None]()
    while waiting and len(paths) < _MOST:
        name = waiting.pop()
        module = _module_below(folder, name)
        if module and module not in paths:
            paths[module] = None
            waiting += imported_names(module, name if module.endswith("__init__.py") else name.rpartition(".")[0])
    return [*paths]


def _module_below(folder: str, name: str) -> str:
    spec = None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, [folder])
        folder = next(iter((spec and spec.submodule_search_locations) or ()), "")
        if spec is None:
            return ""
    return os.path.abspath(spec.origin) if spec and spec.origin and os.path.isfile(spec.origin) else ""


def drop_racy_cache(path: str) -> None:
    """Remove a module's cache that was written about when its source was edited. It may hold another state."""
    cache = cache_from_source(path)
    with suppress(OSError):
        if os.path.getmtime(cache) < os.stat(path).st_ctime + _RACY_S:
            os.unlink(cache)
