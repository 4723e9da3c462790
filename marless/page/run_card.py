"""A run in Python and notebooks: in a line, and as a few figures next to its curve, in HTML without scripts."""

from collections.abc import Iterator

from marless.page import facts as run_facts
from marless.page.chart import Size, chart
from marless.page.facts import Facts
from marless.page.markup import Html, element, join, picture
from marless.page.run_charts import evaluations, return_lines
from marless.page.run_section import headline
from marless.reports import journal
from marless.reports.text import counted, evaluation_label, money, plus_minus, seconds, with_interval
from marless.runs import summary as summaries
from marless.runs.folder import METRICS, RunFolder
from marless.runs.summary import Summary

_SIZE = Size(440, 210, 160)
# The picture is a separate image, so that the styles of the notebook and the picture never mix.
_STYLE = (
    "<style>svg{background:#fff;--c:#1f5fa8}text{font:12px sans-serif;fill:#5d6771}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.rule{stroke:#d9dee3}polyline{fill:none;stroke:var(--c);stroke-width:1.8}"
    "polyline.faint{opacity:.5}.band{fill:var(--c);opacity:.16}circle{fill:var(--c)}"
    ".c1{--c:#c4511b}.c2{--c:#2a8557}.c3{--c:#8650a6}.c4{--c:#a87b00}.c5{--c:#2f8fae}.c6{--c:#b13c6c}.c7{--c:#6a6f75}"
    "</style>"
)
_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"


def line(folder: RunFolder) -> str:
    """Return the run's status in a few words. Raises the errors of reading its files."""
    if (summary := summaries.read(folder)) is None:
        rounds = journal.read(folder.path / METRICS)
        return f"{_standing(folder, None)}, {counted(len(rounds), 'round')}, no evaluation yet"
    final = f", return {plus_minus(summary.final_return)}" if summary.final_return else ""
    return f"{_standing(folder, summary)}, {counted(summary.rounds, 'round')}{final}, {money(summary.dollars.total)}"


def card(folder: RunFolder) -> Html:
    """The card of a run with a finished round. Raises `UserError` without one, and the errors of reading its files."""
    facts = run_facts.read(folder)
    rows = join(
        element("tr", element("td", name, style=f"{_CELL};opacity:.7"), element("td", value, style=_CELL))
        for name, value in _rows(folder, facts)
    )
    about = element("div", headline(facts), style="opacity:.7")
    figures = element("div", element("b", facts.name), about, element("table", element("tbody", rows)))
    return element("div", figures, _curve(facts), style="display:flex;flex-wrap:wrap;gap:8px 28px")


def _rows(folder: RunFolder, facts: Facts) -> Iterator[tuple[str, str]]:
    summary, last = facts.summary, facts.lines[-1]
    reason = f" ({summary.reason})" if summary and summary.reason else ""
    yield "status", f"{_standing(folder, summary)}{reason}"
    yield "trained", f"{counted(last.round, 'round')}, {last.env_steps:,} steps in {seconds(last.seconds)}"
    if summary and summary.final_return:
        episodes = f"{counted(summary.final_return.episodes, 'episode')}, {evaluation_label(facts.config)}"
        yield "final return", f"{plus_minus(summary.final_return)}, {episodes}"
    elif evaluated := evaluations(facts):
        yield "return", f"{plus_minus(evaluated[-1].returns)}, after round {evaluated[-1].round:,}"
    if summary and (best := summary.absolute_return):
        yield "absolute", f"{with_interval(best.mean, best.ci95)}, policies of round {best.round:,}"
    yield "bill", f"{money(summary.dollars.total if summary else last.dollars)} on AWS Lambda"


def _curve(facts: Facts) -> Html:
    lines = return_lines(facts)
    if not any(len(each.x) for each in lines):
        return Html("")
    svg = chart("Return", lines, "steps", _SIZE)
    size = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIZE.width}" height="{_SIZE.height}" '
    body = svg.replace("<svg ", size, 1).replace("</title>", f"</title>{_STYLE}", 1)
    note = "return over environment steps: evaluations with their 95 % intervals, and, pale, while training"
    caption = element("div", note, style="font-size:small;opacity:.7")
    return element("div", picture(body.encode(), "image/svg+xml", note), caption, style=f"max-width:{_SIZE.width}px")


def _standing(folder: RunFolder, summary: Summary | None) -> str:
    """The run's status. A run of this machine that says `running` was killed if no process drives it."""
    if summary is not None and summary.status != "running":
        return summary.status
    is_driven = folder.identity().deployment_ref is not None or folder.driven()
    return "running" if is_driven else "interrupted"
