"""Numbers as text: money, counts, times, returns with their interval, and tables."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.coordinator.core.state import RoundLine, State
from marless.coordinator.placement.placement_rules import PLACEMENTS, RoundPlacement
from marless.functions.text.redaction import redact_settings
from marless.functions.text.terminal_text import visible
from marless.reports.digits import figure, interval_digits
from marless.reports.statistics import FinalReturn, Interval, summary

_EVENTS = {
    "shared": "sharing switched on: agents with similar policies share one network",
    "split": "agents that shared a network part",
    "rejected": "a shared team was tried on {:,} episodes and rejected",
    "alone": "training declines, but no two policies are similar: no sharing",
    "skipped": "a shared team could not be built or tried; training continues without it",
    "unaffordable": "a shared team was not tried: the trial could exceed stop.dollars",
}
LOWER_LEARNING_RATE = (
    "try lower learning rates (algorithm.lr, and algorithm.critic_lr if the algorithm has it) in a new run"
)
_BARS = "▁▂▃▄▅▆▇█"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def money(dollars: float) -> str:
    """Two significant digits below a dollar, cents above, never an exponent: ``$0.00021``."""
    if dollars >= 1 or dollars <= 0:
        return f"${max(0.0, dollars):,.2f}"
    digits = 1
    while dollars * 10**digits < 1:
        digits += 1
    return f"${dollars:.{digits + 1}f}"


def seconds(value: float) -> str:
    """``2.7 s`` up to a minute, then ``3:05`` and ``2:03:05``."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def next_step_hint(state: State, command: str) -> str:
    """Advice for a run that has not finished, which `command` resumes."""
    return f"a resume would repeat it; {LOWER_LEARNING_RATE}" if state.diverged else f"go on with: {command}"


def evaluated_options(config: RunConfig) -> str:
    """Return the task's options that differ in evaluations from training: ``pairs=unseen``, or ''."""
    options = redact_settings(config.evaluation.options).items()
    return ", ".join(f"{name}={value if isinstance(value, str) else toml_value(value)}" for name, value in options)


def evaluation_label(config: RunConfig) -> str:
    """Return the way that evaluations are played: ``greedy``, or ``sampled actions, pairs=unseen``."""
    acting = "greedy" if config.evaluation.greedy else "sampled actions"
    return ", ".join(filter(None, (acting, evaluated_options(config))))


def plus_minus(figures: FinalReturn | Sequence[float]) -> str:
    """A mean with half the width of its 95 % interval: ``-57.8 ± 1.3``, ``1.973 ± 0.008``."""
    result = figures if isinstance(figures, FinalReturn) else summary(figures)
    return with_interval(result.mean, result.ci95)


def with_interval(mean: float, interval: Interval | None) -> str:
    """Return ``-57.8 ± 1.3``, or the mean alone without an interval."""
    if interval is None:
        return figure(mean)
    half = (interval[1] - interval[0]) / 2
    digits = interval_digits(mean, interval)
    return f"{digits.text(mean)} ± {digits.text(half)}"


def by_side(returns: Mapping[str, float]) -> str:
    """The return of every side: ``adversary -3.2, agent 7.1``."""
    return ", ".join(f"{name} {figure(value)}" for name, value in returns.items())


def env_metrics(means: Mapping[str, float]) -> str:
    """The environment's metrics: ``win 0.531``."""
    return ", ".join(f"{name} {figure(mean, 3)}" for name, mean in means.items())


def sparkline(values: Sequence[float], width: int = 30) -> str:
    """The last values as bars, lowest to highest."""
    if not (recent := values[-width:]):
        return ""
    low, high = min(recent), max(recent)
    span = high - low or 1.0
    return "".join(_BARS[round((len(_BARS) - 1) * ((value - low) / span))] for value in recent)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a text table. The last column is not padded."""
    lines = [[visible(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], aligned: bool = True) -> str:
    """Return a Markdown table. `aligned` columns read well as plain text too."""
    lines = [[visible(cell) for cell in line] for line in (header, *rows)]
    if not aligned:
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], ["---"] * len(header), *lines[1:]))
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    return "\n".join([text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]])


def placement_text(round_placement: RoundPlacement) -> str:
    """A placement in a few words."""
    per_actor = "" if PLACEMENTS[round_placement.rule].one_function else " per actor"
    transport = (
        f"through messages, saved every {round_placement.checkpoint_every} rounds"
        if round_placement.inline_objects
        else "through storage"
    )
    sizes = (f"{name} {memory} MB" for name, memory in round_placement.memory_mb.items())
    return ", ".join([round_placement.rule, f"{work_text(round_placement)}{per_actor}", transport, *sizes])


def work_text(round_placement: RoundPlacement) -> str:
    """Return the work of one function of a placement: ``10 rounds``, ``1 rollout``."""
    if PLACEMENTS[round_placement.rule].one_function:
        return counted(round_placement.rounds, "round")
    return counted(round_placement.rollouts_per_invocation, "rollout")


def counted(count: int, noun: str) -> str:
    """``1 round``, ``2 rounds``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def learners_for(slots: int) -> str:
    """Return the words of a bill that depend on the number of slots."""
    return f", with learners for {counted(slots, 'slot')}"


def size(count: int) -> str:
    """Bytes with a decimal prefix: ``312 kB``, ``1.7 MB``."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if value >= 9.95 or unit == "bytes" else f"{value:.1f} {unit}"


def event(line: RoundLine) -> str:
    """The sharing event at the end of a round."""
    return f"round {line.round:5d}  {event_text(line)}"


def event_text(line: RoundLine) -> str:
    """The same without the round."""
    return _EVENTS[line.event].format(line.trial_episodes)
