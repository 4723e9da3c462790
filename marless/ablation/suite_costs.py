"""Compute the cost of each arm of a suite for a good return in each task, and its decisions on the way.

The target of a task is `SHARE` of the way from random play to the final return of the best static arm. The groups and
the number of rollouts of a static arm never change. The regret of an arm is its dollars to the target divided by the
cheapest static arm's. A regret of 1 is the best that one fixed choice can do if it is known beforehand.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from marless.ablation.arms import controls
from marless.comparison.finished_run import FinishedRun
from marless.comparison.paired_by_seed import Failures, Runs, dollars_until
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.coordinator.rules.student_t import t_quantile
from marless.reports.statistics import adjusted_rand
from marless.studies.cells import Arm
from marless.studies.registration import count

SHARE = 0.9


class ArmCost(msgspec.Struct, frozen=True, kw_only=True):
    """The dollars of an arm until its target, as a geometric mean. `reached` of `runs` reach the target.
    `spent` is by seed. `runs` includes failed runs, which are not in `spent`.

    `regret` is None if a run of the arm failed, or every static arm sometimes misses the target. `first` and `last`:
    mean rollouts in the first and the last fifth of the rounds. `changed`: runs with changed groups. `agreement`: the
    adjusted Rand index of the last groups and the true roles, or None if roles are unknown.
    """

    final_return: float
    dollars: float
    reached: int
    runs: int
    regret: float | None
    spent: dict[int, float]
    first: float
    last: float
    changed: int
    agreement: float | None

    @property
    def misses(self) -> bool:
        """Return True if some run misses the target, or failed."""
        return self.reached < self.runs


class TaskCosts(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its target, the static arm with the best final return, and every arm that has runs. The target is None
    if all static arms failed. `registrations` counts runs by the registration of the suite's file, and `failures` says
    why runs failed, by arm and seed."""

    task: str
    target: float | None
    best: str
    arms: dict[str, ArmCost]
    registrations: dict[str, int] = {}
    failures: dict[str, dict[int, str]] = {}


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio of dollars with its 95 % interval, or None for too few runs. `bound` is set if a run of either arm missed
    the target: '≥', '≤', '~' for both, or ''."""

    value: float
    ci95: tuple[float, float] | None
    bound: str


def is_static(arm: Arm) -> bool:
    """Return True if the arm's groups and number of rollouts stay fixed and are independent of other arms."""
    sharing, scaling = (str(arm.settings[key]) for key in ("sharing.rule", "scaling.rule"))
    return not (SHARING_MODES[sharing].switches or SCALING_RULES[scaling].adapts or arm.rollouts_of)


def costs(
    task: str,
    arms: Sequence[Arm],
    results: Mapping[str, Runs],
    random: float,
    roles: Sequence[int] | None = None,
    share: float = SHARE,
    failures: Failures | None = None,
) -> TaskCosts:
    """The costs of all arms with runs. There are none if all static arms failed. `roles` are the agents' true ones.
    Failed runs count as runs that did not reach the target."""
    failed = {name: dict(seeds) for name, seeds in (failures or {}).items()}
    registrations = count(run.registration for runs in results.values() for run in runs.values())
    finals = {
        name: float(np.mean([run.final_return for run in runs.values()])) for name, runs in results.items() if runs
    }
    if not (static := [arm.name for arm in arms if is_static(arm) and arm.name in finals]):
        return TaskCosts(task=task, target=None, best="", arms={}, registrations=registrations, failures=failed)
    best = max(static, key=lambda name: finals[name])
    target = random + share * (finals[best] - random)
    arm_costs = {name: _cost(results[name], len(failed.get(name, ())), finals[name], target, roles) for name in finals}
    least = min((arm_costs[name].dollars for name in static if not arm_costs[name].misses), default=None)
    if least is not None:
        arm_costs = {
            name: cost if name in failed else msgspec.structs.replace(cost, regret=cost.dollars / least)
            for name, cost in arm_costs.items()
        }
    return TaskCosts(task=task, target=target, best=best, arms=arm_costs, registrations=registrations, failures=failed)


def best_single(tasks: Sequence[TaskCosts], arms: Iterable[Arm]) -> str:
    """The static arm with the lowest geometric mean of regrets, or ''. Arms with failed runs do not count."""
    complete = [task.arms.keys() - task.failures.keys() for task in tasks]
    names = [arm.name for arm in arms if is_static(arm) and all(arm.name in names for names in complete)]
    return min(names, key=lambda name: geometric_mean(regrets(tasks, name) or [math.inf]), default="")


