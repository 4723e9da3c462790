"""The types of `marless.settings` for editors and mypy, from the schema: marless/settings.pyi."""

import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent, wrap
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from marless import settings
from marless.coordinator.config.config_keys import NAME, valid_keys

PAGE = Path(settings.__file__).with_suffix(".pyi")
_HEADER = """\
# Written by `make docs` from the schema of the configuration.

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypedDict

class Settings(dict[str, Any]): ...
"""
_OWN_METHODS = '''
    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Return the settings in a file. Raises `ConfigError`."""

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the settings as the text of a file with a line for each key, and write it if there is a path."""

    def diff(self, config: Config) -> dict[str, tuple[Any, Any]]:
        """Return both values of each key that two runs would not share, with all defaults."""
'''
_OBJECTS = "Callable[..., Any]"
# Keys that also take a class or a function, or a short form.
_WIDER = {"Config.task": f"str | {_OBJECTS} | ", "Config.algorithm": "str | type[Settings] | "}
_SHORT = {"network": f"str | {_OBJECTS}", "rounds": "int"}


def page() -> str:
    """Return the text of the file."""
    classes = "\n".join(_class(name, getattr(settings, name)) for name in settings.__all__)
    names = "".join(f'    "{name}",\n' for name in settings.__all__)
    return f"{_HEADER}\n{classes}\n{_run_keys()}\n__all__ = [\n{names}]\n\ndef __dir__() -> list[str]: ...\n"


def _run_keys() -> str:
    """Return the type of the keywords of `train`, which has a parameter for the algorithm."""
    types = _parameters("Config", settings.Config)
    lines = "".join(f"    {key}: {text}\n" for key, text in types.items() if key != "algorithm")
    return f'class RunKeys(TypedDict, total=False):\n    """Keys of a run as keywords of `train`."""\n\n{lines}'


def _parameters(name: str, kind: Any) -> dict[str, str]:
    """Return the types of the keys of a table."""
    hints = get_type_hints(kind.schema, include_extras=True)
    fields = [field for field in msgspec.structs.fields(kind.schema) if field.encode_name not in kind.fixed]
    types = {field.name: _parameter(f"{name}.{field.name}", hints[field.name]) for field in fields}
    return types | (_SHORT if name == "Config" else {})


def _class(name: str, kind: Any) -> str:
    fields = [field for field in msgspec.structs.fields(kind.schema) if field.encode_name not in kind.fixed]
    types = _parameters(name, kind)
    arguments = ", ".join(["self", "*", *(f"{key}: {text} = ..." for key, text in types.items())])
    about = " ".join((kind.__doc__ or name).partition("Attributes:")[0].split())
    lines = [f'"""{about}', "", "Args:", *_meanings(kind, [field.encode_name for field in fields]), '"""']
    methods = _OWN_METHODS if name == "Config" else ""
    text = indent("\n".join(lines), "    ")
    return f"class {name}(Settings):\n{text}\n\n    def __init__({arguments}) -> None: ...\n{methods}"


def _meanings(kind: Any, keys: list[str]) -> Iterator[str]:
    described = valid_keys(kind.fixed.get("name"))
    tables = {"Function": "functions.actor", "Resource": f"resources.{NAME}"}
    table = kind.table or tables.get(kind.__name__, "")
    for key in keys:
        meaning = described.get(f"{table}.{key}".lstrip("."), f"the table `{key}`")
        yield from wrap(f"{key}: {meaning}", 110, initial_indent="    ", subsequent_indent="        ")


def _parameter(key: str, hint: Any) -> str:
    wider = f"{_OBJECTS} | " if key.endswith((".network", ".mixer")) else _WIDER.get(key, "")
    return f"{wider}{_type(hint)}"


def _type(hint: Any) -> str:
    """Return the type of values that a key takes in Python."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(parts[0])
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type, parts)))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if origin in (tuple, list):
        return f"Sequence[{_type(parts[0])}]"
    if origin is dict or hint is dict:
        return "Mapping[str, Any]"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "Mapping[str, Any]"
    return "None" if hint is type(None) else "Mapping[str, Any]" if hint is Any else str(hint.__name__)
