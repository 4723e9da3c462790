"""Arms: runs with the same settings, each trained with several seeds on every task."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from marless.comparison import setting_keys as keys_
from marless.comparison.run_evaluations import ComparedRun
from marless.comparison.setting_keys import AGENTS, TASK, Values, values
from marless.coordinator.errors import UserError


@dataclass(frozen=True)
class ComparedArm:
    """Runs of the same settings by task and seed. Every task has the same `seeds`.

    `settings` are the values, by key, that tell an arm from others if the names do not say so.
    """

    name: str
    runs: Mapping[str, Mapping[int, ComparedRun]]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(sorted(next(iter(self.runs.values()))))

    @property
    def every_run(self) -> list[ComparedRun]:
        """Task by task, by seed."""
        return [of_task[seed] for of_task in self.runs.values() for seed in self.seeds]


def arms_of(runs: Sequence[ComparedRun], by: Sequence[str] = ()) -> tuple[list[ComparedArm], dict[str, str]]:
    """The arms in the order of the runs, and the runs left out as their seed is missing on another task.

    Without `by` the settings that a study lists by name are arms. Other runs, and settings that repeat the same arms on
    several tasks, form arms by configuration, apart from seed, task and number of agents. Raises `UserError` for an
    unknown key, a seed that an arm has twice on a task, arms of different tasks, and tasks with different algorithms.
    """
    keys = keys_.expanded(by, runs) if by else keys_.splitting(runs, (TASK, AGENTS))
    arms = _listed_arms(runs) if not by and _are_listed(runs, keys) else _split(runs, keys)
    _require_same_tasks(arms)
    _require_one_algorithm(arms)
    return with_equal_seeds(arms)


def _are_listed(runs: Sequence[ComparedRun], keys: Sequence[str]) -> bool:
    """Return True if the settings that a study lists are the arms: there are several, and they form no grid of tasks
    and arms (by `keys`)."""
    settings = {run.setting for run in runs}
    if None in settings or len(settings) < 2:
        return False
    arms, tasks = ({values(run, some) for run in runs} for some in (keys, (TASK, AGENTS)))
    cells = {values(run, [*keys, TASK, AGENTS]) for run in runs}
    is_grid = min(len(arms), len(tasks)) > 1 and len(arms) * len(tasks) == len(cells) == len(settings)
    return not is_grid


def _listed_arms(runs: Sequence[ComparedRun]) -> list[ComparedArm]:
    """An arm for each setting. Settings of several studies that are the same except for the study are one."""
    content: dict[object, str] = {}
    members: dict[tuple[str, str], list[ComparedRun]] = {}
    for run in runs:
        assert run.setting is not None
        text = content.setdefault(run.setting, json.dumps({**run.config, keys_.SEED: None}, sort_keys=True))
        members.setdefault((run.setting.name, text), []).append(run)
    plain = [name for name, _ in members]
    names_by_key = {
        key: key[0] if plain.count(key[0]) == 1 else f"{group[0].setting.study.name}/{key[0]}"
        for key, group in members.items()
        if group[0].setting
    }
    keys = keys_.splitting([group[0] for group in members.values()])
    settings = {each: {key: keys_.text(group[0], key) for key in keys} for each, group in members.items()}
    tasks, names = keys_.task_names(runs, ()), keys_.numbered(names_by_key)
    return [_arm(names[each], group, tasks, (), settings[each]) for each, group in members.items()]


def _split(runs: Sequence[ComparedRun], keys: Sequence[str]) -> list[ComparedArm]:
    strata = keys_.strata(runs, keys)
    tasks = keys_.task_names(runs, strata)
    members: dict[Values, list[ComparedRun]] = {}
    for run in runs:
        members.setdefault(values(run, keys), []).append(run)
    names = keys_.numbered({arm_values: keys_.label(arm_runs[0], keys) for arm_values, arm_runs in members.items()})
    return [_arm(names[arm_values], arm_runs, tasks, strata) for arm_values, arm_runs in members.items()]


def _arm(
    name: str,
    runs: Sequence[ComparedRun],
    tasks: Mapping[Values, str],
    strata: Sequence[str],
    settings: Mapping[str, str] | None = None,
) -> ComparedArm:
    by_task: dict[str, dict[int, ComparedRun]] = {}
    for run in runs:
        runs_by_seed = by_task.setdefault(tasks[values(run, strata)], {})
        if run.seed in runs_by_seed:
            twin = runs_by_seed[run.seed]
            differ = next(iter(keys_.splitting([twin, run])), "")
            advice = f"they differ in {differ}, which `by` could name" if differ else "leave one of them out"
            raise UserError(f"arm {name} has seed {run.seed} twice, in {twin.name} and {run.name}; {advice}")
        runs_by_seed[run.seed] = run
    return ComparedArm(name, dict(sorted(by_task.items())), settings or {})


def _require_same_tasks(arms: Sequence[ComparedArm]) -> None:
    first = arms[0]
    for other in arms[1:]:
        if other.runs.keys() != first.runs.keys():
            tasks, others = (" and ".join(arm.runs) for arm in (first, other))
            raise UserError(f"arms have different tasks: {first.name} was trained on {tasks}, {other.name} on {others}")


def _require_one_algorithm(arms: Sequence[ComparedArm]) -> None:
    first, *others = [run for of_task in arms[0].runs.values() for run in of_task.values()]
    algorithm = keys_.text(first, keys_.ALGORITHM)
    other = next((run for run in others if keys_.text(run, keys_.ALGORITHM) != algorithm), None)
    if len(arms) == 1 and other is not None:
        texts = (f"{run.name} trains {run.config[TASK]} with {run.config[keys_.ALGORITHM]}" for run in (first, other))
        raise UserError(f"the runs have different tasks: {' and '.join(texts)}; compare runs of the same task")


def with_equal_seeds(arms: Sequence[ComparedArm]) -> tuple[list[ComparedArm], dict[str, str]]:
    """Keeps the seeds that an arm has on all its tasks, because scores are a matrix of seeds by tasks (see rliable)."""
    equal_arms: list[ComparedArm] = []
    left_out: dict[str, str] = {}
    for arm in arms:
        common = set.intersection(*(set(of_task) for of_task in arm.runs.values()))
        if not common:
            raise UserError(f"arm {arm.name} has no seed on all of its tasks ({', '.join(arm.runs)})")
        for of_task in arm.runs.values():
            for run in (run for seed, run in of_task.items() if seed not in common):
                lacks = " and ".join(task for task, others in arm.runs.items() if run.seed not in others)
                left_out[run.name] = f"arm {arm.name} lacks seed {run.seed} on {lacks}"
        runs = {task: {seed: runs_by_seed[seed] for seed in sorted(common)} for task, runs_by_seed in arm.runs.items()}
        equal_arms.append(replace(arm, runs=runs))
    return equal_arms, left_out