def regrets(tasks: Iterable[TaskCosts], name: str) -> list[float]:
    """The regrets of an arm in the tasks that have one."""
    all_regrets = [task.arms[name].regret for task in tasks if name in task.arms]
    return [regret for regret in all_regrets if regret is not None]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values."""
    return math.exp(float(np.mean(np.log(values))))


def contrasts(tasks: Sequence[TaskCosts], arms: Sequence[Arm]) -> list[tuple[str, str]]:
    """(arm, other) for every arm with a rule, no control. The others are the best single static arm, one network and
    separate ones with the same scaling, and its controls."""
    arms_by_name = {arm.name: arm for arm in arms}
    single, pairs = best_single(tasks, arms), []
    for arm in arms:
        if is_static(arm) or arm.control_of:
            continue
        rest = {key: value for key, value in arm.settings.items() if not key.startswith(("sharing.", "trend."))}
        same = [
            other.name
            for other in arms
            if {**rest, "sharing.rule": other.settings["sharing.rule"]} == other.settings and is_static(other)
        ]
        control_names = [control for control, of in controls(arms_by_name) if of == arm.name]
        pairs += [(arm.name, other) for other in dict.fromkeys([single, *same, *control_names]) if other]
    return pairs


def ratio(task: TaskCosts, name: str, other: str) -> Ratio | None:
    """Dollars to the target of an arm over the other's, paired by seed, by Student's t on logarithms. None if common
    seeds are missing or a run failed."""
    logarithms = _logarithms(task, name, other)
    return _ratio([logarithms], _bound([task], name, other)) if logarithms else None


def overall(tasks: Sequence[TaskCosts], name: str, other: str) -> Ratio | None:
    """The geometric mean of the tasks' ratios, each task with the same weight. The degrees of freedom are Welch's and
    Satterthwaite's for a sum of means. None if a task lacks the ratio."""
    by_task = [_logarithms(task, name, other) for task in tasks]
    return _ratio(by_task, _bound(tasks, name, other)) if all(by_task) else None


def _cost(runs: Runs, failed: int, final: float, target: float, roles: Sequence[int] | None) -> ArmCost:
    until = {seed: dollars_until(run.curve, target) for seed, run in runs.items()}
    dollars_spent = {seed: runs[seed].dollars if dollars is None else dollars for seed, dollars in until.items()}
    ends = [run.history[-1].team for run in runs.values()]
    return ArmCost(
        final_return=final,
        dollars=geometric_mean(list(dollars_spent.values())),
        reached=sum(dollars is not None for dollars in until.values()),
        runs=len(runs) + failed,
        regret=None,
        spent=dollars_spent,
        first=float(np.mean([_fifths(run)[0] for run in runs.values()])),
        last=float(np.mean([_fifths(run)[1] for run in runs.values()])),
        changed=sum(run.flips > 0 for run in runs.values()),
        agreement=None if roles is None else float(np.mean([adjusted_rand(team, roles) for team in ends])),
    )


def _fifths(run: FinishedRun) -> tuple[float, float]:
    rollouts = [line.rollouts for line in run.history]
    part = max(1, len(rollouts) // 5)
    return float(np.mean(rollouts[:part])), float(np.mean(rollouts[-part:]))


def _logarithms(task: TaskCosts, name: str, other: str) -> list[float]:
    if not {name, other} <= task.arms.keys() - task.failures.keys():
        return []
    arm_dollars, base = task.arms[name].spent, task.arms[other].spent
    return [math.log(arm_dollars[seed] / base[seed]) for seed in arm_dollars if seed in base]


def _bound(tasks: Iterable[TaskCosts], name: str, other: str) -> str:
    misses = [any(task.arms[of].misses for task in tasks if of in task.arms) for of in (name, other)]
    return {(False, False): "", (True, False): "≥", (False, True): "≤", (True, True): "~"}[misses[0], misses[1]]


def _ratio(by_task: Sequence[Sequence[float]], bound: str) -> Ratio:
    value = math.exp(float(np.mean([np.mean(values) for values in by_task])))
    if min(map(len, by_task)) < 2:
        return Ratio(value=value, ci95=None, bound=bound)
    errors = np.array([np.var(values, ddof=1) / len(values) for values in by_task]) / len(by_task) ** 2
    freedom = np.array([len(values) - 1 for values in by_task])
    if not errors.any():
        return Ratio(value=value, ci95=(value, value), bound=bound)
    half = t_quantile(0.975, float(errors.sum() ** 2 / (errors**2 / freedom).sum())) * math.sqrt(errors.sum())
    return Ratio(value=value, ci95=(value * math.exp(-half), value * math.exp(half)), bound=bound)
