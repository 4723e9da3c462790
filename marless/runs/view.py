"""The interface of views, which show a run while it trains."""

from coordinator.config.schema import Stop
from coordinator.core.state import Plan, RoundLine, State
from marless.runs.summary import Summary


class View:
    """Shows a run; this one shows nothing."""

    def start(self, name: str, folder: str) -> None:
        """The run begins, or goes on."""

    def notice(self, plan: Plan, state: State, seconds_so_far: float) -> None:
        """Called after every decision; must be cheap."""

    def round(self, plan: Plan, line: RoundLine) -> None:
        """Called once for every new round."""

    def remark(self, text: str) -> None:
        """Tasks did something to their processes."""

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        """The run finished or stopped; no further call but `close` follows."""

    def close(self) -> None:
        """Restores the terminal; may be called twice."""


def progress(stop: Stop, line: RoundLine) -> float:
    """The used share of the nearest limit, 0 to 1; a target return does not count, since it may never be reached."""
    shares = [
        amount / limit
        for amount, limit in (
            (line.round, stop.rounds),
            (line.env_steps, stop.env_steps),
            (line.seconds, stop.seconds),
            (line.dollars, stop.dollars),
        )
        if limit
    ]
    return min(1.0, max(shares, default=0.0))


def seconds_left(stop: Stop, line: RoundLine) -> float | None:
    """Estimated seconds of training until the nearest limit; None without a limit."""
    share = progress(stop, line)
    return line.seconds * (1 - share) / share if share else None
