"""The view for pipes and files: one line per evaluation, and a receipt at the end."""

from coordinator.core.state import Plan, RoundLine
from marless.output import note, say
from marless.reports.digits import figure
from marless.reports.text import by_side, env_metrics, money, plus_minus, seconds
from marless.runs.summary import Summary
from marless.runs.view import View
from marless.views.receipt import receipt


class PlainView(View):
    """Lines of text on standard output; remarks on standard error."""

    def start(self, name: str, folder: str) -> None:
        say(f"run {name}")

    def round(self, plan: Plan, line: RoundLine) -> None:
        if line.evaluation is not None:
            say(evaluation_line(line))

    def remark(self, text: str) -> None:
        note(text)

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        say(*receipt(plan, summary, name, folder))


def evaluation_line(line: RoundLine) -> str:
    """One evaluation, with the steps, time and dollars used by then."""
    assert line.evaluation is not None
    sides = f"   {by_side(line.evaluation.side_returns)}" if line.evaluation.side_returns else ""
    custom = f"   {env_metrics(line.evaluation.env_metrics)}" if line.evaluation.env_metrics else ""
    mean = line.side_returns.get(line.evaluation.side, line.return_mean)
    sampled_text = "" if mean is None else f"{figure(mean):>8} sampled"
    greedy = f"{line.evaluation.side}, greedy" if line.evaluation.side else "greedy"
    speed = line.env_steps / line.seconds if line.seconds else 0.0
    return (
        f"round {line.evaluation.round:5d}  {line.evaluation.env_steps:11,d} steps"
        f"   return {plus_minus(line.evaluation.returns):>14s} ({greedy}){custom}{sampled_text}{sides}"
        f"   {speed:9,.0f} steps/s   {money(line.dollars)}   {seconds(line.seconds)}"
    )
