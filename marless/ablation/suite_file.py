"""The file of a suite: tasks on which the same arms are compared, every task an ablation in a folder of its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from coordinator.config.loading import convert, override, read_toml
from coordinator.config.nested_tables import merge
from coordinator.config.schema import ConfigError, RunConfig
from functions.encoding import mismatch


class SuiteTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task: the keys of a run's file that are its own, and arms for it alone, such as its true groups."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=80)]
    random: float
    """The return of uniformly random play."""
    values: dict[str, Any] = {}
    arms: list[str] = []


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`base` has keys of a run's file for all tasks; the first of `arms` is the baseline."""

    tasks: Annotated[list[SuiteTask], Meta(min_length=1)]
    arms: Annotated[list[str], Meta(min_length=1)]
    base: dict[str, Any] = {}
    seeds: str = "1-5"


def is_suite(path: Path) -> bool:
    """Whether the file holds tasks, as a run's file never does; raises `ConfigError` when it cannot be read."""
    return "tasks" in read_toml(path)


def load(path: Path) -> Suite:
    """The suite in a TOML file; raises `ConfigError`."""
    try:
        suite = msgspec.convert(read_toml(path), Suite)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {mismatch(error)}") from error
    names = [task.name for task in suite.tasks]
    if repeated_name := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"{path}: two tasks are called {repeated_name}")
    return suite


def configuration(suite: Suite, task: SuiteTask, overrides: Iterable[str]) -> RunConfig:
    """The configuration of a task's runs before an arm's settings; raises `ConfigError` naming the task."""
    document = merge(suite.base, task.values)
    for text in overrides:
        override(document, text)
    return convert(document, f"the task {task.name}")
