"""The file of a suite: tasks on which the same arms are compared, every task an ablation in a folder of its own."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from marless.coordinator.config.loading import convert, override, read_toml
from marless.coordinator.config.nested_tables import merge
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.functions.encoding import mismatch
from marless.studies.registration import registration_of
from marless.studies.seeds import seeds_of


class SuiteTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task: the keys of a run's file that are its own, and arms for it alone, such as its true groups."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=80)]
    random: float
    """The return of uniformly random play."""
    values: dict[str, Any] = {}
    arms: list[str] = []


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`base` has keys of a run's file for all tasks. The first of `arms` is the baseline. `headlines` are the contrasts
    that are declared before the runs. `target` is the share of the way from random play to the best static arm.
    `hold_outs` are tasks that no setting may be chosen on."""

    tasks: Annotated[list[SuiteTask], Meta(min_length=1)]
    arms: Annotated[list[str], Meta(min_length=1)]
    base: dict[str, Any] = {}
    seeds: str = "1-5"
    headlines: list[str] = []
    target: Annotated[float, Meta(gt=0, le=1)] = 0.9
    hold_outs: list[str] = []

    @property
    def registration(self) -> str:
        """Return the hash of the whole file, with each task's settings in full."""
        tasks = [
            {"name": one.name, "random": one.random, "arms": one.arms, "settings": document(self, one)}
            for one in self.tasks
        ]
        rest = {name: getattr(self, name) for name in ("arms", "headlines", "target", "hold_outs")}
        return registration_of({**rest, "tasks": tasks, "seeds": seeds_of(self.seeds)})

    def covers(
        self, arms: Iterable[str], seeds: Iterable[int], headlines: Sequence[str], overrides: Sequence[str]
    ) -> bool:
        """Return True if the file asks for these runs, so that they have its registration."""
        own_arms = {*self.arms, *(arm for task in self.tasks for arm in task.arms)}
        return (
            not overrides
            and list(headlines) == self.headlines
            and {*arms} <= own_arms
            and {*seeds} <= {*seeds_of(self.seeds)}
        )


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
    settings = document(suite, task)
    for text in overrides:
        override(settings, text)
    return convert(settings, f"the task {task.name}")


def document(suite: Suite, task: SuiteTask) -> dict[str, Any]:
    """Return the keys of a run's file that a task has in the suite."""
    return merge(suite.base, task.values)
