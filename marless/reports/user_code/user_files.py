"""The files of a run's code on this machine, by name: the files of its configuration and their imports."""

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator

from marless.functions.isolation import file_names
from marless.functions.isolation.foreign_imports import is_trusted
from marless.functions.isolation.imported_sources import beside_script, imported_names
from marless.reports.user_code.user_modules import find_module

# So many files are followed, at most.
_MOST = 1000


def value_here(name: str) -> str:
    """Return the value of the file or installed package that has this name here, or `ABSENT` if there is none."""
    if name.startswith(file_names.PACKAGE):
        package = name.removeprefix(file_names.PACKAGE)
        if (spec := find_module(package)) is None:
            return file_names.ABSENT
        return file_names.package_value(package, [*(spec.submodule_search_locations or ())] or [str(spec.origin)])
    path = file_names.found_file(name, os.getcwd())
    return (file_names.value_of(path) if path else None) or file_names.ABSENT


def named_files(modules: Iterable[str], commands: Iterable[str]) -> dict[str, str]:
    """Return name and value of the files of modules and commands, and of their imports, as far as sources show them.

    Modules are named as ``package.module:name``.
    """
    paths = [pair for module in modules for pair in _of_module(module.partition(":")[0])]
    paths += [pair for command in commands for pair in _of_command(command)]
    return {name: value for name, path in paths if name and (value := file_names.value_of(path))}


def _of_command(command: str) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(shlex.split(command)):
        path = os.path.abspath((shutil.which(word) if place == 0 else None) or word)
        if os.path.isfile(path):
            yield file_names.file_name(path, os.getcwd()) or (path if place == 0 else ""), path
            for source in beside_script(path) if path.endswith(".py") else ():
                yield file_names.file_name(source, os.getcwd()), source


def _of_module(module: str) -> list[tuple[str, str]]:
    waiting, paths = [module], dict[str, str]()
    while waiting and len(paths) < _MOST:
        module = waiting.pop()
        path = "" if is_trusted(module.partition(".")[0]) else _path_of(module)
        name = file_names.file_name(path, os.getcwd()) if path and not file_names.installed_package(path) else ""
        if name and name not in paths:
            paths[name] = path
            waiting += imported_names(path, module if path.endswith("__init__.py") else module.rpartition(".")[0])
    return [*paths.items()]


def _path_of(module: str) -> str:
    spec = find_module(module)
    return os.path.abspath(spec.origin) if spec and spec.origin and os.path.isfile(spec.origin) else ""
