"""The results of an ablation as files: table.md for people, table.json and results.csv for programs."""

from collections.abc import Mapping, Sequence

from marless.ablation.control_sentences import BOUNDS, percentage, probability, ratio_text, sentence
from marless.comparison.contrasts import LEVEL
from marless.comparison.finished_run import FinishedRun
from marless.comparison.paired_by_seed import MANY, TARGET_SHARE, AgainstBaseline, Control, Failures, PairedComparison
from marless.comparison.signal_savings import FACTOR
from marless.functions.function_specs import FUNCTIONS, PLACED
from marless.reports.digits import Digits, digits_of
from marless.reports.section import NONE, Section, estimate_cell, interval_cell
from marless.reports.statistics import FEWEST_SEEDS, Estimate
from marless.reports.text import csv_text, money
from marless.studies.cells import Value

_PARTS = {spec.name: spec.work for spec in FUNCTIONS} | {"requests": "requests", "storage": "storage"}
_NOT_IN_CSV = ("curve", "history", "plays")


def sections(table: PairedComparison) -> list[Section]:
    """The tables, the most important first."""
    digits = digits_of([item.returns["final"].value for item in table.comparisons])
    parts = [_main(table, digits), _equal_cost(table, digits), _rules(table), _bill(table)]
    parts += [_controls(table, digits)] if table.controls else []
    parts += [_headlines(table, digits)] if table.headlines else []
    plays = [name for name in table.comparisons[0].returns if name != "final"]
    return [*parts, _plays(table, plays)] if plays else parts


def markdown(
    title: str,
    table: PairedComparison,
    arms: Mapping[str, tuple[str, Mapping[str, Value]]],
    remarks: Sequence[str],
    pictures: Sequence[str],
) -> str:
    """table.md. `arms` maps names to descriptions and settings, `pictures` are files next to it."""
    parts = [f"# {title}", *remarks, *(part for section in sections(table) for part in section.markdown)]
    parts += [f"![{name.removesuffix('.png').replace('_', ' ')}]({name})" for name in pictures]
    bullets = [
        f"* **{name}**: {about}. `{' '.join(f'{key}={_text(value)}' for key, value in settings.items())}`"
        for name, (about, settings) in arms.items()
    ]
    return "\n\n".join([*parts, "## The arms", "\n".join(bullets)]) + "\n"


def failed_runs(failures: Failures) -> list[str]:
    """Return a paragraph that names each failed run and its reason, if there are failed runs."""
    lines = [f"* {arm}, seed {seed}: {why}" for arm, seeds in failures.items() for seed, why in seeds.items()]
    title = "These runs failed. They count as runs that did not reach the target:"
    return ["\n".join([title, "", *lines])] if lines else []


def comma_separated(results: Sequence[FinishedRun]) -> str:
    """results.csv: a row for every run."""
    names = [name for name in FinishedRun.__struct_fields__ if name not in _NOT_IN_CSV]
    plays = list(results[0].plays) if results else []
    rows = (
        [*(getattr(result, name) for name in names), result.functions, *(result.plays[name] for name in plays)]
        for result in results
    )
    return csv_text([[*names, "functions", *plays], *rows])


def _main(table: PairedComparison, digits: Digits) -> Section:
    header: tuple[str, ...] = (
        "arm",
        "runs",
        "return",
        "against baseline",
        "dollars",
        *(f"ratio of {name}" for name in ("dollars", "functions", "time")),
    )
    header += ("% of gain",) * (table.random is not None)
    rows = []
    for item in table.comparisons:
        ratios = [_ratio(item.ratios[name]) for name in ("dollars", "functions", "seconds")]
        cells = [
            item.arm,
            f"{item.runs} *" if item.runs < FEWEST_SEEDS else str(item.runs),
            _mean(item.returns["final"], digits),
            _difference(item.differences.get("final"), digits),
            money(item.means["dollars"]),
            *ratios,
        ]
        rows.append(_row(table, item, (3, 5, 6, 7, 8), [*cells, _difference(item.gain, Digits(1))][: len(header)]))
    statistic = (
        f"With {MANY} runs or more the value is the interquartile mean and the interval a bootstrap over runs;"
        " with fewer they are the mean (of ratios the geometric mean) and Student's t."
    )
    note = (
        f"Baseline: {table.baseline}. Return of the final policies, greedy, summed over agents: higher is better."
        " Ratios are to the baseline: dollars of training (AWS Lambda and S3), dollars of functions only (compute and"
        " requests, no storage), seconds of training. In brackets: 95 % intervals, paired by seed. An interval that"
        f" contains 0 (of a ratio: 1) shows no difference. {statistic}"
    )
    few = f"* below {FEWEST_SEEDS} seeds no arm can be told from the baseline"
    footnote = few if any(item.runs < FEWEST_SEEDS for item in table.comparisons) else ""
    return Section("Return and cost", header, tuple(rows), note, footnote=footnote)


