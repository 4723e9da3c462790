"""The scalars of a run under the names that users know, made from the lines of its journal.

docs/how-to/log.md lists them.
"""

from collections.abc import Mapping, Sequence

from marless.coordinator.core.state import Evaluated, RoundLine
from marless.functions.text.terminal_text import visible
from marless.loggers.base import Point

# Parts of MARLess's names after ``return/``.
_OURS = ("train", "train_sd", "eval", "absolute", "agent")


def points(line: RoundLine, agents: Sequence[str]) -> list[Point]:
    """The points of a finished round: of its evaluation, if it has one, and of the round itself.

    The evaluation is of the policies that sampled the round, so it comes first and belongs to fewer steps.
    """
    evaluation_points = [_evaluation(line.evaluation, line.seconds)] if line.evaluation else []
    return [*evaluation_points, Point(2 * line.round, line.env_steps, line.seconds, _round(line, agents))]


def evaluation_point(
    round_: int,
    env_steps: int,
    seconds: float,
    mean: float,
    by_side: Mapping[str, float],
    env_metrics: Mapping[str, float],
    absolute: float | None = None,
) -> Point:
    """The point of greedy episodes of the policies after `round_` rounds. `absolute` is the absolute metric."""
    scalars = {"return/eval": mean}
    scalars |= {f"return/eval/{side}": value for side, value in by_side.items()}
    scalars |= {f"env/eval/{name}": value for name, value in env_metrics.items()}
    scalars |= {} if absolute is None else {"return/absolute": absolute}
    return Point(2 * round_ + 1, env_steps, seconds, _visible(scalars))


def _evaluation(evaluation: Evaluated, seconds: float) -> Point:
    return evaluation_point(
        evaluation.round,
        evaluation.env_steps,
        seconds,
        evaluation.mean,
        evaluation.side_returns,
        evaluation.env_metrics,
    )


def _round(line: RoundLine, agents: Sequence[str]) -> dict[str, float]:
    candidates = {
        "return/train": line.return_mean,
        "return/train_sd": line.return_sd,
        "decision/slope": line.slope,
        "decision/diversity": line.diversity,
    }
    scalars = {name: value for name, value in candidates.items() if value is not None}
    # Agents have returns only after a finished episode.
    if line.agent_returns:
        scalars |= {_of_agent(name): value for name, value in zip(agents, line.agent_returns, strict=True)}
    scalars |= {f"return/train/{side}": value for side, value in line.side_returns.items()}
    scalars |= {f"env/{name}": value for name, value in line.env_metrics.items()}
    own_scalars = {**_decision_scalars(line), **_cost_scalars(line), **_action_scalars(line)}
    return _visible({**scalars, **line.metrics, **own_scalars})


def _of_agent(name: str) -> str:
    """The name of an agent's return. An agent with the name of our scalar does not take its place."""
    return f"return/agent/{name}" if name.partition("/")[0] in _OURS else f"return/{name}"


def _visible(scalars: Mapping[str, float]) -> dict[str, float]:
    return {visible(name): value for name, value in scalars.items()}


def _decision_scalars(line: RoundLine) -> dict[str, float]:
    return {
        "decision/groups": line.groups,
        "decision/rollouts": line.rollouts,
        "decision/learners": line.learners,
        "decision/exploration": line.exploration,
        "decision/trial_episodes": line.trial_episodes,
    }


def _action_scalars(line: RoundLine) -> dict[str, float]:
    scalars: dict[str, float] = {}
    for name, actions in line.actions.items():
        values = {each: getattr(actions, each) for each in ("count", "hits", "seconds", "mean_ms", "p99_ms")}
        scalars |= {f"action/{name}/{each}": value for each, value in values.items() if value is not None}
    return scalars


def _cost_scalars(line: RoundLine) -> dict[str, float]:
    speed = {"time/env_steps_per_second": line.env_steps / line.seconds} if line.seconds else {}
    return {
        "time/round": line.round,
        "time/seconds": line.seconds,
        **speed,
        "time/episodes": line.episodes,
        **({} if line.staleness is None else {"time/staleness": line.staleness}),
        "cost/dollars": line.dollars,
        "cost/invocations": line.invocations,
    }
