"""Views of a run while it trains: a live panel, lines of text, or JSON lines."""

from marless.output import OUTPUT
from marless.runs.view import View


def choose_view(json: bool) -> View:
    """JSON lines if `json` is set, a live panel on a terminal, lines of text otherwise."""
    if json:
        from marless.views.json_lines import JsonView

        return JsonView()
    if OUTPUT.isatty():
        from marless.views.terminal_panel import LiveView

        return LiveView()
    from marless.views.plain import PlainView

    return PlainView()
