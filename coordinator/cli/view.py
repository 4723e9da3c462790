"""What a user sees of a run while it goes on: the interface of the views, what they show, and the choice of one."""

import os
import sys
from typing import Protocol

from coordinator.cli.summary import Summary
from coordinator.config import Stop
from coordinator.state import Plan, RoundLine, State


class View(Protocol):
    """Shows a run. `notice` is called after every decision and must be cheap; `round` once for every new round."""

    def started(self, name: str, folder: str) -> None: ...

    def notice(self, plan: Plan, state: State, elapsed: float) -> None: ...

    def round(self, plan: Plan, line: RoundLine) -> None: ...

    def remark(self, text: str) -> None: ...

    def ended(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        """The run finished, or stopped; nothing follows."""

    def close(self) -> None:
        """Gives the terminal back as it was; calling it twice is harmless."""


def choose(json: bool) -> View:
    """JSON lines where a machine asked for them, a live panel on a terminal, lines of text otherwise."""
    if json:
        from coordinator.cli.view_json import JsonView

        return JsonView()
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from coordinator.cli.view_live import LiveView

        return LiveView()
    from coordinator.cli.view_plain import PlainView

    return PlainView()


def progress(stop: Stop, line: RoundLine) -> float:
    """How much of the nearest limit is used, 0 to 1; a target return does not count, nobody knows when it is met."""
    shares = [
        used / limit
        for used, limit in (
            (line.round, stop.rounds),
            (line.env_steps, stop.env_steps),
            (line.seconds, stop.seconds),
            (line.dollars, stop.dollars),
        )
        if limit
    ]
    return min(1.0, max(shares, default=0.0))


def seconds_left(stop: Stop, line: RoundLine) -> float | None:
    """Seconds of training until the nearest limit at the speed so far; None without a limit."""
    share = progress(stop, line)
    return line.seconds * (1 - share) / share if share else None
