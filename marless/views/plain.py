"""The view for pipes and files: one line per evaluation, and a receipt at the end. After a long silence it shows the
progress."""

import time
from collections.abc import Callable

from marless.coordinator.core.round_graph import PHASES
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.output import note, say
from marless.reports.digits import figure
from marless.reports.text import by_side, env_metrics, evaluation_label, money, plus_minus, seconds
from marless.runs.summary import Summary
from marless.runs.view import EvaluationClock, TrainingSpeed, View, evaluation_under_way, run_title
from marless.views.receipt import receipt

# After so many seconds without a line, one says where the run stands.
_SILENCE_S = 30.0


class PlainView(View):
    """Lines of text on standard output. Remarks and progress go to standard error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._said_at = clock, clock()
        self._speed, self._evaluation_clock = TrainingSpeed(), EvaluationClock()
        self._unsaid_name = ""

    def start(self, name: str, folder: str) -> None:
        # A refused environment leaves no run of this name.
        self._unsaid_name = name
        self._said_at = self._clock()

    def notice(self, plan: Plan, state: State, seconds_so_far: float) -> None:
        """Prints the run's name once its environment is accepted, and where the run stands where nothing was said for
        `_SILENCE_S`."""
        now = self._clock()
        if self._unsaid_name and not PHASES[state.phase].sets_up:
            say(f"run {run_title(self._unsaid_name, plan)}")
            self._unsaid_name = ""
        evaluation = evaluation_under_way(plan, state)
        left = self._evaluation_clock.seconds_left(evaluation, now) if evaluation else None
        if now - self._said_at < _SILENCE_S:
            return
        self._said_at = now
        limit = f" of {plan.config.stop.rounds:,}" if plan.config.stop.rounds else ""
        under_way = f"{evaluation}{f', {seconds(left)} left' if left else ''}   " if evaluation else ""
        note(f"round {state.round:5d}{limit}   {under_way}{state.env_steps:,} steps   {seconds(seconds_so_far)}")

    def round(self, plan: Plan, line: RoundLine) -> None:
        self._speed.add(line)
        if line.evaluation is not None:
            say(evaluation_line(plan, line, self._speed.steps_per_second))
            self._said_at = self._clock()

    def remark(self, text: str) -> None:
        note(text)

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        say(*receipt(plan, summary, name, folder))


def evaluation_line(plan: Plan, line: RoundLine, speed: float) -> str:
    """Return a line about one evaluation, with the steps, time and dollars used by then. `speed` is the speed of
    training in steps a second, or 0 if it is unknown."""
    assert line.evaluation is not None
    sides = f"   {by_side(line.evaluation.side_returns)}" if line.evaluation.side_returns else ""
    custom = f"   {env_metrics(line.evaluation.env_metrics)}" if line.evaluation.env_metrics else ""
    mean = line.side_returns.get(line.evaluation.side, line.return_mean)
    speed_text = f"   {speed:9,.0f} steps/s" if speed else ""
    sampled_text = "" if mean is None else f"{figure(mean):>8} sampled"
    label = ", ".join(filter(None, (line.evaluation.side, evaluation_label(plan.config))))
    return (
        f"round {line.evaluation.round:5d}  {line.evaluation.env_steps:11,d} steps"
        f"   return {plus_minus(line.evaluation.returns):>14s} ({label}){custom}{sampled_text}{sides}"
        f"{speed_text}   {money(line.dollars)}   {seconds(line.seconds)}"
    )
