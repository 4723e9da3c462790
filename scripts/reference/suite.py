"""The summary of the suite in docs/results/suite.md, between two markers, from the stored tables of costs.

`spread_3` was run with networks of the default width first. The runs with a width of 128 followed after the first
result was known, so both count: each alone, and both together.
"""

import math
from collections.abc import Sequence

import msgspec

from marless.ablation import rules_file
from marless.ablation.suite_costs import TaskCosts, geometric_mean, overall
from marless.ablation.suite_table import registered
from marless.reports.statistics import ci95
from scripts.reference import markdown

_BEGIN, _END = "<!-- summary: written by `make docs` -->", "<!-- end of summary -->"
_RESULTS = markdown.DATA.parent / "results"
_SUITE = markdown.DATA.parents[1] / "benchmarks" / "suite.toml"
_RULE, _ALL, _NONE, _TRUE = (f"{name}+constant:10@split" for name in ("roles", "all", "none", "groups"))
# The true groups if agents have roles, else one network: the choice of a user who knows the groups beforehand.
_KNOWN = "known groups"


def page() -> str:
    """docs/results/suite.md with the generated summary."""
    before, rest = (_RESULTS / "suite.md").read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{summary()}\n\n{_END}{rest.split(_END)[1]}"


def summary() -> str:
    """Regrets and contrasts of the setting over nine tasks with either width of `spread_3`, and over all ten."""
    wide = _tasks("table.json")
    [narrow] = _tasks("spread_3-default-width.json")
    sets = {
        "nine, `spread_3` with 128 units": wide,
        "nine, `spread_3` with the default 64": [narrow, *wide[1:]],
        "all ten": [narrow, *wide],
    }
    regrets = [_regrets(label, tasks, arm) for label, tasks in sets.items() for arm in (_RULE, _KNOWN, _ALL, _NONE)]
    ratios = [_ratio(label, tasks, other) for label, tasks in sets.items() for other in (_KNOWN, _ALL, _NONE)]
    return "\n\n".join(
        (
            *registered([narrow, *wide], rules_file.load(_SUITE).registration),
            markdown.table(
                ("tasks", "ten rollouts and", "regret, geometric mean", "worst", "runs that reach"), regrets
            ),
            markdown.table(("tasks", "`roles` / …", "dollars to the target", "over seeds", "over tasks"), ratios),
        )
    )


def _tasks(file: str) -> list[TaskCosts]:
    tasks = msgspec.json.decode((_RESULTS / "suite" / file).read_bytes(), type=list[TaskCosts])
    return [_with_known(task) for task in tasks]


def _with_known(task: TaskCosts) -> TaskCosts:
    return msgspec.structs.replace(task, arms=task.arms | {_KNOWN: task.arms.get(_TRUE, task.arms[_ALL])})


def _label(arm: str) -> str:
    return arm if arm == _KNOWN else markdown.code(arm.split("+")[0])


def _regrets(tasks_label: str, tasks: Sequence[TaskCosts], arm: str) -> tuple[str, ...]:
    costs = [task.arms[arm] for task in tasks]
    regrets = [cost.regret for cost in costs if cost.regret is not None]
    reached, runs = sum(cost.reached for cost in costs), sum(cost.runs for cost in costs)
    bound = "" if reached == runs else "≥ "
    return (
        tasks_label,
        _label(arm),
        f"{bound}{geometric_mean(regrets):.2f}",
        f"{bound}{max(regrets):.2f}",
        f"{reached} of {runs}",
    )


def _ratio(tasks_label: str, tasks: Sequence[TaskCosts], other: str) -> tuple[str, ...]:
    ratio = overall(tasks, _RULE, other)
    assert ratio is not None and ratio.ci95 is not None
    low, high = ci95([math.log(task.arms[_RULE].dollars / task.arms[other].dollars) for task in tasks])
    return (
        tasks_label,
        _label(other),
        f"{ratio.bound} {ratio.value:.2f}".strip(),
        f"{ratio.ci95[0]:.2f} to {ratio.ci95[1]:.2f}",
        f"{math.exp(low):.2f} to {math.exp(high):.2f}",
    )
