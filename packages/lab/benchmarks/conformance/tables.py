"""The page docs/results/conformance.md."""

from collections.abc import Sequence

from benchmarks.conformance.bounded_interval import bounded_ci95
from benchmarks.conformance.cases import REFERENCE, Case
from benchmarks.conformance.measures import EPISODES, SHARES
from benchmarks.conformance.outcomes import Outcome, typical, verdict
from benchmarks.conformance.protocols import PUBLISHED_WINS, published
from benchmarks.conformance.record import Measured
from benchmarks.records.history import outside_history
from marless.coordinator.core import sides
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.reports import statistics
from marless.reports.text import markdown_table

HEADER = (
    "algorithm",
    "settings",
    "seeds",
    "return",
    "worst seed",
    "env steps",
    "seconds",
    "bar",
    "steps to the bar",
    "seconds to the bar",
    "published",
    "verdict",
)
_ABOUT = """\
All bars and results of the conformance protocols, by task.

Returns are greedy, undiscounted and summed over agents. They are the absolute metric: the policies of the best
evaluation on 3,200 fresh episodes, mean over seeds. Intervals are 95 %, by Student's t. For bounded returns and shares
of battles they are Wilson's, with the spread between seeds.

Env steps count the whole training. Seconds are the mean over seeds on one core, while two runs trained in parallel.
Steps and seconds to the bar are medians of the first evaluation (320 episodes) that reached it. Every seed counts, and
failed seeds are named. With a failed seed no mean is shown. A bar is met if each of at least five seeds reaches it.
Seeds begin at 1. Published returns are from 20M steps for `mappo` and `ippo`, and from 2M for the others. Each cell's
line in conformance/*.jsonl has the commit that trained it and the hyperparameters."""
_SIDES = """\
The return of the team {side}, summed over its agents, when the final policies meet each other. The second table shows
the strength of each team: the mean return of each agent against opponents that do not learn, 640 episodes."""


def document(found: Sequence[Outcome], pictures: Sequence[str]) -> str:
    """Return the whole file. `pictures` are next to it."""
    parts = ["# Does every algorithm learn every task?", _ABOUT]
    for protocol in dict.fromkeys(outcome.protocol for outcome in found):
        own = [outcome for outcome in found if outcome.protocol == protocol]
        for task in dict.fromkeys(outcome.case.task for outcome in own):
            parts.append(f"## {task} ({protocol})")
            outcomes = [outcome for outcome in own if outcome.case.task == task]
            parts += [*section(outcomes), *_outside_history(outcomes)]
            parts += [f"![{task}]({name})" for name in pictures if name == picture(task, protocol)]
    return "\n\n".join([*parts, *_failures(found)]) + "\n"


def picture(task: str, protocol: str) -> str:
    """The file name of a task's curves."""
    return f"conformance-{protocol}-{task}.png"


def section(found: Sequence[Outcome]) -> list[str]:
    """The tables of one task."""
    cases = [outcome for outcome in found if outcome.case.treatment != REFERENCE]
    rows = [row(outcome, [other for other in cases if _alike(other, outcome)]) for outcome in cases if outcome.records]
    waiting: dict[str, list[str]] = {}
    for outcome in cases:
        if not outcome.records:
            waiting.setdefault(outcome.case.treatment, []).append(outcome.case.algorithm)
    missing = [f"Not run yet ({treatment}): {', '.join(names)}." for treatment, names in waiting.items()]
    names = {evaluated_side(outcome.case) for outcome in cases if outcome.case.measure == "sides"}
    return [
        *(_SIDES.format(side=name) for name in names),
        *([_without_empty_columns(rows)] if rows else []),
        *([" ".join(missing)] if missing else []),
        *measured(cases),
    ]


def _without_empty_columns(rows: Sequence[Sequence[str]]) -> str:
    kept = [column for column in zip(HEADER, *rows, strict=True) if any(column[1:])]
    header, *cells = zip(*kept, strict=True)
    return markdown_table(header, cells, aligned=False)


def evaluated_side(case: Case) -> str:
    """Return the side that ranks runs of a competitive task by its return. Raises `ValueError` for another task."""
    side = sides.ranked_side(registry.spec(EnvTask(name=str(case.settings["task.name"]))), None)
    if side is None:
        raise ValueError(f"all agents of {case.task} are on one side")
    return side.name


