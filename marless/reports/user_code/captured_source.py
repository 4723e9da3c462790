"""Classes and functions of a notebook or a script as a module that workers of this machine can import.

The module has the source of an object and of the global names that the object uses. Modules and importable objects
become imports, and plain values become assignments. Other classes and functions of the notebook follow by their source.
The module's name holds the hash of its text, so the configuration that names it fixes every byte. Nothing is pickled.
"""

import ast
import builtins
import hashlib
import inspect
import linecache
import re
import symtable
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.errors import UserError

FOLDER = "source"
_MODULE = re.compile(r"\bcell_[0-9a-f]{24}\b")


def import_path(value: Any) -> str:
    """Return ``module:name`` if other processes can import the class or function, else ''."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if module in (None, "__main__") or not str(name).isidentifier():
        return ""
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is value else ""


def captured(value: Any) -> str:
    """Write the module of a class or function, and return ``module:name``. Raises `UserError` for a value
    without source."""
    name = "make" if getattr(value, "__name__", "") == "<lambda>" else value.__name__
    source = _Source()
    source.add(name, value, name)
    text = "\n\n".join(source.parts.values()) + "\n"
    module = f"cell_{_hash_of(text)}"
    (_staging() / f"{module}.py").write_text(text, encoding="utf-8")
    return f"{module}:{name}"


def modules_of(document: Mapping[str, Any]) -> list[str]:
    """Return the captured modules that a configuration names."""
    texts = (value for value in flatten(document).values() if isinstance(value, str))
    return sorted({module for text in texts for module in _MODULE.findall(text)})


def store(folder: Path, modules: list[str]) -> None:
    """Write the modules into the folder of a run."""
    for module in modules:
        spec = next(path for place in sys.path if (path := Path(place) / f"{module}.py").is_file())
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / spec.name).write_bytes(spec.read_bytes())


def use(folder: Path) -> None:
    """Let this process and its workers import the modules that a run keeps. The user must trust the run. Raises
    `UserError` for a module with another hash than its name."""
    place = folder / FOLDER
    for path in place.glob("*.py"):
        if path.stem != f"cell_{_hash_of(path.read_text(encoding='utf-8'))}":
            raise UserError(f"{path} was changed since the run began: restore it, or train a new run")
    if place.is_dir() and (name := str(place.resolve())) not in sys.path:
        sys.path.append(name)


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _staging() -> Path:
    """Return the folder for modules of runs that have not begun. It is deleted when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="marless-source-")
    _KEPT.append(folder)
    sys.path.append(folder.name)
    return Path(folder.name)


_KEPT: list[Any] = []


class _Source:
    """The statements of a module, by the name that each defines, after the names that it uses."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._begun = set[str]()

    def add(self, name: str, value: Any, user: str) -> None:
        """Add a name for the definition of `user`."""
        if name in self._begun:
            return
        self._begun.add(name)
        self.parts[name] = self._statement(name, value, user)

    def _statement(self, name: str, value: Any, user: str) -> str:
        if isinstance(value, ModuleType):
            return f"import {value.__name__} as {name}"
        if path := import_path(value):
            module, _, attribute = path.partition(":")
            return f"from {module} import {attribute} as {name}"
        if _is_plain(value):
            return f"{name} = {value!r}"
        if not isinstance(value, type | FunctionType) or (text := _definition(value)) is None:
            what = f"its {name}, a {type(value).__name__}, has no source" if name != user else "it has none here"
            raise UserError(f"{user} travels by its source, and {what}: write {user} into a file, and import it")
        namespace = _namespace(value)
        for used in _global_names(text):
            if used in namespace and not used.startswith("__"):
                self.add(used, namespace[used], name)
        return f"{name} = ({text})" if text.startswith("lambda") else text


def _is_plain(value: Any) -> bool:
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return bool(ast.literal_eval(repr(value)) == value)
    return False


def _functions(value: Any) -> list[FunctionType]:
    """The function, or the methods of a class."""
    members = [*vars(value).values()] if isinstance(value, type) else [value]
    inner = [getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members]
    return [function for member in inner if isinstance(function := inspect.unwrap(member), FunctionType)]


def _namespace(value: Any) -> dict[str, Any]:
    """The global names that a definition can use, and the local names around it."""
    names = dict(vars(sys.modules[value.__module__]))
    for function in _functions(value):
        names.update(function.__globals__)
        names.update(inspect.getclosurevars(function).nonlocals)
    return {name: item for name, item in names.items() if not hasattr(builtins, name)}


def _definition(value: Any) -> str | None:
    """Return the source of a class or function, None if it is unknown."""
    codes = [function.__code__ for function in _functions(value)]
    for file in _files(value, codes):
        text = "".join(linecache.getlines(file))
        with suppress(SyntaxError):
            for node in reversed([*ast.walk(ast.parse(text))]):
                if _defines(node, value, codes):
                    return _segment(text, node)
    return None


def _files(value: Any, codes: list[CodeType]) -> Iterator[str]:
    yield from dict.fromkeys(code.co_filename for code in codes)
    if isinstance(value, type):  # without methods: the newest cell that defines it
        yield str(getattr(sys.modules["__main__"], "__file__", ""))
        yield from (file for file in reversed([*linecache.cache]) if file.startswith("<") or "ipykernel_" in file)


def _defines(node: ast.AST, value: Any, codes: list[CodeType]) -> bool:
    if isinstance(value, type):
        lines = [code.co_firstlineno for code in codes if code.co_qualname == f"{value.__qualname__}.{code.co_name}"]
        if not isinstance(node, ast.ClassDef) or node.name != value.__name__:
            return False
        return all(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
    if isinstance(node, ast.Lambda):
        place = (node.body.lineno, node.body.end_lineno, node.body.col_offset, node.body.end_col_offset)
        return value.__name__ == "<lambda>" and place in codes[0].co_positions()
    is_function = isinstance(node, ast.FunctionDef) and node.name == value.__name__
    return is_function and _first_line(node) == codes[0].co_firstlineno


def _first_line(node: Any) -> int:
    return int(min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))))


def _segment(text: str, node: Any) -> str:
    if isinstance(node, ast.Lambda):
        return ast.get_source_segment(text, node) or ""
    return textwrap.dedent("".join(text.splitlines(keepends=True)[_first_line(node) - 1 : node.end_lineno])).rstrip()


def _global_names(text: str) -> list[str]:
    tables, names = [symtable.symtable(text, "source", "exec")], dict[str, None]()
    while tables:
        table = tables.pop()
        names |= dict.fromkeys(one.get_name() for one in table.get_symbols() if one.is_global() or one.is_free())
        tables += table.get_children()
    return sorted(names)
