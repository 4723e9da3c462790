"""The last lines of a run: its results, its cost, and how to play its policies."""

import shlex
import textwrap
from collections.abc import Iterator
from typing import Any

from marless.coordinator.core.state import Plan
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.program import program_name
from marless.reports.call_table import CallTotals
from marless.reports.text import (
    by_side,
    counted,
    env_metrics,
    evaluation_label,
    learners_for,
    money,
    plus_minus,
    seconds,
    with_interval,
)
from marless.runs.summary import Summary

_LABEL, _WIDTH = 14, 80
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
_REASONS = {
    "rounds": "stop.rounds",
    "env_steps": "stop.env_steps",
    "seconds": "stop.seconds",
    "dollars": "stop.dollars",
    "return": "stop.return",
}


def receipt(plan: Plan, summary: Summary, name: str, folder: str) -> list[str]:
    """Return the lines that end `train` and `resume`. The last line is the folder."""
    lines = [line for item in (*_trained(plan, summary), *_results(plan, summary)) for line in _wrapped(*item)]
    lines += [line for item in _costs(plan, summary) for line in _wrapped(*item)]
    if summary.status == "finished":
        lines.append(f"{'play it':<{_LABEL}}{program_name()} evaluate {shlex.quote(name)}")
    return [*lines, folder]


def _results(plan: Plan, summary: Summary) -> Iterator[tuple[str, str]]:
    if final := summary.final_return:
        of = (
            f"sum over agents{f' of side {summary.side}' if summary.side else ''}, undiscounted,"
            f" {evaluation_label(plan.config)}, {final.episodes:,} episodes"
        )
        yield "final return", f"{plus_minus(final)}   {of}"
    if summary.final_env_metrics:
        yield "", env_metrics(summary.final_env_metrics)
    if summary.final_sides:
        yield "sides", by_side(summary.final_sides)
    if best := summary.absolute_return:
        which = "final policies" if best.round == summary.rounds else f"best policies (round {best.round})"
        yield "absolute", f"{with_interval(best.mean, best.ci95)}   {which}, {best.episodes:,} episodes"
    if summary.absolute_env_metrics:
        yield "", env_metrics(summary.absolute_env_metrics)


def _costs(plan: Plan, summary: Summary) -> Iterator[tuple[str, str]]:
    pricing, dollars = plan.config.pricing, summary.dollars.total
    yield from (("asked", _actions_text(name, actions)) for name, actions in summary.actions.items())
    costs = "would cost" if plan.platform.cpu_scaling else "costs"
    place, price = f"AWS Lambda ({pricing.architecture}, {pricing.region})", summary.cloud_dollars
    if price is None:
        yield "bill", f"{money(dollars)}   what this {costs} on {place}{_placed_text(plan)}"
    else:
        yield "bill", f"{money(price)}   what this would cost on {place}, placed for the fewest dollars"
        yield "", f"{money(dollars)}   what stop.dollars caps{_placed_text(plan) or ', as it was placed here'}"
    if busy_text := summary.machine.busy_text:
        yield "", f"{busy_text}: a quiet machine needs fewer seconds and dollars"
    if lost_text := str(summary.lost):
        yield "lost", lost_text
    if summary.reason == "dollars" and (cap := plan.config.stop.dollars):
        rest_text = "the rest was kept for the evaluations at the end, and for tasks that cost the most they can"
        yield "cap", f"{money(cap)}   {rest_text}"


def _placed_text(plan: Plan) -> str:
    slots = plan.platform.concurrency
    by_slots = PLACEMENTS[plan.config.placement.rule].packs_groups(slots, plan.platform)
    return learners_for(slots) if by_slots else ""


def _trained(plan: Plan, summary: Summary) -> Iterator[tuple[str, str]]:
    limit, lag = _REASONS.get(summary.reason, ""), plan.config.pipeline.lag
    text = f"{counted(summary.rounds, 'round')}, {summary.env_steps:,} steps in {_duration(summary)}"
    yield "trained", text + (f" (until {limit})" if limit else "")
    if 0 < summary.rounds <= lag:
        yield "", f"nothing was learned: learning begins in round {lag + 1} (pipeline.lag={lag})"


def _actions_text(name: str, actions: CallTotals) -> str:
    hits = f", {counted(actions.hits, 'hit')}" if actions.hits else ""
    billed = f"{seconds(actions.seconds)} billed, {money(actions.dollars)}"
    return f"{name}: {counted(actions.count, 'action')}{hits}, {billed}"


def _duration(summary: Summary) -> str:
    """Return the seconds of training, and of later evaluations if they are more than a tenth."""
    after_s = summary.final_seconds
    if after_s < summary.train_seconds / 10:
        return seconds(summary.train_seconds)
    return f"{seconds(summary.train_seconds - after_s)}, and {seconds(after_s)} of evaluations after them"


def _wrapped(label: str, text: str) -> list[str]:
    first, rest = f"{label:<{_LABEL}}", " " * _LABEL
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, **_WHOLE_WORDS)
