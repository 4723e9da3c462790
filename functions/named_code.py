"""Checks of code that a configuration names, ``package.module:name``, before the code is called.

A configuration, and so a run's folder, may be foreign, and can name anything importable. Nothing of Python's own
library is taken. A factory has to be evident. It is a class of the wanted kind, is annotated to return one, or its code
names one, directly or through its calls. This keeps out functions that happen to be importable. It is no sandbox for a
foreign module.
"""

import dis
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import get_origin

# How many calls away from a factory the wanted class may be named.
_CALLS = 4
# The most decorators of a function. A function that wraps itself has no end.
_LAYERS = 100

_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_SITES = {"site-packages", "dist-packages"}

Wanted = Callable[[type], bool]


def refuse_standard(path: str) -> None:
    """Raises `ValueError` for a module of Python's own library, before it is imported: some act when they are."""
    if _standard(path):
        raise ValueError(f"'{path}' belongs to Python's own library; name a module of yours or of a package")


def require_maker(factory: object, predicate: Wanted, names: Sequence[str], product: str) -> None:
    """Raises `ValueError` unless it is evident that `factory` makes an object of a class that `predicate` accepts.

    `names` are such classes in annotations that are text. `product` describes one in the message. Raises
    `ModuleNotFoundError` where the evidence may be in a module that is not installed.
    """
    search = _Search(predicate, names)
    if search.evident(factory):
        return
    if search.missing is not None:
        raise search.missing
    raise ValueError(
        f"nothing shows that it makes {product}, so it was not called: name such a class, or a function whose code"
        f" names one or that is annotated '-> {names[0]}'"
    )


def require_function(function: object, path: str, arguments: int, keywords: Sequence[str] = ()) -> None:
    """Raise `ValueError` unless the package of `path`, or a module of the user, defines `function`. The function must
    take so many arguments in addition to the names in `keywords`."""
    inner = _unwrap(function.func if isinstance(function, partial) else function)
    home = inner.__module__ if isinstance(inner, type | FunctionType) else type(inner).__module__
    if not callable(function) or (_package(home) != _package(path) and (_standard(home) or _is_installed(home))):
        raise ValueError(f"it is no function of '{_package(path)}', so it was not called")
    try:
        inspect.signature(function).bind(*range(arguments), **dict.fromkeys(keywords))
    except (TypeError, ValueError) as error:
        count = f"{arguments} argument{'s' * (arguments != 1)}"
        raise ValueError(f"it does not take {count}, so it was not called") from error


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _standard(module: str | None) -> bool:
    """Return whether a module belongs to Python's own library. The library's tests are not listed there."""
    return _package(module) in sys.stdlib_module_names or (_LIBRARY in _folders(module) and not _is_installed(module))


def _is_installed(module: str | None) -> bool:
    return any(folder.name in _SITES for folder in _folders(module))


@cache
def _folders(module: str | None) -> tuple[Path, ...]:
    """Return the folders with the package of a module. It is searched for, but not imported."""
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(_package(module))
        if spec is not None and spec.origin is not None:
            return tuple(Path(spec.origin).parents)
    return ()


def _unwrap(value: object) -> object:
    """The function behind a bound method and behind decorators that name their function."""
    for _ in range(_LAYERS):
        if isinstance(value, MethodType | staticmethod | classmethod):
            value = value.__func__
        elif (inner := _wrapped_by(value)) is not None:
            value = inner
        else:
            break
    return value


def _wrapped_by(value: object) -> object:
    """Return the function that a decorated function claims to wrap. Modules and proxies may answer any name, or raise
    anything."""
    if isinstance(value, type | ModuleType):
        return None
    with suppress(Exception):
        inner = getattr(value, "__wrapped__", None)
        return inner if callable(inner) else None
    return None