def _equal_cost(table: PairedComparison, digits: Digits) -> Section:
    goal = digits.text(table.target)
    header = (
        "arm",
        "return at equal steps",
        "return at equal dollars",
        f"ratio of dollars to reach {goal}",
        "reached by",
    )
    rows = [
        _row(
            table,
            item,
            (1, 2, 3),
            [
                item.arm,
                _difference(item.differences.get("equal steps"), digits),
                _difference(item.differences.get("equal dollars"), digits),
                NONE if item.reach.ratio is None else BOUNDS[item.reach.bound] + _ratio(item.reach.ratio),
                f"{item.reach.reached} of {item.reach.runs}",
            ],
        )
        for item in table.comparisons
    ]
    compared = {item.arm for item in table.comparisons}
    missing = [(arm, seeds) for arm, seeds in table.failures.items() if arm not in compared]
    rows += [(arm, NONE, NONE, NONE, f"0 of {len(seeds)}") for arm, seeds in missing]
    start = "random play" if table.random is not None else "the baseline's first evaluation"
    note = (
        "Differences in return to the baseline at the end of the shorter (or cheaper) of the two runs."
        f" {goal} is {100 * TARGET_SHARE:.0f} % of the way from {start} to the baseline's final return; a run that"
        " never reaches it counts with all its dollars, so the ratio is a bound (≥ or ≤). A failed run counts as a run"
        " that does not reach it, and its arm has no ratio."
    )
    return Section("At equal cost", header, tuple(rows), note)


def _rules(table: PairedComparison) -> Section:
    names = {
        "rounds": (".0f", "rounds"),
        "env_steps": (",.0f", "environment steps"),
        "rollouts": (".1f", "rollouts per round"),
        "learners": (".1f", "learners per round"),
        "sharing": (".0%", "rounds with sharing"),
        "flips": (".1f", "switches"),
        "rejected": (".1f", "rejected by a trial"),
    }
    rows = [
        (item.arm, *(f"{item.means[name]:{form}}" for name, (form, _) in names.items())) for item in table.comparisons
    ]
    note = (
        "Means over runs. A learner is one invocation; sharing counts as on while any two agents have one network;"
        " switches turn it on or off."
    )
    return Section("Decisions of the rules", ("arm", *(title for _, title in names.values())), tuple(rows), note)


def _bill(table: PairedComparison) -> Section:
    # Functions that no arm has called have no columns.
    parts = [name for name in _PARTS if any(item.means[name] for item in table.comparisons)]
    placed = [name for name in PLACED if name in parts]
    rows = [
        (
            item.arm,
            *(money(item.means[name]) for name in parts),
            *(_ratio(item.ratios[name]) if item.arm != table.baseline else "1" for name in placed),
        )
        for item in table.comparisons
    ]
    header = ("arm", *(_PARTS[name] for name in parts), *(f"ratio of {_PARTS[name]}" for name in placed))
    note = "The bill of whole runs by part, with the final evaluation under evaluation; means over runs."
    return Section("The bill", header, tuple(rows), note)


def _plays(table: PairedComparison, plays: Sequence[str]) -> Section:
    rows = [
        _row(
            table,
            item,
            tuple(range(2, 2 * len(plays) + 1, 2)),
            [
                item.arm,
                *(
                    cell
                    for play in plays
                    for cell in (
                        _mean(item.returns[play], Digits(2)),
                        _difference(item.differences.get(play), Digits(2)),
                    )
                ),
            ],
        )
        for item in table.comparisons
    ]
    header = ("arm", *(title for play in plays for title in (play, "against baseline")))
    note = (
        "Return per agent of one side's final policies, greedy, while the other side plays at random or as the"
        " reference run does. The sum over agents means little where they compete: one side wins what the other loses."
    )
    return Section("Each side separately", header, tuple(rows), note)