def _alike(one: Outcome, other: Outcome) -> bool:
    return one.case.treatment == other.case.treatment


def row(outcome: Outcome, beside: Sequence[Outcome]) -> tuple[str, ...]:
    """Return one case. `beside` are the cases of the same task and settings."""
    case = outcome.case
    theirs = published(case.task, case.algorithm)
    best = "" if theirs is None else _number(theirs[0])
    ends = (_number(case.bar), *_to_the_bar(outcome), best, verdict(outcome, beside))
    if not outcome.returns:
        return (case.algorithm, case.treatment, "", "", "", "", "", *ends)
    seeds = str(len(outcome.finished))
    steps, seconds = f"{outcome.env_steps:,}", f"{outcome.seconds:,.0f}"
    returns = ("", "")
    if not outcome.failed:
        returns = f"{outcome.mean:.2f}{_interval(outcome.ci95)}", f"{min(outcome.returns):.2f}"
    return (case.algorithm, case.treatment, seeds, *returns, steps, seconds, *ends)


def measured(found: Sequence[Outcome]) -> list[str]:
    """Return the table of the other metrics at the last point, or an empty list."""
    ended = [(outcome, _last(outcome)) for outcome in found if _last(outcome)]
    names = list(dict.fromkeys(name for _, parts in ended for part in parts for name in part.figures))
    if not names:
        return []
    rows = []
    for outcome, parts in ended:
        cells = (_spread([part.figures[name] for part in parts], bounds_of(name, outcome.case)) for name in names)
        theirs = PUBLISHED_WINS.get(outcome.case.task, {}).get(outcome.case.algorithm)
        rows.append((outcome.case.algorithm, outcome.case.treatment, str(len(parts)), *cells, _number(theirs)))
    header = ["algorithm", "settings", "seeds", *names, "published win"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return [markdown_table(header, rows, aligned=False)]


def _last(outcome: Outcome) -> tuple[Measured, ...]:
    return tuple(made.measured[-1] for made in outcome.finished if made.measured)


def bounds_of(name: str, case: Case) -> statistics.Interval | None:
    """The bounds of a figure, or of the returns, of a case. None means unbounded."""
    return (0.0, 1.0) if name in SHARES else case.bounds


def _spread(values: Sequence[float], bounds: statistics.Interval | None) -> str:
    if len(values) < 2:
        found = None
    elif bounds is None:
        found = statistics.ci95(values)
    else:
        found = bounded_ci95(values, EPISODES, bounds)
    return f"{statistics.mean(values):.2f}{_interval(found)}"


def _interval(interval: statistics.Interval | None) -> str:
    return "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _to_the_bar(outcome: Outcome) -> tuple[str, str]:
    reached = outcome.reached()
    if not reached:
        return "", ""
    middle = typical(reached)
    if middle is None:
        got = sum(point is not None for point in reached)
        return f"reached by {got} of {len(reached)}", ""
    return f"{middle[0]:,.0f}", f"{middle[1]:,.0f}"


def _outside_history(found: Sequence[Outcome]) -> list[str]:
    """Return a line for each commit outside the history, with the cases that it trained."""
    commits = {made.commit for outcome in found for made in outcome.finished if made.commit}
    lines = []
    for commit in sorted(outside_history(commits)):
        cases = [outcome.case for outcome in found if any(made.startswith(commit[:7]) for made in outcome.commits)]
        names = ", ".join(f"{case.algorithm} ({case.treatment})" for case in cases)
        records = f"[records](conformance/{found[0].protocol}.jsonl)"
        lines.append(f"Made by commit {commit[:8]} outside this history: {names} ({records}).")
    return lines


def _failures(found: Sequence[Outcome]) -> list[str]:
    lines = [
        f"* {made.protocol}: {outcome.case.arm.name}, seed {seed}: {made.reason}"
        for outcome in found
        for seed, made in sorted(outcome.records.items())
        if made.status == "failed"
    ]
    return ["## Cells that failed", "\n".join(lines)] if lines else []
