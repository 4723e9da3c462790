"""The records of a round, made from the replies of its tasks: returns, evaluations, and its lines of metrics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.core import budget, league_matches, sides
from marless.coordinator.core.controller import Decision, RoundSignals
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.rounds import behaviour, fragments
from marless.coordinator.core.state import Evaluated, Plan, RoundCalls, RoundLine, State
from marless.functions.episode_returns import balancing
from marless.functions.messages.actor import SampleReply
from marless.functions.messages.evaluator import EvaluateReply
from marless.functions.messages.learner import LearnReply, WholeReply
from marless.functions.messages.message import Table

# Kinds of tasks that learn nothing.
_PLAYING = ("sample", "evaluate")


@dataclass(frozen=True)
class RoundReplies:
    """The replies of one round's functions: of sampling, in the order of rollouts, and of learning.

    `whole`: rollouts begin with a reset, and no episode is longer than they. Then every environment weighs as much as
    any other, and means over episodes are unbiased (`marless.functions.episode_returns`). Otherwise every finished
    episode has the same weight. An episode of fragments counts once, in the round that ends it.
    """

    samples: tuple[SampleReply, ...]
    learns: tuple[LearnReply, ...]
    whole: bool = False

    @cached_property
    def env_steps(self) -> int:
        """Environment steps of the round."""
        return sum(reply.env_steps for reply in self.samples)

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """Of every finished episode, summed over agents."""
        return np.array([value for reply in self.samples for value in reply.returns])

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Of every finished episode, of mean 1."""
        factors = np.repeat(self._factors, [count for of in self._counts for count in of])
        within = [chain(*reply.weights) if reply.weights else repeat(1.0, len(reply.returns)) for reply in self.samples]
        return np.asarray(factors * [*chain(*within)])

    @cached_property
    def agent_returns(self) -> tuple[float, ...]:
        """Means by agent over the finished episodes. Empty without a finished episode."""
        if not len(self.returns):
            return ()
        rollouts = [rollout for reply in self.samples for rollout in reply.agent_returns]
        weighed_returns = [
            [factor * value for value in sums] for factor, sums in zip(self._factors, rollouts, strict=False)
        ]
        return tuple(math.fsum(sums) / len(self.returns) for sums in zip(*weighed_returns, strict=True))

    @cached_property
    def env_metrics(self) -> dict[str, float]:
        """Means of the environment's metrics over the finished episodes."""
        if not any(reply.env_metrics for reply in self.samples):
            return {}
        edges = accumulate((count for of in self._counts for count in of), initial=0)
        sums = (self.weights[start:end].sum() for start, end in pairwise(edges))
        return mean_env_metrics(self.samples, [float(sum(islice(sums, len(of)))) for of in self._counts])

    @cached_property
    def return_mean(self) -> float | None:
        """The weighted mean return. None if all episodes are unfinished."""
        return float((self.weights * self.returns).mean()) if len(self.returns) else None

    @cached_property
    def return_sd(self) -> float | None:
        """The standard deviation of episodes' returns, with Bessel's correction for weights. None for one episode."""
        weights, count = self.weights, len(self.returns)
        if count < 2 or self.return_mean is None:
            return None
        squares = float((weights * (self.returns - self.return_mean) ** 2).sum())
        return math.sqrt(squares / (count - float((weights**2).sum()) / count))

    @cached_property
    def _counts(self) -> list[list[int]]:
        return [_episodes_of_rollouts(reply) for reply in self.samples]

    @cached_property
    def _factors(self) -> list[float]:
        """By rollout, the factor of its episodes' weights."""
        counts = [count for of in self._counts for count in of]
        return balancing(counts) if self.whole else [1.0] * len(counts)

    @cached_property
    def signals(self) -> RoundSignals:
        """The signals that the controller's rules read."""
        metrics: dict[str, float] = {}
        tables: dict[str, Table] = {}
        for reply in self.learns:
            metrics |= reply.metrics
            tables |= reply.tables
        return RoundSignals(self.agent_returns, metrics, tables)


def _episodes_of_rollouts(reply: SampleReply) -> list[int]:
    """Return the finished episodes of each rollout. If the reply does not say, spread them evenly."""
    if reply.weights:
        return [len(of) for of in reply.weights]
    rollouts = max(1, len(reply.agent_returns))
    least, more = divmod(len(reply.returns), rollouts)
    return [least + 1] * more + [least] * (rollouts - more)


def replies_by_round(plan: Plan, state: State) -> list[RoundReplies]:
    """The replies of each round that the functions in flight went through, all of them answered."""
    whole = plan.inputs.dataset is None and not fragments(plan, state)
    replies = [done.reply for name in sorted(state.slots) if (done := state.slots[name].done)]
    for reply in replies:
        if isinstance(reply, WholeReply):
            return [RoundReplies((s,), (learn,), whole) for s, learn in zip(reply.samples, reply.learns, strict=True)]
    samples = tuple(reply for reply in replies if isinstance(reply, SampleReply))
    return [RoundReplies(samples, tuple(reply for reply in replies if isinstance(reply, LearnReply)), whole)]


