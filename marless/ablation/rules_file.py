"""The file of a study that names rules. It compares them on one task, or on several tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from marless.coordinator.config.loading import convert, override, read_toml
from marless.coordinator.config.nested_tables import merge
from marless.coordinator.config.renamed_keys import renamed
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.functions.encoding import mismatch
from marless.studies.registration import registration_of
from marless.studies.seeds import seeds_of

# A study's file with one of these keys compares rules.
KEYS = ("rules", "tasks")


class RulesTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task: the keys of a run's file that are its own, and rules for it alone, such as its true groups."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=80)]
    random: float
    """The return of uniformly random play."""
    values: dict[str, Any] = {}
    rules: list[str] = []


class RulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A study of `rules`, the names of arms with the baseline first. `config` names a run's file, and `base` overrides
    its keys. `headlines` are the contrasts that are declared before the runs.

    A file with `tasks` gives each task its own folder. The `target` lies this share of the way from random play to the
    best static arm. The study refuses to choose settings on `hold_outs`. A file of one task has the return of `random`
    play, and may name a `reference`: a run with the opponents of each side.
    """

    rules: Annotated[list[str], Meta(min_length=1)]
    tasks: list[RulesTask] = []
    config: str | None = None
    base: dict[str, Any] = {}
    seeds: str | list[int] = "1-10"
    headlines: list[str] = []
    random: float | None = None
    reference: str | None = None
    target: Annotated[float, Meta(gt=0, le=1)] = 0.9
    hold_outs: list[str] = []

    @property
    def registration(self) -> str:
        """Return the hash of the whole file, with each task's settings in full."""
        tasks = [
            {"name": task.name, "random": task.random, "arms": task.rules, "settings": document(self, task)}
            for task in self.tasks
        ]
        rest = {name: getattr(self, name) for name in ("headlines", "target", "hold_outs")}
        return registration_of({**rest, "arms": self.rules, "tasks": tasks, "seeds": seeds_of(self.seeds)})

    def covers(self, part: "RulesFile", overrides: Sequence[str]) -> bool:
        """Return True if this file asks for the runs of a `part` of it, so that they have its registration."""
        rules, part_rules = (
            {*file.rules, *(name for task in file.tasks for name in task.rules)} for file in (self, part)
        )
        return (
            not overrides
            and part.headlines == self.headlines
            and part_rules <= rules
            and {*seeds_of(part.seeds)} <= {*seeds_of(self.seeds)}
        )


def load(path: Path) -> RulesFile:
    """Read the study in a TOML file. Raises `ConfigError`."""
    return parse(read_toml(path), path)


def parse(document: Mapping[str, Any], path: Path) -> RulesFile:
    """Convert the tables of the file at `path`, and read the run's file that it names into `base`. Raises
    `ConfigError`."""
    table = _with_rules(document)
    if isinstance(table.get("tasks"), list):
        table["tasks"] = [_with_rules(task) if isinstance(task, dict) else task for task in table["tasks"]]
    try:
        file = msgspec.convert(table, RulesFile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {mismatch(error)}") from error
    names = [task.name for task in file.tasks]
    if repeated_name := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"{path}: two tasks are called {repeated_name}")
    base = merge({} if file.config is None else read_toml(path.parent / file.config), file.base)
    return msgspec.structs.replace(file, config=None, base=base)


def _with_rules(table: Mapping[str, Any]) -> dict[str, Any]:
    return {"rules" if key == "arms" else key: value for key, value in table.items()}


def configuration(file: RulesFile, task: RulesTask | None, overrides: Sequence[str], where: str = "") -> RunConfig:
    """Return the configuration of a task's runs before an arm's settings. A `ConfigError` names the task or `where`."""
    settings = renamed(document(file, task))
    override(settings, overrides)
    return convert(settings, f"the task {task.name}" if task else where)


def document(file: RulesFile, task: RulesTask | None) -> dict[str, Any]:
    """Return the keys of a run's file that a task has in the study."""
    return merge(file.base, task.values if task else {})
