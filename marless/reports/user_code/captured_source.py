"""Classes and functions of a notebook or a script as a module that workers of this machine can import.

The module has the source of an object and of the global names that the object uses. Modules and importable objects
become imports, and plain values become assignments. Other classes and functions of the notebook follow by their source,
and objects of dataclasses by the call that makes them. The module's name holds the hash of its text, so the
configuration that names it fixes every byte. Nothing is pickled.
"""

import ast
import builtins
import dataclasses
import hashlib
import inspect
import linecache
import re
import symtable
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from marless.coordinator.errors import UserError
from marless.functions.text.redaction import is_secret

FOLDER = "source"
_MODULE = re.compile(r"\bcell_[0-9a-f]{24}\b")


def import_path(value: Any) -> str:
    """Return ``module:name`` if other processes can import the class, function or object, else ''."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _place_of(value)
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if module in (None, "__main__") or not str(name).isidentifier():
        return ""
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is value else ""


def _place_of(value: Any) -> str:
    # ``module:name`` of the first module with this object as a global variable.
    modules = {name: getattr(module, "__dict__", {}) for name, module in [*sys.modules.items()] if name != "__main__"}
    names = ((module, name) for module, items in modules.items() for name, item in [*items.items()] if item is value)
    return next((f"{module}:{name}" for module, name in names), "")


def captured(value: Any) -> str:
    """Write the module of a class, function or object, and return ``module:name``. Raises `UserError` for a value
    without source."""
    source = _Source()
    name = source.name_of(value, "it")
    text = "\n\n".join(source.parts.values()) + "\n"
    module = f"cell_{_hash_of(text)}"
    Path(_staging().name, f"{module}.py").write_text(text, encoding="utf-8")
    sys.path.extend({_staging().name} - {*sys.path})
    return f"{module}:{name}"


def modules_of(document: Mapping[str, Any]) -> list[str]:
    """Return the captured modules that a configuration names."""
    return sorted({*_MODULE.findall(repr(document))})


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
def _staging() -> tempfile.TemporaryDirectory[str]:
    """Return the folder for modules of runs that have not begun. It is deleted when this process ends."""
    return tempfile.TemporaryDirectory(prefix="marless-source-")


class _Source:
    """The statements of a module, by the name that each defines, after the names that it uses."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def add(self, name: str, value: Any, user: str) -> None:
        """Add a name for the definition of `user`. Raises `UserError`."""
        if name not in self._values:
            self._values[name] = value
            self.parts[name] = self._statement(name, value, user)
        elif self._values[name] is not value and repr(self._values[name]) != repr(value):
            raise UserError(f"{user} travels by its source, and {name} has two values there: rename one of them")

    def name_of(self, value: Any, user: str) -> str:
        """Return the name of a value, which is added."""
        own_name, title = getattr(value, "__name__", ""), getattr(value, "name", "own_function")
        name = own_name if own_name.isidentifier() else title if str(title).isidentifier() else "own_function"
        while name != own_name and self._values.get(name, value) is not value:
            name += "_"
        self.add(name, value, user)
        return name

    def _statement(self, name: str, value: Any, user: str) -> str:
        if isinstance(value, ModuleType):
            return f"import {value.__name__} as {name}"
        if path := import_path(value):
            module, _, attribute = path.partition(":")
            return f"from {module} import {attribute} as {name}"
        if is_secret(name) and isinstance(value, str | bytes):
            raise UserError(
                f"{user} travels by its source, and a run would store {name}, which looks like a secret: read it from"
                " os.environ there, or rename it"
            )
        if isinstance(value, type | FunctionType):
            return self._source_of(name, value, user)
        return f"{name} = {self._expression(value, name, user)}"

    def _source_of(self, name: str, value: type | FunctionType, user: str) -> str:
        if (text := _definition(value)) is None:
            raise _without_source(name, value, user)
        namespace = _namespace(value)
        for used in _global_names(text):
            if used in namespace and not used.startswith("__"):
                self.add(used, namespace[used], name)
        if text.startswith("lambda"):
            return f"{name} = ({text})"
        return text if name == value.__name__ else f"{text}\n\n{name} = {value.__name__}"

    def _expression(self, value: Any, name: str, user: str) -> str:
        if _is_plain(value):
            return repr(value)
        if isinstance(value, type | FunctionType):
            return self.name_of(value, user)
        if type(value) is list:
            return f"[{', '.join(self._expression(item, name, user) for item in value)}]"
        maker, values, keywords = _call_of(value)
        if maker is None:
            raise _without_source(name, value, user)
        items = (self._expression(item, name, user) for item in values)
        pairs = (f"{key}={self._expression(item, name, user)}" for key, item in keywords.items())
        return f"{self.name_of(maker, user)}({', '.join((*items, *pairs))})"


def _call_of(value: Any) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    if isinstance(value, MethodType):
        return getattr, (value.__self__, value.__name__), {}
    if dataclasses.is_dataclass(value):
        return type(value), (), {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value), value, {}
    if type(value) is dict:
        return dict, [[*value.items()]], {}
    return (type(value), [[*value]], {}) if type(value) in (tuple, set, frozenset) else (None, (), {})


def _without_source(name: str, value: Any, user: str) -> UserError:
    if user == "it" and not isinstance(value, type | FunctionType):
        return UserError(
            f"a run cannot keep a {type(value).__name__} object: pass its class, or a function that makes it"
        )
    what = f"its {name}, a {type(value).__name__}, has no source" if user != "it" else f"{name} has none here"
    return UserError(f"{user} travels by its source, and {what}: write {user} into a file, and import it")


def _is_plain(value: Any) -> bool:
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return bool(ast.literal_eval(repr(value)) == value)
    return False


def _functions(value: Any) -> list[FunctionType]:
    members = [*vars(value).values()] if isinstance(value, type) else [value]
    inner = [getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members]
    return [function for member in inner if isinstance(function := inspect.unwrap(member), FunctionType)]


def _namespace(value: Any) -> dict[str, Any]:
    names = dict(vars(sys.modules[value.__module__]))
    for function in _functions(value):
        names.update(function.__globals__)
        names.update(inspect.getclosurevars(function).nonlocals)
    return {name: item for name, item in names.items() if not hasattr(builtins, name)}


def _definition(value: Any) -> str | None:
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
