"""Arms: runs with the same settings, each trained with several seeds on every task."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.comparison.curve import ComparedRun
from coordinator.errors import UserError
from coordinator.reports.evaluations import names
from functions.environments.base import EnvTask

_NAME, _TASK, _SEED = "algorithm.name", "task.", "seed"


@dataclass(frozen=True)
class Arm:
    """Runs of the same settings by task and seed; every task has the same `seeds`."""

    name: str
    runs: Mapping[str, Mapping[int, ComparedRun]]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(sorted(next(iter(self.runs.values()))))

    @property
    def every_run(self) -> list[ComparedRun]:
        """Task by task, by seed."""
        return [of_task[seed] for of_task in self.runs.values() for seed in self.seeds]


def arms_of(runs: Sequence[ComparedRun], by: Sequence[str] = ()) -> tuple[list[Arm], dict[str, str]]:
    """The arms in the order of the runs, and the runs left out as their seed is missing on another task.

    Without `by` runs are of one arm when their configurations are the same but for seed and task. Raises `UserError`
    for an unknown key, for a seed that an arm has twice on a task, and for arms of different tasks.
    """
    tasks = _task_names(runs)
    keys = list(by) if by else splitting_keys(runs, tasks)
    _require_known(keys, runs)
    members: dict[tuple[str, ...], list[ComparedRun]] = {}
    for run in runs:
        members.setdefault(_values(run, keys), []).append(run)
    found = [_arm(_label(own[0], keys), own, tasks) for own in members.values()]
    _require_same_tasks(found)
    return with_equal_seeds(found)


def splitting_keys(runs: Sequence[ComparedRun], tasks: Mapping[str, str]) -> list[str]:
    """The keys that tell settings apart: of those in which runs of one task differ, as few as tell all of them apart.

    Defaults that follow from another key, such as an algorithm's hyper-parameters, therefore are not among them. Values
    that only differ from task to task do not count: the task is the stratum.
    """
    every = dict.fromkeys(key for run in runs for key in run.config if key != _SEED and not key.startswith(_TASK))
    keys: list[str] = []
    for key in sorted(every, key=lambda key: key != _NAME):
        cells: dict[tuple[str, ...], set[str]] = {}
        for run in runs:
            cell = tasks[_task_of(run)], *_values(run, keys)
            cells.setdefault(cell, set()).update(_values(run, [key]))
        if any(len(values) > 1 for values in cells.values()):
            keys.append(key)
    return keys


def _values(run: ComparedRun, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(json.dumps(run.config.get(key)) for key in keys)


def _label(run: ComparedRun, keys: Sequence[str]) -> str:
    """``mappo, lr=0.0005``: the algorithm by its name alone, other keys without their table unless two share a name."""
    if not keys:
        return str(run.config[_NAME])
    last = [key.rpartition(".")[2] for key in keys]
    short = [name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)]
    parts = [
        str(run.config[key]) if key == _NAME else f"{name}={_text(run.config.get(key))}"
        for key, name in zip(keys, short, strict=True)
    ]
    return ", ".join(parts)


def _text(value: Any) -> str:
    if value is None:
        return "default"
    return value if isinstance(value, str) else json.dumps(value)


def _task_of(run: ComparedRun) -> str:
    """The task with agents and options, as a key."""
    return json.dumps({key: value for key, value in run.config.items() if key.startswith(_TASK)}, sort_keys=True)


def _task_names(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Short names of tasks; tasks that differ in their options alone are numbered."""
    found = {_task_of(run): run for run in runs}
    taken: dict[str, int] = {}
    tasks = {}
    for key, run in found.items():
        name = "/".join(names(EnvTask(name=run.config["task.name"], agents=run.config.get("task.agents"))))
        taken[name] = taken.get(name, 0) + 1
        tasks[key] = name if taken[name] == 1 else f"{name}-options-{taken[name]}"
    return tasks


def _require_known(keys: Sequence[str], runs: Sequence[ComparedRun]) -> None:
    known = dict.fromkeys(key for run in runs for key in run.config)
    for key in keys:
        if key == _SEED or key.startswith(_TASK):
            raise UserError(f"--by {key}: arms are compared over the same seeds and tasks; name another key")
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; `marless config` lists keys"
            raise UserError(f"--by {key}: no run has this key in its configuration{hint}")


def _arm(name: str, runs: Sequence[ComparedRun], tasks: Mapping[str, str]) -> Arm:
    by_task: dict[str, dict[int, ComparedRun]] = {}
    for run in runs:
        own = by_task.setdefault(tasks[_task_of(run)], {})
        if run.seed in own:
            twin = own[run.seed]
            differ = next((key for key in run.config if run.config[key] != twin.config.get(key)), "")
            advice = f"they differ in {differ}, which --by could name" if differ else "leave one of them out"
            raise UserError(f"arm {name} has seed {run.seed} twice, in {twin.name} and {run.name}; {advice}")
        own[run.seed] = run
    return Arm(name, dict(sorted(by_task.items())))


def _require_same_tasks(arms: Sequence[Arm]) -> None:
    first = arms[0]
    for other in arms[1:]:
        if other.runs.keys() != first.runs.keys():
            own, others = (" and ".join(found.runs) for found in (first, other))
            raise UserError(f"arms have different tasks: {first.name} was trained on {own}, {other.name} on {others}")


def with_equal_seeds(arms: Sequence[Arm]) -> tuple[list[Arm], dict[str, str]]:
    """Keeps the seeds that an arm has on all its tasks: scores are a matrix of seeds by tasks, as in rliable."""
    kept: list[Arm] = []
    left_out: dict[str, str] = {}
    for own in arms:
        common = set.intersection(*(set(of_task) for of_task in own.runs.values()))
        if not common:
            raise UserError(f"arm {own.name} has no seed on all of its tasks ({', '.join(own.runs)})")
        for of_task in own.runs.values():
            missing = (run for seed, run in of_task.items() if seed not in common)
            left_out |= {run.name: f"arm {own.name} lacks seed {run.seed} on another task" for run in missing}
        kept.append(
            Arm(own.name, {task: {seed: found[seed] for seed in sorted(common)} for task, found in own.runs.items()})
        )
    return kept, left_out
