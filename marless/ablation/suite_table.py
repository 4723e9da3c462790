"""The page of a suite: every arm's return in each task, its cost for a good return, and the rules' decisions."""

from collections import Counter
from collections.abc import Sequence

from marless.ablation import suite_costs
from marless.ablation.result_tables import failed_runs
from marless.reports.section import NONE, interval_cell
from marless.reports.text import markdown_table
from marless.studies.cells import Arm
from marless.studies.registration import remark

_RETURN = "Mean return of the final policies, greedy, summed over agents. The best static arm of a task is in bold."
_REGRET = (
    "Dollars to the target over those of the cheapest static arm that always reaches it. The target is"
    " {share:.0f} % of the way from random play to the best static arm's final return. Dollars are geometric"
    " means over seeds; a run that misses the target counts with all its dollars, so that the ratio is a bound (≥),"
    " with the number of runs that reached it. A failed run counts as a run that misses it, and its arm has no regret."
)
_CONTRASTS = (
    "Dollars to the target of an arm over those of another: below 1 the arm is cheaper. In brackets: 95 % intervals by"
    " Student's t on logarithms, paired by seed; over tasks with equal weights. ≥: some run of the arm missed the"
    " target and counts with all its dollars; ≤: some run of the other; ~: of both. {single} is the best single static"
    " arm: its geometric mean of regrets is the lowest."
)
_FAILED = "{task} failed: no static arm has a finished run, so its column is empty."
_DECISIONS = (
    "Mean rollouts in the first → the last fifth of the rounds; runs whose groups changed, of all; in tasks with hidden"
    " roles the adjusted Rand index of the last groups and the true ones (1: the same, 0: as by chance)."
)


def markdown(
    title: str,
    tasks: Sequence[suite_costs.TaskCosts],
    arms: Sequence[Arm],
    pictures: Sequence[str] = (),
    share: float = suite_costs.SHARE,
    registration: str = "",
) -> str:
    """The page: a row for each arm, a column for each task."""
    names = list(dict.fromkeys(name for task in tasks for name in (*task.arms, *task.failures)))
    failures = {f"{task.task}, {arm}": seeds for task in tasks for arm, seeds in task.failures.items()}
    header = ("arm", *(task.task for task in tasks))
    returns = [(name, *(_return(task, name) for task in tasks)) for name in names]
    target = ("target", *(NONE if task.target is None else f"{task.target:.1f}" for task in tasks))
    regret = [(name, *(_regret(task, name) for task in tasks), *_overall(tasks, name)) for name in names]
    contrast_rows = [
        (*pair, *(_cell(suite_costs.ratio(task, *pair)) for task in tasks), _cell(suite_costs.overall(tasks, *pair)))
        for pair in suite_costs.contrasts(tasks, arms)
    ]
    ruled_arms = [arm.name for arm in arms if not suite_costs.is_static(arm) and arm.name in names]
    decision_rows = [(name, *(_decisions(task.arms.get(name)) for task in tasks)) for name in ruled_arms]
    parts = [
        f"# {title}",
        *registered(tasks, registration),
        *(_FAILED.format(task=task.task) for task in tasks if task.target is None),
        *failed_runs(failures),
        "## Return",
        markdown_table(header, [*returns, target]),
        _RETURN,
        "## Regret",
        markdown_table((*header, "geometric mean", "worst"), regret),
        _REGRET.format(share=100 * share),
        *(f"![{name.removesuffix('.png')}]({name})" for name in pictures),
    ]
    if contrast_rows:
        parts += ["## Contrasts", markdown_table(("arm", "against", *header[1:], "geometric mean"), contrast_rows)]
        parts += [_CONTRASTS.format(single=suite_costs.best_single(tasks, arms) or "None")]
    if decision_rows:
        parts += ["## Decisions", markdown_table(header, decision_rows), _DECISIONS]
    return "\n\n".join(parts) + "\n"


def registered(tasks: Sequence[suite_costs.TaskCosts], now: str) -> list[str]:
    """Return the remark on the registrations of all runs, if there is one. Tables of earlier versions count as
    unregistered."""
    unknown = [{"": sum(cost.runs for cost in task.arms.values())} for task in tasks]
    counts = [Counter(task.registrations or other) for task, other in zip(tasks, unknown, strict=True)]
    runs: Counter[str] = sum(counts, Counter())
    return [text for text in [remark(runs, now)] if text]


def _return(task: suite_costs.TaskCosts, name: str) -> str:
    if (cost := task.arms.get(name)) is None:
        return NONE
    text = f"{cost.final_return:.1f}"
    text = f"**{text}**" if name == task.best else text
    return f"{text} ({len(cost.spent)} of {cost.runs} runs)" if name in task.failures else text


def _regret(task: suite_costs.TaskCosts, name: str) -> str:
    cost = task.arms.get(name)
    if failed := len(task.failures.get(name, ())):
        return f"{NONE} ({cost.reached if cost else 0} of {cost.runs if cost else failed})"
    if cost is None or cost.regret is None:
        return NONE
    return f"≥ {cost.regret:.2f} ({cost.reached} of {cost.runs})" if cost.misses else f"{cost.regret:.2f}"


def _overall(tasks: Sequence[suite_costs.TaskCosts], name: str) -> tuple[str, str]:
    arm_regrets = suite_costs.regrets(tasks, name)
    if len(arm_regrets) < len(tasks):
        return NONE, NONE
    bound = "≥ " if any(task.arms[name].misses for task in tasks) else ""
    return f"{bound}{suite_costs.geometric_mean(arm_regrets):.2f}", f"{bound}{max(arm_regrets):.2f}"


def _cell(ratio: suite_costs.Ratio | None) -> str:
    return NONE if ratio is None else f"{ratio.bound} {interval_cell(ratio.value, ratio.ci95, '{:.2f}'.format)}".strip()


def _decisions(cost: suite_costs.ArmCost | None) -> str:
    if cost is None:
        return NONE
    agreement = "" if cost.agreement is None else f"; {cost.agreement:.2f}"
    return f"{cost.first:.1f} → {cost.last:.1f}; {cost.changed} of {len(cost.spent)}{agreement}"
