"""Network sharing by round, as SVG: a row for every agent, a colour for every group."""

from collections.abc import Iterator, Sequence

from marless.coordinator.core.state import RoundLine
from marless.page import axis_numbers
from marless.page.chart import COLOURS
from marless.page.markup import Html, element, html, join

# Nobody can tell more rows apart.
MOST_AGENTS = 48
_WIDTH, _LEFT, _ROW, _FOOT = 460.0, 96.0, 18.0, 22.0
# Space that the name of a group needs.
_NAME_WIDTH = 30.0


def spans(lines: Sequence[RoundLine], agent: int) -> Iterator[tuple[int, int, int]]:
    """First round, last round and group, for as long as an agent stays in one."""
    start = 0
    for position, line in enumerate(lines):
        after = lines[position + 1] if position + 1 < len(lines) else None
        if after is None or after.team[agent] != line.team[agent]:
            yield lines[start].round, line.round, line.team[agent]
            start = position + 1


def strip(lines: Sequence[RoundLine], agents: Sequence[str]) -> Html:
    """The rounds from left to right, or '' if no round records its groups."""
    if not (team_lines := [line for line in lines if len(line.team) == len(agents)]):
        return Html("")
    first, last = team_lines[0].round, team_lines[-1].round
    unit = (_WIDTH - _LEFT - 12) / (last - first + 1)
    rows = [
        join([_name(row, name), *(_span(row, name, first, unit, span) for span in spans(team_lines, row))])
        for row, name in enumerate(agents[:MOST_AGENTS])
    ]
    bottom = len(rows) * _ROW
    places = [value for value in axis_numbers.ticks(first - 1, last, whole=True) if value >= first]
    along = [_tick(_LEFT + (value - first + 0.5) * unit, bottom, value) for value in places]
    title = element("title", "Groups of agents that share networks, by round")
    return Html(
        f'<svg class="chart strip" viewBox="0 0 {_WIDTH:g} {bottom + _FOOT:g}" role="img">'
        f"{join([title, *rows, *along])}</svg>"
    )


def _tick(x: float, bottom: float, value: float) -> Html:
    return Html(f'<text class="middle" x="{x:.1f}" y="{bottom + 15:g}">{value:,.0f}</text>')


def _name(row: int, name: str) -> Html:
    short = name if len(name) <= 14 else f"{name[:13]}…"
    return Html(f'<text class="end" x="{_LEFT - 6:g}" y="{row * _ROW + 13:g}">{html(short)}</text>')


def _span(row: int, name: str, first: int, unit: float, span: tuple[int, int, int]) -> Html:
    first_round, last_round, group = span
    x, width = _LEFT + (first_round - first) * unit, (last_round - first_round + 1) * unit
    label = f"g{group:02d}"
    tooltip = f"{name}, rounds {first_round:,} to {last_round:,}: network {label}"
    inside = f'<text class="inside" x="{x + 5:.1f}" y="{row * _ROW + 13:g}">{label}</text>'
    return Html(
        f'<rect class="fill c{group % COLOURS}" x="{x:.1f}" y="{row * _ROW + 1:g}" width="{width:.1f}"'
        f' height="{_ROW - 2:g}">{element("title", tooltip)}</rect>{inside if width > _NAME_WIDTH else ""}'
    )
