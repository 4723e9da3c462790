"""The curves of a run: returns, metrics of learning, rollouts and ratings."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from marless.comparison.run_evaluations import AXES, Axis
from marless.coordinator.core.state import Evaluated, RoundLine
from marless.page.chart import COLOURS, ChartLine, Size, figure
from marless.page.facts import Facts
from marless.page.markup import Html
from marless.reports.statistics import summary
from marless.reports.text import evaluation_label
from marless.runs.summary import Summary

# More lines than there are colours are drawn as their median and a band from the lowest to the highest.
_MOST_LINES = COLOURS
_METRICS = {
    "entropy": ("Entropy", "of the action distribution, nats"),
    "temperature": ("Temperature", "the weight of the entropy"),
    "kl": ("KL divergence", "how far the policy moved in the round"),
    "clip_fraction": ("Clip fraction", "share of rows at the clip"),
    "advantage_spread": ("Spread of advantages", "standard deviation; at 0 the policy learns nothing from rewards"),
    "base_kl": ("Distance from the base", "KL divergence of the language model without the adapter"),
    "effective_sample_size": ("Effective sample size", "share of the rows, where data is of earlier rounds"),
    "explained_variance": ("Explained variance", "of returns, by the critic; at most 1"),
    "td_loss": ("TD loss", "of the values"),
    "overestimation": ("Overestimation", "of the values, against returns"),
    "diversity": ("Diversity", "how differently agents act"),
    "staleness": ("Staleness", "rounds between sampling and learning; none where nothing was learned"),
}
_METRIC = re.compile(r"(?P<stage>[^/]+)/(?P<metric>\w+?)(?:_a(?P<agent>\d+))?/g(?P<group>\d+)")
_ELO = "league/elo/"


def learning_curves(facts: Facts, size: Size) -> dict[Axis, Html]:
    """The learning curve over steps, seconds and dollars."""
    lines = facts.lines
    done: dict[Axis, list[float]] = {
        "steps": [0.0, *(line.env_steps for line in lines)],
        "seconds": [0.0, *(line.seconds for line in lines)],
        "dollars": [0.0, *(line.dollars for line in lines)],
    }

    def over(axis: Axis, steps: Sequence[float]) -> list[float]:
        return [float(value) for value in np.interp(steps, done["steps"], done[axis])]

    curves = return_lines(facts)
    note = "sum over agents, undiscounted; evaluations with 95 % intervals over episodes"
    lines_by_axis = {
        axis: [
            ChartLine(each.name, over(axis, each.x), each.y, each.low, each.high, each.colour, each.faint, each.dots)
            for each in curves
        ]
        for axis in AXES
    }
    return {axis: chart for axis in AXES if (chart := figure("Return", note, lines_by_axis[axis], axis, size))}


def evaluations(facts: Facts) -> list[Evaluated]:
    """The evaluations of the journal, in the order of training."""
    return [line.evaluation for line in facts.lines if line.evaluation]


def agent_returns(facts: Facts, size: Size) -> Html:
    """Returns of every agent in the sampled episodes."""
    complete_lines = [line for line in facts.lines if len(line.agent_returns) == len(facts.agents)]
    x = [line.env_steps for line in complete_lines]
    lines = [
        ChartLine(name, x, [line.agent_returns[agent] for line in complete_lines], colour=_colour(agent))
        for agent, name in enumerate(facts.agents)
    ]
    return figure("Returns by agent", "episodes sampled while training", bundle(_merge_equal(lines)), "steps", size)


def learning_metrics(facts: Facts, size: Size) -> list[Html]:
    """A chart for each metric of the learning that ever left 0, with a line for every agent."""
    by_metric: dict[str, set[str]] = {}
    for line in facts.lines:
        for key, value in line.metrics.items():
            if value and (match := _METRIC.fullmatch(key)) and match["metric"] in _METRICS:
                by_metric.setdefault(f"{match['stage']}/{match['metric']}", set()).add(key)
    charts = []
    for metric in sorted(by_metric, key=lambda metric: list(_METRICS).index(metric.rpartition("/")[2])):
        title, note = _METRICS[metric.rpartition("/")[2]]
        charts.append(figure(title, f"{note} ({metric})", bundle(_by_agent(facts, metric)), "steps", size))
    of_rounds = {"diversity": [line.diversity for line in facts.lines]}
    if any(line.staleness for line in facts.lines):
        of_rounds["staleness"] = [line.staleness for line in facts.lines]
    for name, values in of_rounds.items():
        title, note = _METRICS[name]
        charts.append(figure(title, note, [_series(facts, title, values)], "steps", size))
    return [chart for chart in charts if chart]


def env_metrics(facts: Facts, size: Size) -> list[Html]:
    """A chart for each metric of the environment: sampled, and greedy."""
    charts = []
    for name in dict.fromkeys(key for line in facts.lines for key in line.env_metrics):
        training = _series(facts, "while training", [line.env_metrics.get(name) for line in facts.lines], faint=True)
        points = [(each.env_steps, each.env_metrics[name]) for each in evaluations(facts) if name in each.env_metrics]
        if (end := _end_of(facts)) and name in end.final_env_metrics:
            points.append((end.env_steps, end.final_env_metrics[name]))
        x, y = [point[0] for point in points], [point[1] for point in points]
        evaluated = ChartLine(f"evaluation ({evaluation_label(facts.config)})", x, y, dots=True)
        charts.append(figure(name, "metric of the environment", [training, evaluated], "steps", size))
    return charts


def rollouts(facts: Facts, size: Size) -> Html:
    """Rollouts and learners of every round."""
    x = [line.round for line in facts.lines]
    counts = {"rollouts": [line.rollouts for line in facts.lines], "groups": [line.groups for line in facts.lines]}
    lines = [ChartLine(name, x, y, colour=colour, steps=True) for colour, (name, y) in enumerate(counts.items())]
    return figure("Rollouts and groups", "per round", lines, "round", size)


def action_times(facts: Facts, size: Size) -> list[Html]:
    """A chart for each resource that was asked: the completion times of its actions, by round."""
    charts = []
    for name in sorted({name for line in facts.lines for name in line.actions}):
        of_rounds = [line.actions.get(name) for line in facts.lines]
        values = {
            "mean": [actions.mean_ms if actions else None for actions in of_rounds],
            "p99": [actions.p99_ms if actions else None for actions in of_rounds],
        }
        lines = [_series(facts, label, each, colour) for colour, (label, each) in enumerate(values.items())]
        charts.append(figure(f"Action completion time: {name}", "ms, from question to answer", lines, "steps", size))
    return [chart for chart in charts if chart]


def ratings(facts: Facts, size: Size) -> Html:
    """The Elo rating of each side, or '' without a league."""
    keys = dict.fromkeys(key for line in facts.lines for key in line.metrics if key.startswith(_ELO))
    lines = [
        _series(facts, key.removeprefix(_ELO), [line.metrics.get(key) for line in facts.lines], _colour(position))
        for position, key in enumerate(keys)
    ]
    return figure("Elo", "of each side's newest policies, against the side's checkpoints", lines, "steps", size)


def bundle(lines: Sequence[ChartLine]) -> list[ChartLine]:
    """The lines, or of too many the median, with a band from the lowest to the highest."""
    if len(lines) <= _MOST_LINES or len({tuple(line.x) for line in lines}) > 1:
        return list(lines[: 2 * COLOURS])
    values = np.array([line.y for line in lines], np.float64)
    middle, low, high = (curve.tolist() for curve in (np.median(values, 0), values.min(0), values.max(0)))
    return [ChartLine(f"median of {len(lines)}, band from lowest to highest", lines[0].x, middle, low, high)]


def return_lines(facts: Facts) -> list[ChartLine]:
    """Over steps: of all agents, or of each side where some compete."""
    if not (names := dict.fromkeys(name for line in facts.lines for name in line.side_returns)):
        training = _series(facts, "while training (sampled)", [line.return_mean for line in facts.lines], faint=True)
        return [training, _evaluation_line(facts, f"evaluation ({evaluation_label(facts.config)})")]
    lines = []
    for position, name in enumerate(names):
        returns = [line.side_returns.get(name) for line in facts.lines]
        lines.append(_series(facts, f"{name}, while training", returns, _colour(position), faint=True))
        lines.append(
            _evaluation_line(facts, f"{name}, evaluation ({evaluation_label(facts.config)})", name, _colour(position))
        )
    return lines


def _evaluation_line(facts: Facts, name: str, side: str = "", colour: int = 0) -> ChartLine:
    """The evaluations and the final one. A side has an interval where all its evaluations have their returns."""
    rows: list[tuple[float, float, tuple[float, float] | None]] = []
    for evaluation in evaluations(facts):
        side_summary = summary(evaluation.returns) if evaluation.side == side else None
        mean = side_summary.mean if side_summary else evaluation.side_returns.get(side)
        if mean is not None:
            rows.append((evaluation.env_steps, mean, side_summary.ci95 if side_summary else None))
    rows += _final(facts, side)
    x, y = [row[0] for row in rows], [row[1] for row in rows]
    ends = [row[2] for row in rows]
    intervals = [end for end in ends if end is not None]
    if len(intervals) < len(ends):
        return ChartLine(name, x, y, colour=colour, dots=True)
    return ChartLine(
        name, x, y, [low for low, _ in intervals], [high for _, high in intervals], colour=colour, dots=True
    )


def _final(facts: Facts, side: str) -> list[tuple[float, float, tuple[float, float] | None]]:
    end = _end_of(facts)
    if end is None or end.final_return is None:
        return []
    if end.side == side:
        return [(end.env_steps, end.final_return.mean, end.final_return.ci95)]
    return [(end.env_steps, end.final_sides[side], None)] if side in end.final_sides else []


def _end_of(facts: Facts) -> Summary | None:
    """The summary of a run that is at its end. A run that continued was evaluated at an earlier end."""
    run_summary = facts.summary
    return run_summary if run_summary and run_summary.env_steps >= facts.lines[-1].env_steps else None


def _by_agent(facts: Facts, metric: str) -> list[ChartLine]:
    # The agent's own value, or the value of its group of shared networks.
    def value(line: RoundLine, agent: int) -> float | None:
        group = f"g{line.team[agent]:02d}" if len(line.team) > agent else f"g{agent:02d}"
        agent_value = line.metrics.get(f"{metric}_a{agent:02d}/{group}")
        return line.metrics.get(f"{metric}/{group}") if agent_value is None else agent_value

    lines = [
        _series(facts, name, [value(line, agent) for line in facts.lines], _colour(agent))
        for agent, name in enumerate(facts.agents)
    ]
    return _merge_equal(line for line in lines if len(line.x))


def _merge_equal(lines: Iterable[ChartLine]) -> list[ChartLine]:
    same: dict[tuple[tuple[float, ...], tuple[float, ...]], list[ChartLine]] = {}
    for line in lines:
        same.setdefault((tuple(line.x), tuple(line.y)), []).append(line)
    return [ChartLine(_names(group), x, y, colour=group[0].colour) for (x, y), group in same.items()]


def _names(lines: Sequence[ChartLine]) -> str:
    if len(lines) > 4:
        return f"{lines[0].name} and {len(lines) - 1} others"
    return ", ".join(line.name for line in lines)


def _colour(position: int) -> int:
    return position % (2 * COLOURS)


def _series(facts: Facts, name: str, values: Sequence[float | None], colour: int = 0, faint: bool = False) -> ChartLine:
    points = [(line.env_steps, value) for line, value in zip(facts.lines, values, strict=True) if value is not None]
    return ChartLine(name, [x for x, _ in points], [y for _, y in points], colour=colour, faint=faint)
