"""Keys of configurations: the keys that tell settings apart, and the names of arms and tasks after them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from marless.comparison.run_evaluations import ComparedRun
from marless.coordinator.config.renamed_keys import new_name
from marless.coordinator.config.unknown_keys import nearest_key
from marless.coordinator.errors import UserError
from marless.functions.environments.base import EnvTask
from marless.functions.environments.task_names import EXACT_PHYSICS
from marless.functions.text.redaction import is_secret
from marless.program import program_name
from marless.reports.evaluations import names

ALGORITHM, SEED = "algorithm.name", "seed"
# The keys that make another task. Arms are compared over tasks, unless these keys form the arms.
TASK, AGENTS = "task.name", "task.agents"
_EVALUATED = "evaluation.options."
_TASK_TABLES = ("task.", _EVALUATED)
_MOST_TASKS = 3
# The observations and choices of policies, not their rewards.
_OF_POLICIES = ("task.last_action", "task.order", "task.options.joint_actions")

Values = tuple[str, ...]
Key = TypeVar("Key")


def values(run: ComparedRun, keys: Sequence[str]) -> Values:
    """The run's values of these keys. A missing key is like one without a value."""
    return tuple(json.dumps(run.config.get(key)) for key in keys)


def expanded(requested_keys: Sequence[str], runs: Sequence[ComparedRun]) -> list[str]:
    """The keys of ``--by``. A table such as ``task.options`` means all its keys that differ between runs.

    Raises `UserError` for the seed and for a key that no run has.
    """
    known_keys = _all_keys(runs)
    keys: dict[str, None] = {}
    for key in map(new_name, requested_keys):
        if key == SEED:
            raise UserError("--by seed: arms are compared over the same seeds; name another key")
        matches = [key] if key in known_keys else [name for name in known_keys if name.startswith(f"{key}.")]
        # Of a table, keys that say something.
        matches = [name for name in matches if len({values(run, [name]) for run in runs}) > 1] or matches
        if not matches:
            nearest = nearest_key(key, known_keys)
            hint = f"; did you mean {nearest}?" if nearest else f"; `{program_name()} config` lists keys"
            raise UserError(f"--by {key}: no run has this key in its configuration{hint}")
        keys |= dict.fromkeys(matches)
    return list(keys)


def splitting(
    runs: Sequence[ComparedRun], fixed_keys: Sequence[str] = (), among: str | tuple[str, ...] = ""
) -> list[str]:
    """The fewest keys that tell settings apart, among the keys that differ between runs with equal `fixed_keys`, and
    that begin with `among`.

    Defaults that follow from another key, such as an algorithm's hyper-parameters, therefore are not among them.
    """
    keys: list[str] = []
    cells: Sequence[object] = [values(run, fixed_keys) for run in runs]
    for key in sorted(_all_keys(runs), key=_rank):
        if key in (SEED, *fixed_keys) or not key.startswith(among):
            continue
        finer = list(zip(cells, (values(run, [key]) for run in runs), strict=True))
        if len({*finer}) > len({*cells}):
            keys.append(key)
            cells = finer
    return keys


def strata(runs: Sequence[ComparedRun], keys: Sequence[str]) -> list[str]:
    """The keys that tell the tasks of an arm apart, where arms are formed by `keys`: options too, if `keys` leave
    them out."""
    fixed_keys = [key for key in (TASK, AGENTS) if key not in keys]
    return [*fixed_keys, *splitting(runs, [*keys, *fixed_keys], _TASK_TABLES)]


def unlike(groups: Iterable[Sequence[ComparedRun]]) -> list[str]:
    """The keys of the task with other values in other groups of runs, except keys without effect on rewards."""
    members = [list(group) for group in groups]
    keys = [key for key in _all_keys([run for group in members for run in group]) if key.startswith(_TASK_TABLES)]
    sets_by_key = {key: [{values(run, [key]) for run in group} for group in members] for key in keys}
    return [key for key, sets in sets_by_key.items() if key not in _OF_POLICIES and any(one != sets[0] for one in sets)]


def label(run: ComparedRun, keys: Sequence[str]) -> str:
    """``mappo, lr=0.0005``: the algorithm by its name alone, other keys by their last part unless two share it."""
    if not keys:
        return str(run.config[ALGORITHM])
    last = [key.rpartition(".")[2] for key in keys]
    short = [name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)]
    parts = [
        text(run, key) if key == ALGORITHM else f"{name}={text(run, key)}"
        for key, name in zip(keys, short, strict=True)
    ]
    return ", ".join(parts)


def text(run: ComparedRun, key: str) -> str:
    """The value as a table shows it, hidden for a key that is a secret by its name."""
    value: Any = run.config.get(key)
    if value is None:
        return "default"
    if is_secret(key):
        return f"<{key}>"
    return value if isinstance(value, str) else json.dumps(value)


def task_names(runs: Sequence[ComparedRun], keys: Sequence[str]) -> dict[Values, str]:
    """Name the tasks, by their values of `keys`. Tasks with the same name are numbered."""
    groups: dict[Values, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(values(run, keys), []).append(run)
    return numbered({task_values: _task_name(task_runs, keys) for task_values, task_runs in groups.items()}, "-{}")


def numbered(names_by_key: Mapping[Key, str], suffix: str = " ({})") -> dict[Key, str]:
    """The names by key. Of equal ones, all after the first get a number that makes the name unique."""
    taken_names, apart = {*names_by_key.values()}, dict[Key, str]()
    first: set[str] = set()
    for key, name in names_by_key.items():
        apart[key] = name
        if name in first:
            apart[key] = next(new for serial in count(2) if (new := name + suffix.format(serial)) not in taken_names)
        first.add(name)
        taken_names.add(apart[key])
    return apart


def _task_name(runs: Sequence[ComparedRun], keys: Sequence[str]) -> str:
    """``mpe/simple_spread-3-landmarks=4``, also if only evaluations have the option. Arms with different tasks share a
    name that lists these."""
    task_labels = dict.fromkeys(
        "/".join(names(EnvTask(name=run.config[TASK], agents=run.config.get(AGENTS) if AGENTS in keys else None)))
        for run in runs
    )
    name = " and ".join(task_labels) if len(task_labels) <= _MOST_TASKS else f"{len(task_labels)} tasks"
    common_keys = [key for key in runs[0].config if len({values(run, [key]) for run in runs}) == 1]
    evaluated_keys = [key for key in common_keys if key.startswith(_EVALUATED)]
    options = [key for key in dict.fromkeys([*keys, *evaluated_keys]) if key not in (TASK, AGENTS)]
    return f"{name}-{label(runs[0], options).replace(', ', '-').lower()}" if options else name


def _all_keys(runs: Sequence[ComparedRun]) -> dict[str, None]:
    """Without the one that follows from the engine and changes last bits alone."""
    return dict.fromkeys(key for run in runs for key in run.config if key != f"task.options.{EXACT_PHYSICS}")


def _rank(key: str) -> int:
    """The algorithm first and the task next, as the defaults of others follow from them."""
    order: Sequence[Callable[[str], bool]] = (ALGORITHM.__eq__, TASK.__eq__, lambda name: name.startswith(_TASK_TABLES))
    return next((rank for rank, is_one in enumerate(order) if is_one(key)), len(order))
