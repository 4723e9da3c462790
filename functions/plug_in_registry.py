"""A registry of things by name: built-in ones, and plug-ins that other packages offer by entry points.

A package offers a rule by an entry point of the group `marless.rules`. Its name is ``<family>.<name>``, such as
``scaling.every_third``, and its value is a `Rule`. A plug-in cannot take a name of ours.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, version
from types import FunctionType, MappingProxyType, ModuleType
from typing import Generic, TypeVar, cast

from marless.functions.errors import BadRequest, MissingExtra

T = TypeVar("T")

# The name of an object that no package offers: ``package.module:object``.
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_EXACT = re.compile(r"marless(?:\[[^]]*\])? *== *([^\s;,]+)")


class Registry(Mapping[str, T], Generic[T]):
    """Our objects by name, then other packages' objects by their entry points of `group` called ``<prefix><name>``.

    Ours are objects, or a ``module:attribute`` that is imported on request. `attribute` completes values that name only
    a module. A plug-in cannot take a name of ours. Messages are of class `error`. `label` tells the meaning of a name
    in them. `problem` gives the reason why another package's object is unsuitable, or ''. `extras` has the extras that
    install plug-ins of this project, by name. With `by_module`, any ``package.module:object`` is a name, too.
    """

    by_module = False

    def __init__(
        self,
        group: str,
        built_in: dict[str, T | str],
        label: Callable[[str], str],
        problem: Callable[[object], str] = lambda value: "",
        error: type[Exception] = BadRequest,
        *,
        attribute: str = "",
        prefix: str = "",
        extras: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.group, self.built_in, self.error, self.label, self.extras = group, built_in, error, label, extras
        self._problem, self._attribute, self._prefix = problem, attribute, prefix
        self._loaded: dict[EntryPoint, T] = {}

    def __getitem__(self, name: str) -> T:
        """Raises `KeyError` for an unknown name, and `error` for an unusable plug-in."""
        if name in self.built_in:
            return self._ours(self.built_in[name])
        if not (offers := self._offers(name)):
            raise KeyError(name)
        if len(offers) > 1:
            values = ", ".join(offer.value for offer in offers)
            raise self.error(f"several packages offer the {self.label(name)}: {values}; uninstall all but one")
        if offers[0] not in self._loaded:
            if fault := version_fault(offers[0]):
                raise self.error(f"{self.label(name)}: {fault}")
            self._loaded[offers[0]] = self.load(name, offers[0])
        return self._loaded[offers[0]]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.built_in, *sorted(self._plug_ins() - self.built_in.keys())))

    def __len__(self) -> int:
        return len(self.built_in.keys() | self._plug_ins())

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._plug_ins() or (self.by_module and is_reference(name))

    def lookup(self, name: str) -> T:
        """Index, but raise `error` for an unknown name too."""
        if name not in self:
            raise self.error(self.unknown(name))
        return self[name]

    def ours(self) -> tuple[T, ...]:
        """All of ours, and the installed ones of other packages of this project."""
        return (*map(self._ours, self.built_in.values()), *(self[name] for name in self.extras if name in self))

    def is_ours(self, name: str) -> bool:
        """Return whether the name is one of this project, installed or not."""
        return name in self.built_in or name in self.extras

    def unknown(self, name: str) -> str:
        """Return the message about an unknown name."""
        if extra := self.extras.get(name):
            return f"{self.label(name)} is in a package that is not installed: pip install 'marless[{extra}]'"
        return f"there is no {self.label(name)}; known are {', '.join(self)}"

    def load(self, name: str, offer: EntryPoint) -> T:
        """The object of an entry point. Raises `error`."""
        try:
            value = self.adapt(imported(offer))
        except Exception as error:
            raise self.error(f"{self.label(name)} ({offer.value}) cannot be loaded: {error}") from error
        if problem := self._problem(value):
            raise self.error(f"{self.label(name)}: {offer.value} {problem}")
        return cast(T, value)

    def adapt(self, value: object) -> object:
        """Return the object that a package offers, made from `value`."""
        return value

    def _offers(self, name: str) -> tuple[EntryPoint, ...]:
        if self.by_module and is_reference(name):
            return (EntryPoint(name, name, self.group),)
        return plug_ins(self.group).get(f"{self._prefix}{name}", ())

    def _ours(self, entry: T | str) -> T:
        if not isinstance(entry, str):
            return entry
        module, attribute = _location(entry)
        return cast(T, getattr(module, attribute or self._attribute))

    def _plug_ins(self) -> set[str]:
        names = plug_ins(self.group)
        return {name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)}


def is_reference(name: object) -> bool:
    """Return whether the name is ``package.module:object``."""
    return isinstance(name, str) and _REFERENCE.fullmatch(name) is not None


def imported(offer: EntryPoint) -> object:
    """Import the object of an entry point, or of a name with a module. Raises the module's errors, and `ValueError` for
    a name in Python's own library."""
    if is_reference(offer.name):
        from marless.functions.named_code import refuse_standard

        refuse_standard(offer.module)
    return offer.load()


