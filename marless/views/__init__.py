"""Views of a run while it trains: a live panel, lines of text, or JSON lines."""

from marless.output import can_redraw
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
