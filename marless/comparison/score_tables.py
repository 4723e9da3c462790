"""A comparison as tables for people, compare.md and compare.csv."""

from collections.abc import Iterable, Mapping, Sequence

from marless.comparison.comparison import FEWEST, ArmContrast, ArmRow, Comparison, CurveBands
from marless.comparison.run_evaluations import Axis
from marless.reports.digits import Digits, digits_of
from marless.reports.evaluations import METRIC
from marless.reports.section import NONE, Section, estimate_cell
from marless.reports.statistics import FEWEST_SEEDS, Estimate
from marless.reports.text import counted, csv_text, money, seconds

_HAVE = ("has", "have")
_FOOTNOTE = f"* below {FEWEST} seeds the intervals are too narrow; Gorsane et al. (2022) ask for 10 seeds"
_HEADER = ("table", "arm", "statistic", "at", "value", "low", "high", "seeds")


def amount(value: float, axis: Axis) -> str:
    """A position on the axis in words: ``240,000 environment steps``."""
    if axis == "steps":
        return f"{value:,.0f} environment steps"
    return money(value) if axis == "dollars" else f"{seconds(value)} of training"


def measured(comparison: Comparison) -> str:
    """Name the numbers of tables and pictures: a return, a score, or a metric of the environment by its name."""
    return "score" if comparison.normalised else comparison.metric


def headline(comparison: Comparison) -> str:
    """Name the arms and tasks of the comparison, and its point."""
    arms, tasks = counted(len(comparison.equal), "arm"), " and ".join(comparison.tasks)
    arms = arms if comparison.metric == METRIC else f"{comparison.metric} of {arms}"
    fewest, most = (limit(row.seeds for row in comparison.equal) for limit in (min, max))
    over = counted(most, "seed") if fewest == most else f"{fewest} to {most} seeds"
    end = f"{comparison.ends_first} ends" if comparison.ends_first else "all runs end"
    return f"{arms} over {over} on {tasks}, at {amount(comparison.at, comparison.axis)}, where {end}"


def sections(comparison: Comparison) -> list[Section]:
    """The tables, the most important first."""
    usual = 2 if comparison.normalised or max(abs(row.iqm.value) for row in comparison.equal) < 10 else 1
    of = "" if comparison.metric == METRIC else f" of {comparison.metric}"
    what = {"return": "Return", "score": f"Score{of}"}.get(measured(comparison), measured(comparison))
    measures = [(f"{what} at equal {comparison.axis}", comparison.equal)]
    if comparison.absolute is not None:
        measures.append((f"Absolute metric{of}", comparison.absolute))
    parts = [_settings(comparison)] if comparison.settings else []
    for title, rows in measures:
        parts.append(_aggregates(title, rows, usual))
        if len(rows) > 1:
            parts.append(_against(f"{title}, against {rows[0].arm}", rows[1:], usual))
    return [*parts, _costs(comparison)] if comparison.costs else parts


def notes(comparison: Comparison) -> list[str]:
    """Explain how to read the tables, and name missing parts."""
    returns = "returns" if comparison.metric == METRIC else comparison.metric
    sentences = [
        "In brackets: 95 % intervals of a stratified bootstrap over seeds (Agarwal et al. 2021). IQM is the"
        f" interquartile mean. {_meaning(comparison.metric)}"
    ]
    if comparison.normalised:
        sentences.append(
            f"Scores: each task's {returns}, 0 for the lowest and 1 for the highest of all evaluations compared"
            " (Gorsane et al. 2022). The median is that of the tasks' means. As 1 is only the best that was seen, the"
            " optimality gap says how far an arm is from that, not from an optimum."
        )
    else:
        sentences.append(
            f"With one task scores are {returns} and the median is over seeds. There is no optimality gap: it needs"
            " normalised scores, and nothing here says which value is optimal."
        )
    if len(comparison.equal) > 1:
        sentences.append(_pairing(comparison.equal[0].arm, comparison.equal[1:]))
    if comparison.costs:
        sentences.append(
            "Dollars depend on how rounds are placed, and with placement.rule=balanced, the default, on the slots that"
            " a run had beside others: name another rule, such as fused, in runs whose dollars are compared."
        )
    if names := list(comparison.busy_machines):
        sentences.append(
            f"Seconds and dollars of {names[0]}{_and_more(names)} are too high: {comparison.busy_machines[names[0]]}."
        )
    if comparison.without_absolute:
        without = ", ".join(comparison.without_absolute)
        sentences.append(f"No absolute metric: runs that were stopped early have none ({without}).")
    return [*sentences, *_origins(comparison)]


