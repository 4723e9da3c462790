"""Settings as classes: `Stop(rounds=50)` is the table ``{"rounds": 50}``, and its keys are checked at once.

The classes are made from the configuration's schema: one for each table, and one for each algorithm. A table holds only
the keys that you give, so all other keys keep their defaults. `make docs` writes the types into settings.pyi.

Examples:
    >>> marless.Config(task="mpe/simple_spread", algorithm=marless.MAPPO(lr=3e-4), stop=marless.Stop(rounds=50))
    Config(task='mpe/simple_spread', algorithm=MAPPO(name='mappo', lr=0.0003), stop=Stop(rounds=50))
"""

import os
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from marless.coordinator.config.loading import convert, read_toml, spelled_out
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.renamed_keys import with_new_names
from marless.coordinator.config.schema import ConfigError, Function, RunConfig, algorithm_name
from marless.coordinator.config.toml_dump import toml_value
from marless.coordinator.config.unknown_keys import unknown_key
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.base import EnvTask
from marless.functions.resources.settings import Resource
from marless.reports.atomic_files import replace
from marless.reports.user_code.named_objects import with_names


class Settings(dict[str, Any]):
    """A table of the configuration."""

    schema: ClassVar[type[msgspec.Struct]] = RunConfig
    table: ClassVar[str] = ""
    fixed: ClassVar[dict[str, str]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__({**self.fixed, **{key.removesuffix("_"): value for key, value in settings.items()}})
        document = with_new_names(spelled_out({self.table: self} if self.table else self))
        if problem := unknown_key(document, algorithm_name(document)):
            raise ConfigError(f"{type(self).__name__}: {problem}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.items())})"


class Config(Settings):
    """The settings of a run."""

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Return the settings in a file. Raises `ConfigError`."""
        return cls(**read_toml(Path(path)))

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the settings as the text of a file with a line for each key, and write it if there is a path."""
        lines = (f"{key} = {toml_value(value)}\n" for key, value in flatten(spelled_out(with_names(self))).items())
        text = "".join(lines)
        if path is not None:
            replace(Path(path), text.encode())
        return text

    def diff(self, config: "Config") -> dict[str, tuple[Any, Any]]:
        """Return both values of each key that two runs would not share, with all defaults. Raises `ConfigError`.

        Examples:
            >>> marless.Config(seed=1).diff(marless.Config(seed=2))
            {'seed': (1, 2)}
        """
        mine, theirs = self._complete(), config._complete()
        keys = dict.fromkeys((*mine, *theirs))
        return {key: (mine.get(key), theirs.get(key)) for key in keys if mine.get(key) != theirs.get(key)}

    def _complete(self) -> dict[str, Any]:
        return flatten(msgspec.to_builtins(convert(with_names(self), "the configuration")))


class _Part(Settings):
    """A table without a fixed place. Its keys are checked with the run."""

    def __init__(self, **settings: Any) -> None:
        dict.__init__(self, settings)


def _class(
    title: str, schema: type[msgspec.Struct], table: str, base: type[Settings] = Settings, **fixed: str
) -> type[Settings]:
    content = {"schema": schema, "table": table, "fixed": fixed, "__doc__": schema.__doc__, "__module__": __name__}
    return type(title, (base,), content)


_NAMES: dict[type[msgspec.Struct], str] = {EnvTask: "Task", Function: "Function", Resource: "Resource"}
_TABLES = {
    field.name: field.type
    for field in msgspec.structs.fields(RunConfig)
    if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
}
_CLASSES = {
    "Config": Config,
    **{
        name: _class(name, schema, table)
        for table, schema in _TABLES.items()
        for name in [_NAMES.get(schema, table.capitalize())]
    },
    **{name: _class(name, schema, "", _Part) for schema, name in _NAMES.items() if schema is not EnvTask},
    **{
        name.upper(): _class(name.upper(), ALGORITHMS[name].config, "algorithm", name=name)
        for name in ALGORITHMS.built_in
    },
}
globals().update(_CLASSES)
__all__ = sorted(_CLASSES)

__dir__ = __all__.copy
