"""The source files that a function needs: its entry module and, transitively, the modules that it names."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# The public package: only plug-ins import its other modules.
PUBLIC = "marless"
OURS = tuple(f"{PUBLIC}.{name}" for name in ("functions", "coordinator", "infra"))


@dataclass(frozen=True)
class Sources:
    """`files` are relative to the root they were found in, sorted. `foreign` are the imported top-level modules of
    other packages."""

    files: tuple[Path, ...]
    foreign: frozenset[str]


def sources(root: Path, entry: str) -> Sources:
    """The modules below `root` that `entry` needs, imported at the top, in a function or by name.

    A string with the dotted name of one of our modules, or ``module:attribute``, counts as an import. Registries and
    algorithms name lazily imported modules so. Raises `ModuleNotFoundError` if `entry` does not exist.
    """
    if _file(root, entry) is None:
        raise ModuleNotFoundError(f"there is no module {entry} below {root}", name=entry)
    files: dict[str, Path] = {}
    foreign: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        file = None if name in files else _file(root, name)
        if file is None:
            continue
        files[name] = file
        waiting.append(name.rpartition(".")[0])  # the import of a.b runs a first
        imports, name_strings = _names(file)
        waiting += [*imports, *name_strings]
        foreign |= {module.partition(".")[0] for module in imports} - sys.stdlib_module_names - {PUBLIC}
    return Sources(tuple(sorted(file.relative_to(root) for file in files.values())), frozenset(foreign))


def _file(root: Path, module: str) -> Path | None:
    parts = module.split(".")
    if ".".join(parts[:2]) not in OURS:
        return None
    path = root.joinpath(*parts)
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


@cache  # entries share most of their modules
def _names(file: Path) -> tuple[set[str], set[str]]:
    """The modules that a file imports, and its strings that could be modules."""
    nodes = list(ast.walk(ast.parse(file.read_bytes(), str(file))))
    return set(_import_names(nodes)), set(_module_strings(nodes))


def _import_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the modules of a file's import statements, for ``from a import b`` also a.b, which may be a module."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)


def _module_strings(nodes: list[ast.AST]) -> Iterator[str]:
    """The modules that strings of a file could name, alone or as ``module:attribute``."""
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if text.replace(".", "").replace(":", "", 1).isidentifier():
                yield text.partition(":")[0]
