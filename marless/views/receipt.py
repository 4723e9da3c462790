"""The last lines of a run: its results, its cost, and how to play its policies."""

import shlex

from coordinator.core.state import Plan
from coordinator.placement.placement_rules import PLACEMENTS
from marless.program import program_name
from marless.reports.action_table import ActionTotals
from marless.reports.text import (
    by_side,
    counted,
    env_metrics,
    evaluation_label,
    learners_for,
    lost_attempts,
    money,
    plus_minus,
    seconds,
    with_interval,
)
from marless.runs.summary import Summary

_REASONS = {
    "rounds": "stop.rounds",
    "env_steps": "stop.env_steps",
    "seconds": "stop.seconds",
    "dollars": "stop.dollars",
    "return": "stop.return",
}


def receipt(plan: Plan, summary: Summary, name: str, folder: str) -> list[str]:
    """The lines that end `train` and `resume`; the last one is the folder."""
    pricing, lines = plan.config.pricing, _trained(plan, summary)
    if final := summary.final_return:
        of = f"sum over {_agents(summary)}, undiscounted, {evaluation_label(plan.config)}, {final.episodes:,} episodes"
        lines.append(_item("final return", f"{plus_minus(final)}   {of}"))
    if summary.final_env_metrics:
        lines.append(_item("", env_metrics(summary.final_env_metrics)))
    if summary.final_sides:
        lines.append(_item("sides", by_side(summary.final_sides)))
    if best := summary.absolute_return:
        which = "final policies" if best.round == summary.rounds else f"best policies (round {best.round})"
        text = f"{with_interval(best.mean, best.ci95)}   {which}, {best.episodes:,} episodes"
        lines.append(_item("absolute", text))
    if summary.absolute_env_metrics:
        lines.append(_item("", env_metrics(summary.absolute_env_metrics)))
    place = f"AWS Lambda ({pricing.architecture}, {pricing.region})"
    costs = "would cost" if plan.platform.cpu_scaling else "costs"
    placed_text = _placed_text(plan)
    lost_text = f", {lost_attempts(summary.attempts_lost)}" if summary.attempts_lost else ""
    lines += [_item("asked", _actions_text(name, actions)) for name, actions in summary.actions.items()]
    lines.append(
        _item("bill", f"{money(summary.dollars.total)}   what this {costs} on {place}{placed_text}{lost_text}")
    )
    if summary.reason == "dollars" and (cap := plan.config.stop.dollars):
        rest_text = "the rest was kept for the evaluations at the end, and for tasks that cost the most they can"
        lines.append(_item("cap", f"{money(cap)}   {rest_text}"))
    if summary.status == "finished":
        lines.append(_item("play it", f"{program_name()} evaluate {shlex.quote(name)}"))
    return [*lines, folder]


def _placed_text(plan: Plan) -> str:
    """The slots of this machine that learners were placed on, where their number changes the bill."""
    slots = plan.platform.concurrency
    by_slots = PLACEMENTS[plan.config.placement.rule].packs_groups(slots, plan.platform)
    return learners_for(slots) if by_slots else ""


def _trained(plan: Plan, summary: Summary) -> list[str]:
    limit, lag = _REASONS.get(summary.reason, ""), plan.config.pipeline.lag
    text = f"{counted(summary.rounds, 'round')}, {summary.env_steps:,} steps in {_duration(summary)}"
    lines = [_item("trained", text + (f" (until {limit})" if limit else ""))]
    if 0 < summary.rounds <= lag:
        lines.append(_item("", f"nothing was learned: the first to learn is round {lag + 1} (pipeline.lag={lag})"))
    return lines


def _actions_text(name: str, actions: ActionTotals) -> str:
    hits = f", {counted(actions.hits, 'hit')}" if actions.hits else ""
    billed = f"{seconds(actions.seconds)} billed, {money(actions.dollars)}"
    return f"{name}: {counted(actions.count, 'action')}{hits}, {billed}"


def _duration(summary: Summary) -> str:
    """The seconds of training, and those of the evaluations after it where they are more than a tenth."""
    after_s = summary.final_seconds
    if after_s < summary.train_seconds / 10:
        return seconds(summary.train_seconds)
    return f"{seconds(summary.train_seconds - after_s)}, and {seconds(after_s)} of evaluations after them"


def _agents(summary: Summary) -> str:
    return f"agents of side {summary.side}" if summary.side else "agents"


def _item(label: str, text: str) -> str:
    return f"{label:<14}{text}"