def _controls(table: PairedComparison, digits: Digits) -> Section:
    goal = digits.text(table.target)
    header = (
        "control",
        "of",
        "seeds",
        f"ratio of dollars to reach {goal}",
        f"p of equality within {FACTOR}",
        "share of saving that is signal",
        "return",
        "ratio of rollouts",
    )
    rows = [
        (
            item.arm,
            item.tested,
            str(item.runs),
            _expense(item),
            probability(item).removeprefix("= "),
            _signal(item),
            _difference(item.difference, digits),
            _ratio(item.rollouts),
        )
        for item in table.controls
    ]
    note = (
        "Cost and return of an arm against its control, which is the same arm without the signal: a ratio below 1 is"
        f" a saving of the signal. Dollars to reach {goal} are counted as under At equal cost; ratios of them are"
        " geometric means, with 90 % intervals by Student's t. p is that of two paired one-sided tests (Schuirmann"
        f" 1987) for equal cost within a factor {FACTOR}: below 0.05 the costs are equal. They differ if the 90 %"
        " interval does not contain 1. The share is 1 - (saving of the control / saving of the arm), both of the"
        " baseline's dollars, with its 90 % interval; it is given only if the arm's own saving is significant, and is"
        " negative if the control saves more. Return (difference) and rollouts per round have 95 % intervals."
    )
    return Section(
        "Controls", header, tuple(rows), note, tuple(sentence(item, table.failures) for item in table.controls)
    )


def _headlines(table: PairedComparison, digits: Digits) -> Section:
    measures = {"return": "return", "dollars": "ratio of dollars", "reach": "ratio of dollars to the target"}
    rows = []
    for item in table.headlines:
        contrast, effect = item.contrast, None
        if item.value is not None:
            effect = Estimate(value=item.value, ci95=item.ci95, runs=item.runs)
        value = _difference(effect, digits) if contrast.measure == "return" else BOUNDS[item.bound] + _ratio(effect)
        p_values = (NONE, NONE) if item.p_value is None else (_p(item.p_value), _p(item.adjusted))
        result = "different" if item.adjusted < LEVEL and item.runs >= FEWEST_SEEDS else "not decided"
        measure = measures[contrast.measure]
        rows.append((contrast.arm, contrast.against, measure, str(item.runs), value, *p_values, result))
    header = ("arm", "against", "by", "seeds", "value", "p", "p, Holm", "result")
    note = (
        "The contrasts that were declared before the runs. In brackets: 95 % intervals, each for itself. p is that of"
        " the paired t-test, of ratios on logarithms; Holm's (1979) is corrected for all contrasts of this table: below"
        f" {LEVEL}, with {FEWEST_SEEDS} seeds or more, the two differ. A ratio that is a bound (≥ or ≤) is not"
        " tested and counts as p = 1."
    )
    return Section("Headlines", header, tuple(rows), note)


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "< 0.001"


def _expense(item: Control) -> str:
    if item.dollars is None:
        return NONE
    return BOUNDS[item.bound] + interval_cell(item.dollars.ratio, item.dollars.ci90, ratio_text)


def _signal(item: Control) -> str:
    if item.savings is None:
        return NONE
    return (
        f"{'≥ ' if item.bound == 'at most' else ''}{interval_cell(item.savings.signal, item.savings.ci90, percentage)}"
    )


def _row(table: PairedComparison, item: AgainstBaseline, columns: Sequence[int], cells: list[str]) -> tuple[str, ...]:
    """A row of cells, with `baseline` in the `columns` that compare with it in the row of the baseline itself."""
    if item.arm != table.baseline:
        return tuple(cells)
    return tuple("baseline" if column in columns else cell for column, cell in enumerate(cells))


def _mean(estimate: Estimate, digits: Digits) -> str:
    value = digits.text(estimate.value)
    return f"{value} ± {digits.text((estimate.ci95[1] - estimate.ci95[0]) / 2)}" if estimate.ci95 else value


def _difference(estimate: Estimate | None, digits: Digits) -> str:
    if estimate is not None and estimate.value == 0 and estimate.ci95 in (None, (0, 0)):
        return "the same"
    return estimate_cell(estimate, digits, sign=True)


def _ratio(estimate: Estimate | None) -> str:
    return NONE if estimate is None else interval_cell(estimate.value, estimate.ci95, ratio_text)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
