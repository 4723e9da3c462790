"""The view for terminals and notebooks: a panel that is redrawn a few times a second."""

import sys
import termios
import time
from contextlib import suppress
from typing import Any

import msgspec
from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from marless.coordinator.core.budget import kept_for_end
from marless.coordinator.core.round_graph import PHASES
from marless.coordinator.core.state import Evaluated, Plan, RoundLine, State
from marless.output import say, visible_line
from marless.reports.digits import figure
from marless.reports.text import by_side, env_metrics, evaluation_label, money, plus_minus, seconds, sparkline
from marless.runs import view
from marless.runs.summary import Summary
from marless.views.receipt import receipt
from marless.views.surface import Surface

# Drawing takes milliseconds. This interval keeps its cost negligible.
_REDRAW_S = 0.25
_WIDTH = 84


class LiveView(view.View):
    """A panel on a terminal, or below a notebook's cell."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._name = self._title = ""
        self._drawn = 0.0
        self._line: RoundLine | None = None
        self._evaluated: Evaluated | None = None
        self._means: list[float] = []
        self._remark = ""
        self._state: State | None = None
        self._elapsed = 0.0
        self._terminal: list[Any] | None = None
        self._speed, self._evaluation_clock = view.TrainingSpeed(), view.EvaluationClock()

    def start(self, name: str, folder: str) -> None:
        self._name = name
        self._terminal = _without_echo_of_control()
        self._surface.start()

    def notice(self, plan: Plan, state: State, seconds_so_far: float) -> None:
        now = time.monotonic()
        self._title = self._title or view.run_title(self._name, plan)
        self._elapsed, self._state = seconds_so_far, state
        if now - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._surface.draw(self._panel(plan, state, seconds_so_far))

    def round(self, plan: Plan, line: RoundLine) -> None:
        self._line = line
        self._speed.add(line)
        if line.evaluation is not None:
            self._evaluated = line.evaluation
            self._means.append(line.evaluation.mean)

    def remark(self, text: str) -> None:
        self._remark = text
        self._drawn = 0.0

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        """Prints the receipt below the panel."""
        if self._state is not None:
            end_state = msgspec.structs.replace(self._state, round=summary.rounds, phase="round")
            self._surface.draw(self._panel(plan, end_state, self._elapsed))
        self.close()
        *lines, last = receipt(plan, summary, name, folder)
        self._surface.print(*(Text(visible_line(line[:14]), "dim") + Text(visible_line(line[14:])) for line in lines))
        say(last)

    def close(self) -> None:
        """Restores the terminal."""
        # A refused run leaves no empty panel above the reason.
        self._surface.stop(keep=self._line is not None)
        if self._terminal is not None:
            with suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._terminal)
            self._terminal = None

    def _panel(self, plan: Plan, state: State, seconds_so_far: float) -> Panel:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        for label, content in self._rows(plan, state, seconds_so_far):
            grid.add_row(label, content)
        body = Group(grid, Text(visible_line(self._remark), "yellow")) if self._remark else grid
        title = Text(visible_line(self._title), "bold")
        return Panel(body, title=title, title_align="left", width=min(_WIDTH, self._surface.width), padding=(0, 1))

    def _rows(self, plan: Plan, state: State, seconds_so_far: float) -> list[tuple[str, Text | Table]]:
        line, stop = self._line, plan.config.stop
        goes_on = state.status == "running"
        kept_dollars = float(kept_for_end(plan, state)) if goes_on else 0.0
        bar = Table.grid(padding=(0, 2))
        limit = f" of {stop.rounds:,}" if stop.rounds is not None else ""
        share = view.progress(stop, line, kept_dollars) if line else 0.0
        bar.add_row(
            ProgressBar(total=1.0, completed=share, width=30, complete_style="green", finished_style="green"),
            f"{state.round:,}{limit}",
            PHASES[state.phase].doing,
        )
        rows: list[tuple[str, Text | Table]] = [("rounds", bar), *self._evaluation(plan, state)]
        rows += [("return", self._returns(plan)), *self._beside_return()]
        if line is not None:
            speed = self._speed.steps_per_second
            speed_text = f"{speed:,.0f} env steps/s   " if speed else ""
            rows += [
                ("sampled", _sampled_returns(line)),
                ("speed", Text(f"{speed_text}{line.env_steps:,} steps")),
                ("per round", Text(f"{_count(line.rollouts, 'actor')}   {_count(line.learners, 'learner')}")),
                ("bill", _bill(line.dollars, stop.dollars, kept_dollars)),
            ]
        remaining_s = (
            view.seconds_left(stop, line, kept_dollars) if line and goes_on and state.phase == "round" else None
        )
        rows.append(
            ("time", Text(seconds(seconds_so_far) + ("" if remaining_s is None else f"   {seconds(remaining_s)} left")))
        )
        return rows

    def _evaluation(self, plan: Plan, state: State) -> list[tuple[str, Text | Table]]:
        if (evaluation := view.evaluation_under_way(plan, state)) is None:
            return []
        left = self._evaluation_clock.seconds_left(evaluation, time.monotonic())
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=evaluation.total, completed=evaluation.over, width=30, complete_style="green"),
            f"{evaluation.over:,} of {evaluation.total:,}" + ("" if left is None else f", {seconds(left)} left"),
        )
        return [("episodes", bar)]

    def _returns(self, plan: Plan) -> Text:
        if self._evaluated is None:
            return Text("no evaluation yet", "dim")
        text = Text(plus_minus(self._evaluated.returns), "bold green")
        side = f"{visible_line(self._evaluated.side)}, " if self._evaluated.side else ""
        text.append(f"  {side}{visible_line(evaluation_label(plan.config))}, round {self._evaluated.round:,}  ", "dim")
        return text.append(sparkline(self._means), "green")

    def _beside_return(self) -> list[tuple[str, Text]]:
        rows: list[tuple[str, Text]] = []
        if self._evaluated is not None and self._evaluated.env_metrics:
            rows.append(("", Text(visible_line(env_metrics(self._evaluated.env_metrics)))))
        if self._evaluated is not None and self._evaluated.side_returns:
            rows.append(("sides", Text(visible_line(by_side(self._evaluated.side_returns)))))
        return rows


def _without_echo_of_control() -> list[Any] | None:
    """Keep the terminal from echoing ^C into the panel. Returns its previous settings, or None."""
    try:
        before = termios.tcgetattr(sys.stdin)
        settings = termios.tcgetattr(sys.stdin)
        settings[3] &= ~termios.ECHOCTL
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
    except (AttributeError, OSError, TypeError, ValueError, termios.error):
        return None
    return before


def _sampled_returns(line: RoundLine) -> Text:
    if line.return_mean is None:
        return Text("no episode ended", "dim")
    spread = "" if line.return_sd is None else f" (spread {figure(line.return_sd)})"
    return Text(f"{figure(line.return_mean)}{spread}")


def _bill(dollars: float, cap: float | None, kept_dollars: float) -> Text:
    limit = "" if cap is None else f" of {money(cap)}"
    kept_text = f", {money(kept_dollars)} kept for the end" if kept_dollars else ""
    return Text(f"{money(dollars)}{limit}{kept_text}   on AWS Lambda")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