def _origins(comparison: Comparison) -> list[str]:
    sentences = []
    for name, runs in comparison.unlike_code.items():
        states = (f"{value[:12]} in {names[0]}{_and_more(names)}" for value, names in runs.items())
        sentences.append(f"The runs have different code: {name} is {', '.join(states)}.")
    if comparison.registrations:
        numbers = (f"{runs:,} with {name[:12] or 'none'}" for name, runs in comparison.registrations.items())
        sentences.append(f"The files of the studies differ. Runs by registration: {', '.join(numbers)}.")
    for name, changes in comparison.code_changes.items():
        sentences.append(f"{name} {'; '.join(change.text for change in changes)}.")
    return sentences


def _and_more(names: Sequence[str]) -> str:
    return f" and {counted(len(names) - 1, 'more run')}" if len(names) > 1 else ""


def conclusions(comparison: Comparison) -> list[str]:
    """A sentence for every arm after the first, and whether the compared numbers are comparable."""
    base, what = comparison.equal[0].arm, measured(comparison)
    if len(comparison.equal) == 1:
        return [_one_arm(comparison.unsplit)]
    sentences = [
        f"{row.arm} against {base}: {_verdict(row.against, f'{what} is ')}"
        for row in comparison.equal
        if row.against is not None
    ]
    if comparison.unlike and comparison.metric == METRIC:
        sentences.append(_other_scale(comparison))
    return sentences


def _one_arm(unsplit: Sequence[str]) -> str:
    if not unsplit:
        return "one arm: nothing to compare; all runs have the same settings but for the seed"
    keys = " and ".join(unsplit)
    return f"one arm: nothing to compare; settings differ in {keys}; for an arm of each, compare by {','.join(unsplit)}"


def _other_scale(comparison: Comparison) -> str:
    others = [name for name in comparison.metrics if name != METRIC]
    advice = (
        f"compare a metric of the environment ({', '.join(others)})"
        if others
        else "a metric that the environment reports can be compared; these runs have none"
    )
    keys = " and ".join(comparison.unlike)
    return f"arms differ in {keys}: if that changes what is paid, returns are on different reward scales; {advice}"


def _meaning(metric: str) -> str:
    if metric == METRIC:
        return "Returns are undiscounted and summed over agents."
    return f"{metric}: the mean over episodes of what the environment reports; more need not be better."


def markdown(comparison: Comparison, left_out: Mapping[str, str], pictures: Sequence[str]) -> str:
    """compare.md. `pictures` are files next to it."""
    parts = ["# Comparison", f"{headline(comparison)}."]
    if sentences := conclusions(comparison):
        parts.append(_bullets(sentences))
    for section in sections(comparison):
        parts += section.markdown
    parts += ["## How to read this", _bullets(notes(comparison))]
    if left_out:
        parts += ["## Left out", _bullets(f"{name}: {why}" for name, why in left_out.items())]
    parts += [f"![{name.removesuffix('.png').replace('_', ' ')}]({name})" for name in pictures]
    return "\n\n".join(parts) + "\n"


def comma_separated(comparison: Comparison) -> str:
    """compare.csv: every number of the tables, the profiles and the curves, one per row."""
    table: list[Sequence[object]] = [_HEADER]
    seeds = {row.arm: row.seeds for row in comparison.equal}
    for name, rows in (("equal", comparison.equal), ("absolute", comparison.absolute or ())):
        table += (_cells(name, row, comparison.at if name == "equal" else None) for row in _flat(rows))
    for name, statistic, lines in (("profile", "share above", comparison.profile), ("curve", "iqm", comparison.curve)):
        table += _points(name, statistic, lines, seeds)
    return csv_text(table)


def _settings(comparison: Comparison) -> Section:
    keys = list(dict.fromkeys(key for values in comparison.settings.values() for key in values))
    rows = tuple((arm, *(values.get(key, NONE) for key in keys)) for arm, values in comparison.settings.items())
    return Section("Settings that differ", ("arm", *keys), rows)


