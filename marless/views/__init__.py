"""Views of a run while it trains: a live panel, lines of text, or JSON lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marless.output import can_redraw, notebook_display, visible_line
from marless.runs.view import View


def choose_view(json: bool) -> View:
    """JSON lines if `json` is set, a live panel on a terminal and in a notebook, lines of text otherwise."""
    if json:
        from marless.views.json_lines import JsonView

        return JsonView()
    if can_redraw():
        from marless.views.surface import live_surface
        from marless.views.terminal_panel import LiveView

        return LiveView(live_surface())
    from marless.views.plain import PlainView

    return PlainView()


@contextmanager
def cell_progress() -> Iterator[Callable[[str], None]]:
    """Give a function that shows a call's progress below a notebook's cell. Elsewhere it shows nothing."""
    if (display := notebook_display()) is None:
        yield lambda text: None
        return
    from rich.text import Text

    from marless.views.surface import NotebookCell

    cell = NotebookCell(display)
    try:
        yield lambda text: cell.draw(Text(visible_line(text)))
    finally:
        cell.stop(keep=False)