class _Search:
    """Looks for a class of the wanted kind among the names in a factory's code, breadth first."""

    def __init__(self, predicate: Wanted, names: Sequence[str]) -> None:
        self._wanted, self._names, self._visited = predicate, names, set[int]()
        self._held: list[object] = []  # visited objects, so that no other object gets their id
        self.missing: ModuleNotFoundError | None = None

    def evident(self, factory: object) -> bool:
        """Return whether the factory makes such an object."""
        values = [factory]
        for calls in range(_CALLS + 1):
            values = [value for value in map(_unwrap, values) if self._new(value)]
            if any(map(self._shows, values)):
                return True
            # Imports of the factory itself would happen at once in a call.
            values = [referent for value in values for referent in self._named_by(value, importing=not calls)]
        return False

    def _new(self, value: object) -> bool:
        if id(value) in self._visited:
            return False
        self._visited.add(id(value))
        self._held.append(value)
        return True

    def _shows(self, value: object) -> bool:
        if isinstance(value, type):
            return not _standard(value.__module__) and self._wanted(value)
        return isinstance(value, FunctionType) and not _standard(value.__module__) and self._annotation_fits(value)

    def _annotation_fits(self, function: FunctionType) -> bool:
        annotation = function.__annotations__.get("return")
        if isinstance(annotation, str):
            text = annotation.partition("[")[0].strip()
            kind = function.__globals__.get(text)
            return text.rpartition(".")[2] in self._names or (isinstance(kind, type) and self._wanted(kind))
        origin = get_origin(annotation) or annotation
        return isinstance(origin, type) and self._wanted(origin)

    def _named_by(self, value: object, importing: bool) -> Iterator[object]:
        if isinstance(value, partial):
            yield from (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            yield from value
        elif isinstance(value, FunctionType):
            if not _standard(value.__module__):
                yield from self._named_by_function(value, importing)
        elif isinstance(value, type):
            yield vars(value).get("__new__")
        elif not isinstance(value, ModuleType) and not _standard(type(value).__module__):
            yield from (inspect.getattr_static(value, "__call__", None), *getattr(value, "__dict__", {}).values())

    def _named_by_function(self, function: FunctionType, importing: bool) -> Iterator[object]:
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                yield cell.cell_contents
        yield from (function.__defaults__ or ()) + tuple((function.__kwdefaults__ or {}).values())
        words = [word for code in _codes(function.__code__) for word in code.co_names]
        referents = [function.__globals__[word] for word in words if word in function.__globals__]
        referents += [
            module for code in _codes(function.__code__) for module in self._imports(function, code, importing)
        ]
        # `package.module.Class` and `Class.build` are several words of the code.
        parts = set[int]()
        for value in referents:
            yield value
            if isinstance(value, type | ModuleType) and id(value) not in parts:
                parts.add(id(value))
                referents += _parts(value, words, importing)

    def _imports(self, function: FunctionType, code: CodeType, importing: bool) -> Iterator[ModuleType]:
        """The modules that a function imports. Without `importing`, only modules that are imported already."""
        instructions = list(dis.get_instructions(code))
        for before, instruction in zip(instructions, instructions[2:], strict=False):
            if instruction.opname != "IMPORT_NAME":
                continue
            level = before.argval if isinstance(before.argval, int) else 0
            package = function.__globals__.get("__package__")
            try:
                name = importlib.util.resolve_name("." * level + instruction.argval, package)
                if not _standard(name) and (importing or name in sys.modules):
                    yield import_module(name)
            except ModuleNotFoundError as error:
                self.missing = self.missing or error
            except Exception:  # the call would say it
                continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _parts(owner: type | ModuleType, words: Sequence[str], importing: bool) -> list[object]:
    if _standard(owner.__module__ if isinstance(owner, type) else owner.__name__):
        return []
    parts = []
    for word in words:
        part = inspect.getattr_static(owner, word, None)
        if part is None and importing and isinstance(owner, ModuleType) and "__path__" in vars(owner):
            with suppress(Exception):
                part = import_module(f"{owner.__name__}.{word}")
        if part is not None:
            parts.append(part)
    return parts