def _aggregates(title: str, rows: Sequence[ArmRow], usual: int) -> Section:
    header = ("arm", "seeds", "IQM", "mean", "median")
    gaps = rows[0].optimality_gap is not None
    digits = _digits((each for row in rows for each in (row.iqm, row.mean, row.median)), usual)
    cells = []
    for row in rows:
        estimates = [row.iqm, row.mean, row.median, *([row.optimality_gap] if row.optimality_gap else [])]
        cells.append(
            (
                row.arm,
                f"{row.seeds} *" if row.seeds < FEWEST else str(row.seeds),
                *(estimate_cell(estimate, digits) for estimate in estimates),
            )
        )
    return Section(title, (*header, "optimality gap") if gaps else header, tuple(cells), footnote=_footnote(cells))


def _against(title: str, rows: Sequence[ArmRow], usual: int) -> Section:
    header = ("arm", "difference in IQM", "probability of improvement", "by seed", "result")
    digits, shares = _digits((row.against.difference for row in rows if row.against), usual), Digits(2)
    cells = []
    for row in rows:
        assert row.against is not None
        difference = estimate_cell(row.against.difference, digits, sign=True)
        probabilities = (estimate_cell(each, shares) for each in (row.against.improvement, row.against.by_seed))
        cells.append((row.arm, difference, *probabilities, _verdict(row.against)))
    return Section(title, header, tuple(cells), footnote=_footnote(cells))


def _costs(comparison: Comparison) -> Section:
    rows = tuple(
        (cost.arm, str(cost.runs), f"{cost.env_steps:,.0f}", seconds(cost.seconds), money(cost.dollars))
        for cost in comparison.costs
    )
    return Section("Cost of a whole run, mean", ("arm", "runs", "steps", "seconds", "bill"), rows)


def _verdict(against: ArmContrast | None, start: str = "") -> str:
    assert against is not None
    if against.verdict == "cannot tell":
        return f"cannot tell with {counted(against.seeds, 'seed')}"
    return f"{start}{against.verdict}{' *' if against.seeds < FEWEST else ''}"


def _pairing(base: str, rows: Sequence[ArmRow]) -> str:
    explanation = (
        "The probability of improvement is that a run of the arm scores higher than a run of the first arm, over all"
        f" pairs of runs. The result needs {FEWEST_SEEDS} seeds of both arms, an interval of the difference without 0,"
        f" and an interval of the probability without 0.5. From {FEWEST} paired seeds on, the probability by seed"
        " decides."
    )
    if not (pairs := [row.arm for row in rows if row.against and row.against.same_seeds]):
        return f"{explanation} Seeds are not those of {base}, so nothing is paired."
    whose = "All arms have" if len(pairs) == len(rows) else f"{' and '.join(pairs)} {_HAVE[len(pairs) > 1]}"
    return f"{explanation} {whose} the seeds of {base}: the difference and the column by seed are paired by seed."


def _footnote(rows: Sequence[tuple[str, ...]]) -> str:
    return _FOOTNOTE if any(cell.endswith(" *") for row in rows for cell in row[1:]) else ""


def _digits(estimates: Iterable[Estimate], usual: int) -> Digits:
    return digits_of((value for estimate in estimates for value in (estimate.value, *(estimate.ci95 or ()))), usual)


def _flat(rows: Sequence[ArmRow]) -> Iterable[tuple[str, str, Estimate]]:
    for row in rows:
        yield from ((row.arm, name, getattr(row, name)) for name in ("iqm", "mean", "median"))
        if row.optimality_gap is not None:
            yield row.arm, "optimality gap", row.optimality_gap
        if row.against is not None:
            yield row.arm, "difference", row.against.difference
            yield row.arm, "probability of improvement", row.against.improvement
            if row.against.by_seed is not None:
                yield row.arm, "probability of improvement by seed", row.against.by_seed


def _cells(table: str, row: tuple[str, str, Estimate], at: float | None) -> tuple[object, ...]:
    arm, statistic, estimate = row
    low, high = estimate.ci95 or ("", "")
    return table, arm, statistic, "" if at is None else at, estimate.value, low, high, estimate.runs


def _points(table: str, statistic: str, lines: CurveBands, seeds: Mapping[str, int]) -> Iterable[tuple[object, ...]]:
    for arm, line in lines.y.items():
        for x, y, low, high in zip(lines.x, line, lines.low[arm], lines.high[arm], strict=True):
            yield table, arm, statistic, x, y, low, high, seeds[arm]


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"* {sentence}" for sentence in sentences)