def round_lines(
    plan: Plan, state: State, rounds: list[RoundReplies], decisions: list[Decision], event: str
) -> tuple[RoundLine, ...]:
    """A line for each round, with time and money divided evenly among the rounds of one function.

    `event` and actions belong to the last of them and the evaluation in flight to the first.
    """
    totals = _totals(plan, state, len(rounds))
    lines, env_steps = [], state.env_steps
    for index, (round_, decision) in enumerate(zip(rounds, decisions, strict=True)):
        seconds, dollars = totals[index]
        env_steps += round_.env_steps
        last = index == len(rounds) - 1
        lines.append(
            RoundLine(
                round=state.round + index + 1,
                env_steps=env_steps,
                seconds=seconds,
                dollars=dollars,
                rollouts=state.controller.rollouts,
                learners=sum(slot.item.kind not in _PLAYING for slot in state.slots.values()),
                groups=len(state.groups),
                invocations=len(state.slots),
                episodes=len(round_.returns),
                return_mean=round_.return_mean,
                return_sd=round_.return_sd,
                agent_returns=round_.agent_returns,
                env_metrics=round_.env_metrics,
                metrics={**round_.signals.metrics, **league_matches.metrics(state.env_spec, state.league)},
                evaluation=evaluation_in_flight(plan, state) if index == 0 else None,
                team=state.team.groups if state.team else (),
                slope=decision.slope,
                diversity=decision.diversity,
                event=event if last else "",
                trial_episodes=len(state.proposal.differences) if state.proposal and last else 0,
                placement=state.placement.rule,
                side_returns=sides.returns_of(state.env_spec, round_.agent_returns),
                exploration=behaviour(plan, state, index).amount,
                staleness=plan.config.pipeline.lag if round_.learns else None,
                actions=_resource_calls(state) if last else {},
            )
        )
    return tuple(lines)


def _totals(plan: Plan, state: State, rounds: int) -> list[tuple[float, float]]:
    """Return the run's seconds and dollars at the end of each round in flight. The rounds share the total evenly."""
    before = state.line
    start = (before.seconds, before.dollars) if before else (0.0, 0.0)
    end = (state.seconds, float(budget.dollars(plan, state.meter)))
    shares = [(index + 1) / rounds for index in range(rounds - 1)]
    # The last is not computed: it has to be the run's own to the last bit.
    return [
        *((start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])) for share in shares),
        end,
    ]


def _resource_calls(state: State) -> dict[str, RoundCalls]:
    return {
        name: RoundCalls(
            count=tally.use.count,
            hits=tally.use.hits,
            seconds=tally.use.ms / 1000,
            timed=tally.timed,
            mean_ms=tally.mean_ms,
            p99_ms=tally.quantile_ms(0.99),
        )
        for name, tally in sorted(state.resource_calls.items())
    }


def mean_env_metrics(
    replies: Sequence[SampleReply | EvaluateReply], weights: Sequence[float] | None = None
) -> dict[str, float]:
    """Return the means of the environment's metrics over the episodes of all `replies`. Weights are by default their
    numbers of episodes. A metric counts only the replies that have it."""
    by_name: dict[str, tuple[list[float], list[float]]] = {}
    for reply, weight in zip(replies, weights or [len(reply.returns) for reply in replies], strict=True):
        for name, value in reply.env_metrics.items() if reply.returns else ():
            values, of = by_name.setdefault(name, ([], []))
            values.append(value)
            of.append(weight)
    return {name: float(np.average(values, weights=of)) for name, (values, of) in sorted(by_name.items())}


def evaluation_in_flight(plan: Plan, state: State) -> Evaluated | None:
    """Return the evaluation of the round in flight, or None."""
    if not (returns := returns_of(state, "evaluate/")):
        return None
    side = evaluated_side(plan.config, state.env_spec)
    return Evaluated(
        round=state.round,
        env_steps=state.env_steps,
        returns=returns,
        side=side.name if side else "",
        side_returns=side_returns_of(state, "evaluate/"),
        env_metrics=env_metrics_of(state, "evaluate/"),
    )


def returns_of(state: State, prefix: str) -> tuple[float, ...]:
    """The returns of the episodes of all parts, in the order of parts."""
    return tuple(value for reply in _replies(state, prefix) for value in reply.returns)


def side_returns_of(state: State, prefix: str) -> dict[str, float]:
    """Return the mean return of every side over the episodes of all parts. Empty if all agents are on one side."""
    with_returns = [reply for reply in _replies(state, prefix) if reply.agent_returns and reply.returns]
    if not with_returns:
        return {}
    means = np.average(
        [reply.agent_returns for reply in with_returns], axis=0, weights=[len(reply.returns) for reply in with_returns]
    )
    return sides.returns_of(state.env_spec, means.tolist())


def env_metrics_of(state: State, prefix: str) -> dict[str, float]:
    """Return the means of the environment's metrics over the episodes of all parts. Empty without metrics."""
    return mean_env_metrics(_replies(state, prefix))


def _replies(state: State, prefix: str) -> list[EvaluateReply]:
    dones = [state.slots[name].done for name in sorted(state.slots) if name.startswith(prefix)]
    return [done.reply for done in dones if done and isinstance(done.reply, EvaluateReply)]
