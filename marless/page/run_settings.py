"""The settings of a run: which differ from the defaults, and the command line that gives them again."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import NAME, general, valid_keys
from marless.coordinator.config.defaults import fill_default_run
from marless.coordinator.config.loading import convert, load_with_origins
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.functions.resources.settings import SOURCES
from marless.functions.text.redaction import is_secret

# The keys of the source of a resource's answers. A resource has one of them.
_SOURCES = tuple(f"resources.{NAME}.{key}" for key in SOURCES)
# The defaults of the others follow from these.
_GIVEN = ("task.name", "task.agents", "algorithm.name", "offline.dataset")


@dataclass(frozen=True)
class SettingRow:
    """A key with its value, its default for this task and algorithm, and its meaning."""

    key: str
    value: Any
    default: Any
    meaning: str

    @property
    def differs(self) -> bool:
        """Return True if the user, or a command, has set it."""
        return bool(self.value != self.default)


def settings(config: RunConfig) -> list[SettingRow]:
    """All settings, first the settings that differ from the defaults of the task and the algorithm."""
    default_run, tables = load_with_origins(None, ())[0], ("task", "algorithm", "sharing")
    is_default = all(getattr(config, table) == getattr(default_run, table) for table in tables)
    versions = (config, default_run if is_default else RunConfig(), _defaults(config, is_default))
    values, plain, defaults = (flatten(msgspec.to_builtins(version)) for version in versions)
    if not is_default and config.task.name == default_run.task.name:
        plain["algorithm.name"] = ""  # without a name, this task has the default run
    means = valid_keys(config.algorithm.name)
    rows = [
        SettingRow(
            key,
            value,
            plain.get(key) if key in _GIVEN else "" if general(key) in _SOURCES else defaults.get(key),
            means.get(general(key), "a task's own option"),
        )
        for key, value in values.items()
    ]
    return sorted(rows, key=lambda each: not each.differs)


def command(config: RunConfig) -> str:
    """The `marless train` with the settings that differ from the defaults, or '' if no command line gives them."""
    non_defaults = [each for each in settings(config) if each.differs and each.value is not None]
    if any(is_secret(each.key) for each in non_defaults):
        return ""
    words = [f"{each.key}={_word(each.value)}" for each in non_defaults]
    try:
        same = load_with_origins(None, words)[0] == config
    except ConfigError:
        return ""
    return shlex.join(["marless", "train", *words]) if same else ""


def value_text(setting: SettingRow) -> str:
    """The value as config.toml has it, hidden for a key that is a secret by its name."""
    if is_secret(setting.key) and setting.value is not None:
        return f"<{setting.key}>"
    return as_text(setting.value)


def as_text(value: Any) -> str:
    """A value as config.toml has it."""
    return "-" if value is None else toml_value(value)


def hidden(text: str, values: Mapping[str, Any]) -> str:
    """`text` with the values of keys that are secrets by their name replaced by the key."""
    for key, value in values.items():
        if is_secret(key) and isinstance(value, str) and value:
            text = text.replace(toml_value(value)[1:-1], f"<{key}>")
    return text


def _word(value: Any) -> str:
    """A value on the command line. Text needs quotation marks only if it looks like something else."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./:-]*", value) else toml_value(value)


def _defaults(config: RunConfig, is_default_run: bool) -> RunConfig:
    task = {"name": config.task.name} | ({} if config.task.agents is None else {"agents": config.task.agents})
    offline = {} if config.offline.dataset is None else {"dataset": config.offline.dataset}
    resources = {
        name: {source: getattr(resource, source) for source in SOURCES if getattr(resource, source)}
        for name, resource in config.resources.items()
    }
    algorithm = {} if is_default_run else {"name": config.algorithm.name}
    document = {"task": task, "algorithm": algorithm, "offline": offline, "resources": resources}
    return convert(fill_default_run(document)[0], "the defaults")
