"""The tables of the record, by the rules of measurement on docs/results/protocol.md."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from benchmarks.baseline.measure import LEAST_SHARE
from benchmarks.entities.registered import Arm, Bar, File, ListOfArms
from benchmarks.entities.runs import Run
from benchmarks.table import Row, markdown, share, spread, typical
from marless.reports.text import markdown_table

_ENDS = (
    *("arm", "seeds", "best return", "lowest … highest", "won, %", "lowest … highest"),
    *("in mpe2", "steps/s", "launch, s", "first round, s", "learners", "dollars"),
    *("groups", "adjusted Rand index", "lowest … highest"),
)


def text(file: File, runs: Sequence[Run], steps: int | None = None) -> str:
    """Return all tables in markdown. `steps` is another length of runs than registered."""
    parts = []
    for study in file.lists:
        arms = {arm.name: arm for arm in file.arms(study, steps)}
        of_list = [run for run in runs if run.study == study.name]
        counted = [run for run in of_list if run.arm in arms and run.registration == arms[run.arm].registration]
        shown = {name: newest([run for run in counted if run.arm == name]) for name in arms}
        parts += [f"### `{study.name}`", *_tables(study, arms, shown)]
        if left := len(of_list) - sum(map(len, shown.values())):
            parts.append(f"Not shown: {left} runs of another registration or program.")
    return "\n\n".join(parts)


def newest(runs: Sequence[Run]) -> dict[int, Run]:
    """Return the runs of an arm by seed. All come from its newest program."""
    return {run.seed: run for run in runs if run.program == runs[-1].program}


def _quiet(runs: dict[int, Run]) -> dict[int, Run]:
    """Return the runs on a quiet machine. Only their seconds and dollars count, because functions pay for seconds."""
    return {seed: run for seed, run in runs.items() if max(run.load) <= 1.25 * run.cores}


def _tables(study: ListOfArms, arms: dict[str, Arm], shown: dict[str, dict[int, Run]]) -> Iterator[str]:
    names = [name for name in arms if shown[name] or name not in study.off]
    has_dollars = any(run.dollars_to for runs in shown.values() for run in runs.values())
    for what, fmt in (("steps", ",.0f"), ("seconds", ".1f"), ("dollars", ".4f")):
        if study.targets and (what != "dollars" or has_dollars):
            header = ("arm", *(f"{what} to {target:g}" for target in study.targets))
            cells = ([_cell(shown[name], what, target, fmt) for target in study.targets] for name in names)
            yield markdown_table(header, [(name, *row) for name, row in zip(names, cells, strict=True)])
    columns = zip(_ENDS, *(_ends(name, shown[name]) for name in names), strict=True)
    # A column that no run of the list fills is left out.
    ends, *lines = zip(*(column for column in columns if any(column[1:])), strict=True)
    yield markdown_table(ends, lines)
    if study.teams:
        header = ("arm", *(f"{team} agents" if team.isdigit() else team for team in study.teams))
        yield markdown_table(header, [(name, *_by_team(shown[name], study.teams)) for name in names])
    if bars := [row for bar in study.bars for row in _rows(bar, shown)]:
        yield markdown(bars)


def _cell(runs: dict[int, Run], what: str, target: float, fmt: str) -> str:
    """Return the median over all seeds, and in how many of them the target was reached."""
    if not runs:
        return "not run"
    values = [_value(run, what, target) for run in (runs if what == "steps" else _quiet(runs)).values()]
    if not values:
        return "machine was busy"
    return f"{typical(values, fmt)} ({sum(map(math.isfinite, values))} of {len(values)})"


def _value(run: Run, what: str, target: float | None) -> float:
    """Return the cost of a target, infinite if it was not reached. Seconds count from the command."""
    costs: dict[str, Mapping[str, float | None]]
    costs = {"steps": run.steps_to, "seconds": run.seconds_to, "dollars": run.dollars_to}
    cost = costs[what].get(f"{target:g}")
    if cost is None:
        return math.inf
    return cost + (run.launch if what == "seconds" else 0.0)


def _ends(name: str, runs: dict[int, Run]) -> tuple[str, ...]:
    best = [run.best for run in runs.values() if run.best is not None]
    mpe2 = [run.mpe2 for run in runs.values() if run.mpe2 is not None]
    wins = [100 * run.win for run in runs.values() if run.win is not None]
    quiet = _quiet(runs).values()
    firsts = [run.first_round for run in quiet if run.first_round is not None]
    learning = [run.learning for run in quiet if run.learning is not None]
    dollars = [run.dollars for run in runs.values() if run.dollars is not None]
    parts = [run.parts for run in runs.values() if run.parts is not None]
    groups = [run.groups for run in runs.values() if run.groups is not None]
    return (
        *(name, str(len(runs)), typical(best, ".2f"), spread(best, ".2f"), typical(wins, ".1f"), spread(wins, ".1f")),
        *(typical(mpe2, ".2f"), typical([run.rate for run in quiet], ",.0f")),
        *(
            typical([run.launch for run in quiet], ".1f"),
            typical(firsts, ".1f"),
            typical(learning, ".2f"),
            typical(dollars, ".4f"),
        ),
        *(typical(parts, ".0f"), typical(groups, ".2f"), spread(groups, ".2f")),
    )


def _by_team(runs: dict[int, Run], teams: Sequence[str]) -> Iterator[str]:
    """Return the medians over seeds by team, with the lowest and the highest."""
    for team in teams:
        values = [run.teams[team] for run in runs.values() if team in run.teams]
        yield f"{typical(values, '.2f')}, {spread(values, '.2f')}" if values else "not run"


def _rows(bar: Bar, shown: dict[str, dict[int, Run]]) -> Iterator[Row]:
    """Return the row of a bar, after the row of its guard: the share of the passes in the baseline's time."""
    countable = _quiet if bar.of in ("seconds", "rate", "dollars") else dict[int, Run]
    runs, base = countable(shown[bar.arm]), countable(shown[bar.against] if bar.against else {})
    runs = {seed: run for seed, run in runs.items() if not bar.against or seed in base}
    name = f"{bar.arm}: {bar.of}" + (f" to {bar.target:g}" if bar.target is not None else "")
    values = [_measure(run, bar) for run in runs.values()]
    others = [_paid(base[seed], bar) for seed in runs] if bar.against else []
    ratios = [share(*map(_finite, pair)) for pair in zip(values, others, strict=True)] if others else []
    guard = _guard([base[seed] for seed in runs]) if bar.against else None
    if guard:
        yield guard
    fmt = {"rate": ",.0f", "dollars": ".4f"}.get(bar.of, ".2f")
    if bar.mean is not None:
        bounded = ratios or values
        # All seeds keep the bound of the mean, or none does.
        means = [fmean(bounded)] * len(bounded) if bounded else []
        pair = ([], means) if ratios else (means, [])
        yield Row(f"{name}, mean of all seeds", pair[0], fmt, "", pair[1], bar.against, most=bar.mean, guard=guard)
    yield Row(name, values, fmt, "", ratios, bar.against, bar.least, bar.most, guard)


def _measure(run: Run, bar: Bar) -> float:
    if bar.of in ("seconds", "dollars"):
        return _value(run, bar.of, bar.target)
    value: float | None = getattr(run, bar.of)
    return -math.inf if value is None else value


def _paid(run: Run, bar: Bar) -> float:
    """Return the value to compare with. All dollars of a run that missed the target count: the ratio is a bound."""
    measured = _measure(run, bar)
    return run.dollars if bar.of == "dollars" and run.dollars and not math.isfinite(measured) else measured


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _guard(base: Sequence[Run]) -> Row | None:
    shares = [run.share for run in base if run.share is not None]
    return Row("guard: passes / time of the torch learner", shares, ".2f", least=LEAST_SHARE) if shares else None
