"""The sections of a comparison: curves of the arms, their tables, and the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marless.comparison import score_tables as tables
from marless.comparison.arms_of_runs import ComparedArm
from marless.comparison.comparison import Comparison, CurveBands
from marless.comparison.run_evaluations import Axis, ComparedRun
from marless.page import axis_numbers
from marless.page.chart import COLOURS, ChartLine, Size, figure, frame_of, points
from marless.page.facts import Facts
from marless.page.markup import Html, bullets, element, html, join, table
from marless.page.run_section import headline, section, status, tabs_by_axis
from marless.reports.text import counted, money, seconds

_SPARK = Size(90, 22)
# Sections of runs on a page. More would be unfolded rarely, and each takes a moment to read and to draw.
MOST_SECTIONS = 32
# The first characters of a number in a table.
_NUMBERS = "+-0123456789$"


@dataclass(frozen=True)
class Compared:
    """A comparison with the arms' curves by axis, the facts of the first runs, with a section for each, and why runs
    are left out."""

    comparison: Comparison
    arms: Sequence[ComparedArm]
    curves: Mapping[Axis, Mapping[str, CurveBands]]
    facts: Sequence[Facts]
    left_out: Mapping[str, str]


def overview(compared_runs: Compared) -> Html:
    """The comparison itself: distinguishable arms, curves with bands, tables."""
    sentences = tables.conclusions(compared_runs.comparison)
    parts = [element("h2", "Can they be told apart?"), bullets(sentences)] if sentences else []
    parts += [element("h2", "Learning curves"), tabs_by_axis(curves(compared_runs), "arms")]
    for each in tables.sections(compared_runs.comparison):
        numeric = [at for at in range(1, len(each.header)) if all(row[at][:1] in _NUMBERS for row in each.rows)]
        rows = [(element("b", row[0]), *row[1:]) for row in each.rows]
        footnote = element("p", each.footnote, class_="note") if each.footnote else Html("")
        parts += [element("h2", each.title), table(each.header, rows, numeric), footnote]
    how = bullets(tables.notes(compared_runs.comparison))
    parts.append(element("details", element("summary", "How to read this"), how))
    return join(parts)


def curves(compared_runs: Compared) -> dict[Axis, Html]:
    """The arms' curves with their bands, by axis."""
    measure = tables.measured(compared_runs.comparison).capitalize()
    note = "interquartile mean over seeds, greedy, with 95 % bootstrap bands; as far as all runs of the arm came"
    panels: dict[Axis, Html] = {}
    for axis, by_arm in compared_runs.curves.items():
        arms = [
            ChartLine(name, curve.x, curve.y[name], curve.low[name], curve.high[name], colour=position % (2 * COLOURS))
            for position, name in enumerate(arm.name for arm in compared_runs.arms)
            if (curve := by_arm.get(name))
        ]
        panels[axis] = figure(measure, note, arms, axis, Size(600, 290))
    return {axis: panel for axis, panel in panels.items() if panel}


def runs_table(compared_runs: Compared, anchors: Mapping[str, str]) -> Html:
    """Every run with its figures, and a link to its section where the page has one."""
    names = short_names(compared_runs)
    rows = [
        _run_row(run, names[run.name], arm.name, anchors.get(run.name, ""))
        for arm in compared_runs.arms
        for run in arm.every_run
    ]
    header = ("run", "arm", "seed", "final return", "curve", "steps", "training", "bill", "status")
    reasons = [f"{name}: {why}" for name, why in compared_runs.left_out.items()]
    more = join([element("p", "Left out:"), bullets(reasons)]) if reasons else Html("")
    return join([element("h2", "Runs", id="runs"), table(header, rows, (2, 5, 6, 7)), more])


def run_sections(compared_runs: Compared, points_of_line: int, budget: int) -> tuple[Html, dict[str, str]]:
    """As many sections of the first runs as `budget` characters hold, and their anchors. The others are counted."""
    parts: list[Html] = []
    anchors: dict[str, str] = {}
    names = short_names(compared_runs)
    for position, run in enumerate(compared_runs.facts, start=1):
        anchor = f"run-{position}"
        section = _fold(run, names[run.name], anchor, points_of_line)
        if len(section) > budget:
            break
        budget -= len(section)
        parts.append(section)
        anchors[run.name] = anchor
    without = len(names) - len(parts)
    text = f"{counted(without, 'run')} without a section, for the page to stay small: see marless report RUN."
    note = element("p", text, class_="note") if without else Html("")
    return join([element("h2", "Run by run"), *parts, note]), anchors


def short_names(compared_runs: Compared) -> dict[str, str]:
    """By name, the page's name of a run: the name without folders, if all runs then differ."""
    short = {run.name: run.name.rpartition("/")[2] for arm in compared_runs.arms for run in arm.every_run}
    return short if len({*short.values()}) == len(short) else {name: name for name in short}


def _fold(run: Facts, name: str, anchor: str, points_of_line: int) -> Html:
    title = element("summary", element("b", name), " ", element("span", headline(run)))
    back = element("p", element("a", "All runs", href="#runs"))
    return element("details", title, section(run, anchor, 3, points_of_line, whole=False), back, class_="run")


def _run_row(run: ComparedRun, name: str, arm: str, anchor: str) -> Sequence[object]:
    summary = run.summary
    # Runs of files of marl-eval have no page.
    assert summary is not None
    final = axis_numbers.interval(summary.final_return.mean, summary.final_return.ci95) if summary.final_return else "-"
    return (
        element("a", name, href=f"#{anchor}") if anchor else name,
        arm,
        str(run.seed),
        final,
        sparkline(run),
        f"{summary.env_steps:,}",
        seconds(summary.train_seconds),
        money(summary.dollars.total),
        status(summary),
    )


def sparkline(run: ComparedRun) -> Html:
    """The evaluations as a line without axes."""
    every = max(1, len(run.curve.returns) // 45)
    line = ChartLine("", run.curve.used["steps"][::every].tolist(), run.curve.returns[::every].tolist())
    if len(line.x) < 2:
        return Html("")
    whole = frame_of([line], _SPARK)
    frame = type(whole)(whole.x, whole.y, 1, _SPARK.width - 1, 1, _SPARK.height - 1)
    text = f"Evaluations of {run.name}"
    return Html(
        f'<svg class="spark" viewBox="0 0 {_SPARK.width} {_SPARK.height}" role="img" aria-label="{html(text)}">'
        f'<polyline class="c0" points="{points(line, frame)}"/></svg>'
    )
