"""The whole page: style, content and script in one file that loads nothing."""

from collections.abc import Sequence
from pathlib import Path

from marless.comparison import score_tables as tables
from marless.page.comparison_section import Compared, overview, run_sections, runs_table
from marless.page.facts import Facts
from marless.page.markup import Html, element, html, join
from marless.page.run_section import headline, section, status
from marless.reports.text import counted

# Characters of all sections of runs. A page of 5 MB opens in a second or two.
BUDGET = 4_200_000
# Points of a line: where many runs share a page each has fewer.
_MOST_POINTS, _FEWEST_POINTS, _POINTS_OF_ALL = 240, 60, 1_200
# A browser may load only the page's own content.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def run_page(facts: Facts, written_by: str) -> str:
    """The page of one run."""
    head = join([element("h1", facts.name), element("p", f"{headline(facts)}; {status(facts.summary)}", class_="lead")])
    return _report(facts.name, join([head, section(facts, "run", 2, _MOST_POINTS)]), written_by)


def comparison_page(compared_runs: Compared, written_by: str) -> str:
    """The page of several runs."""
    runs = sum(len(arm.every_run) for arm in compared_runs.arms)
    title = f"{counted(len(compared_runs.arms), 'arm')}, {counted(runs, 'run')}"
    sections, anchors = run_sections(compared_runs, points_of(len(compared_runs.facts)), BUDGET)
    lead = element("p", f"{tables.headline(compared_runs.comparison)}.", class_="lead")
    body = [element("h1", title), lead, overview(compared_runs), runs_table(compared_runs, anchors), sections]
    return _report(title, join(body), written_by)


def points_of(runs: int) -> int:
    """The most points of a line where so many runs have sections."""
    return max(_FEWEST_POINTS, min(_MOST_POINTS, _POINTS_OF_ALL // runs))


def document(title: str, body: Html, end: str = "") -> str:
    """A whole page: head, style sheet, `body`, and `end` below it."""
    head: Sequence[str] = (
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{html(title)} - MARLess</title>",
        f"<style>\n{_beside('page.css')}</style>",
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{"".join(head)}\n</head>\n'
        f"<body>\n<main>{body}</main>\n{end}</body>\n</html>\n"
    )


def _report(title: str, body: Html, written_by: str) -> str:
    foot = element("footer", f"marless report. {written_by}")
    return document(title, body, f"{foot}\n<script>\n{_beside('page.js')}</script>\n")


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