def version_fault(offer: EntryPoint) -> str:
    """Name the versions if the offer's package requires another version of marless exactly, otherwise ''."""
    try:
        ours = version("marless")
    except PackageNotFoundError:
        return ""
    required = [match[1] for line in (offer.dist and offer.dist.requires) or () if (match := _EXACT.match(line))]
    if offer.dist is None or required in ([], [ours]):
        return ""
    name = offer.dist.name
    return f"{name} {offer.dist.version} is for marless {required[0]}, and this is {ours}: pip install {name}=={ours}"


def load_error(plug_in: str, module: str, error: Exception, kind: type[Exception] = BadRequest) -> Exception:
    """The error for a module that does not load. Only other projects' top-level packages count as missing."""
    package = module.partition(":")[0].partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name and error.name != package:
        return MissingExtra(f"{plug_in} needs the package {error.name!r}: pip install {error.name}")
    return kind(f"{plug_in} does not load: {type(error).__name__}: {' '.join(str(error).split())}")


@cache
def _location(entry: str) -> tuple[ModuleType, str]:
    """The module and attribute of ``module:attribute``, imported once: a decision asks for an algorithm many times."""
    module, _, attribute = entry.partition(":")
    return import_module(module), attribute


def plug_ins(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of `group` by name, several where packages offer the same name."""
    return _read(group, tuple(sys.path))


@cache
def _read(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for offer in _installed(path)(group=group):
        # A package that is installed twice counts once.
        offers[offer.name] = tuple(dict.fromkeys((*offers.get(offer.name, ()), offer)))
    return offers


@cache
def _installed(path: tuple[str, ...]) -> Callable[..., EntryPoints]:
    """Read a file of each package installed in `path`, and return a function that selects entry points, for example by
    group."""
    return entry_points().select


@dataclass(frozen=True)
class Rule(Generic[T]):
    """A rule and the line that explains it in help texts and in the documentation."""

    summary: str
    rule: T


class Family(Registry[T]):
    """All rules of one kind by name, ours first. `rule_type` is the class of a rule, for plug-ins."""

    by_module = True

    def __init__(self, name: str, built_in: Mapping[str, Rule[T]], rule_type: type = object) -> None:
        kind = "" if rule_type is object else f" of a {rule_type.__name__}"

        def problem(value: object) -> str:
            fits = isinstance(value, Rule) and isinstance(value.rule, rule_type)
            return "" if fits else f"is no Rule{kind}; see marless.rules"

        def label(rule: str) -> str:
            return f"{name} rule {rule!r}"

        self._rule_type = rule_type
        rules = cast(dict[str, T | str], {**built_in})
        super().__init__("marless.rules", rules, label, problem, prefix=f"{name}.")

    def __getitem__(self, name: str) -> T:
        return cast(Rule[T], super().__getitem__(name)).rule

    def adapt(self, value: object) -> object:
        """Return a function as a rule, which its docstring explains."""
        if not isinstance(value, FunctionType):
            return value
        summary = (value.__doc__ or value.__name__).partition("\n")[0]
        return Rule(summary, value if self._rule_type is object else self._rule_type(value))

    def summary(self, name: str) -> str:
        """The line that explains a rule. Raises the errors of indexing."""
        return cast(Rule[T], super().__getitem__(name)).summary

    def listing(self, plug_ins: bool = False) -> str:
        """All names with their lines. With `plug_ins` also the names of other packages. Raises `BadRequest`."""
        return "; ".join(f"{name}: {self.summary(name)}" for name in (self if plug_ins else self.built_in))
