"""One table over the tasks of a suite: what every arm returns, and what it pays to reach a return that is good there.

The target of a task is `SHARE` of the way from random play to the final return of the best static arm, one whose groups
and number of rollouts never change. The regret of an arm is its dollars to the target divided by those of the static
arm that reaches it for the fewest: 1 is the best that one fixed choice can do if it is known beforehand.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from coordinator.ablation.arms import Arm
from coordinator.ablation.comparison import Runs, dollars_until
from coordinator.reports.text import markdown_table
from coordinator.rules.scaling import SCALING_RULES
from coordinator.rules.sharing import SHARING_MODES

SHARE = 0.9

_NONE = "-"
_RETURN = "Mean return of the final policies, greedy, summed over agents. The best static arm of a task is in bold."
_REGRET = (
    "Dollars to the target over those of the cheapest static arm that always reaches it. The target is"
    f" {100 * SHARE:.0f} % of the way from random play to the best static arm's final return. Dollars are geometric"
    " means over seeds; a run that misses the target counts with all its dollars, so that the ratio is a bound (≥),"
    " with the number of runs that reached it."
)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm pays to reach the target: the geometric mean over `runs`, of which `reached` do; `regret` is None
    when no static arm always reaches it."""

    final_return: float
    dollars: float
    reached: int
    runs: int
    regret: float | None


class TaskCosts(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its target, the static arm with the best final return, and every arm that has runs."""

    task: str
    target: float
    best: str
    arms: dict[str, Cost]


def is_static(arm: Arm) -> bool:
    """Whether the arm's groups and number of rollouts never change and follow from no other arm's."""
    sharing, scaling = (str(arm.settings[key]) for key in ("sharing.rule", "scaling.rule"))
    return not (SHARING_MODES[sharing].switches or SCALING_RULES[scaling].adapts or arm.rollouts_of)


def costs(task: str, arms: Sequence[Arm], results: Mapping[str, Runs], random: float) -> TaskCosts | None:
    """The costs of all arms with runs; None without a run of a static arm."""
    finals = {
        name: float(np.mean([run.final_return for run in runs.values()])) for name, runs in results.items() if runs
    }
    static = [arm.name for arm in arms if is_static(arm) and arm.name in finals]
    if not static:
        return None
    best = max(static, key=lambda name: finals[name])
    target = random + SHARE * (finals[best] - random)
    spent = {name: _spent(results[name], target) for name in finals}
    least = min((spent[name][0] for name in static if spent[name][1] == len(results[name])), default=None)
    found = {
        name: Cost(
            final_return=finals[name],
            dollars=dollars,
            reached=reached,
            runs=len(results[name]),
            regret=None if least is None else dollars / least,
        )
        for name, (dollars, reached) in spent.items()
    }
    return TaskCosts(task=task, target=target, best=best, arms=found)


def markdown(title: str, tasks: Sequence[TaskCosts]) -> str:
    """The page: a row for each arm, a column for each task."""
    names = list(dict.fromkeys(name for task in tasks for name in task.arms))
    header = ("arm", *(task.task for task in tasks))
    returns = [(name, *(_return(task, name) for task in tasks)) for name in names]
    regrets = [(name, *(_regret(task, name) for task in tasks), *_overall(tasks, name)) for name in names]
    targets = ("target", *(f"{task.target:.1f}" for task in tasks))
    parts = [
        f"# {title}",
        "## Return",
        markdown_table(header, [*returns, targets]),
        _RETURN,
        "## Regret",
        markdown_table((*header, "geometric mean", "worst"), regrets),
        _REGRET,
    ]
    return "\n\n".join(parts) + "\n"


def _spent(runs: Runs, target: float) -> tuple[float, int]:
    """The geometric mean of dollars to the target, and how many runs reach it."""
    dollars = [(dollars_until(run.curve, target), run.dollars) for run in runs.values()]
    logarithms = [math.log(all_ if until is None else until) for until, all_ in dollars]
    return math.exp(float(np.mean(logarithms))), sum(until is not None for until, _ in dollars)


def _return(task: TaskCosts, name: str) -> str:
    if name not in task.arms:
        return _NONE
    text = f"{task.arms[name].final_return:.1f}"
    return f"**{text}**" if name == task.best else text


def _regret(task: TaskCosts, name: str) -> str:
    cost = task.arms.get(name)
    if cost is None or cost.regret is None:
        return _NONE
    missed = cost.reached < cost.runs
    return f"≥ {cost.regret:.2f} ({cost.reached} of {cost.runs})" if missed else f"{cost.regret:.2f}"


def _overall(tasks: Sequence[TaskCosts], name: str) -> tuple[str, str]:
    """The geometric mean and the worst over tasks; of arms that all tasks have."""
    found = [task.arms[name] for task in tasks if name in task.arms]
    regrets = [cost.regret for cost in found if cost.regret is not None]
    if len(regrets) < len(tasks):
        return _NONE, _NONE
    bound = "≥ " if any(cost.reached < cost.runs for cost in found) else ""
    return f"{bound}{math.exp(float(np.mean(np.log(regrets)))):.2f}", f"{bound}{max(regrets):.2f}"
