"""Replies of a recorded run, made again for tasks of any size from its lines of metrics.

The ledger's item is compressed, so replies need as many different digits as real ones. Numbers that were equal in every
round would make its writes too cheap.
"""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from msgspec.structs import replace

from marless.coordinator.core.state import RoundLine, State
from marless.functions import keys
from marless.functions.environments.base import EnvSpec
from marless.functions.messages import learner
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.exchange import Done, Reply, Request
from marless.functions.messages.message import Ref
from marless.functions.messages.usage import Usage
from marless.functions.randomness import generator

# The relative difference of a number that is made again: too little for any rule to notice.
_SPREAD = 1e-6


class RecordedReplies:
    """Replies with the recorded returns and metrics. Later rounds repeat the last round's, except for the last digits.
    Tables are not recorded."""

    def __init__(self, state: State, lines: Sequence[RoundLine]) -> None:
        self._spec: EnvSpec = state.env_spec
        self._lines = lines
        last, before = lines[-1].metrics, lines[max(0, len(lines) - 2)].metrics
        # Later rounds keep values that two rounds share, such as a step size or a count.
        self._varying_names = frozenset(name for name, value in last.items() if value != before.get(name))

    def to(self, request: Request, usage: Usage) -> Done:
        """The answer to `request`. Its objects have the bytes that `usage` counts as written."""
        kinds = request.writes()
        size = usage.bytes_written // max(1, len(kinds))
        keys_by_kind = {kind: keys.object_key(request.address.output, kind) for kind in kinds}
        refs = {
            kind: Ref(key=key, sha256=sha256(key.encode()).hexdigest(), size=size) for kind, key in keys_by_kind.items()
        }
        bodies = {ref.key: bytes(size) for ref in refs.values()} if request.inline_objects else {}
        if bodies:
            usage = unstored(usage)
        reply = self._reply(request)
        return Done(
            id=request.address.id, attempt=request.attempt, objects=refs, reply=reply, usage=usage, inlined=bodies
        )

    def _reply(self, request: Request) -> Reply:
        match request:
            case DescribeTask():
                return DescribeReply(spec=self._spec)
            case learner.InitialiseTask():
                return learner.InitialiseReply()
            case learner.RegroupTask():
                return learner.RegroupReply()
            case learner.LearnTask():
                return self._learn_reply(request.address.round, request.stages, request.groups)
            case EvaluateTask():
                return self._evaluate_reply(request)
            case learner.WholeTask():
                rounds = range(request.address.round, request.address.round + request.rounds)
                return learner.WholeReply(
                    samples=tuple(self._sample_reply(request, number) for number in rounds),
                    learns=tuple(learner.LearnReply(metrics=self._metrics(number)) for number in rounds),
                )
        return self._sample_reply(request, request.address.round)

    def _line(self, round_: int) -> RoundLine:
        return self._lines[min(round_, len(self._lines) - 1)]

    def _metrics(self, round_: int) -> dict[str, float]:
        metrics = self._line(round_).metrics
        if round_ < len(self._lines):
            return metrics
        names = [name for name in metrics if name in self._varying_names]
        values = _varied([metrics[name] for name in names], generator(0, "metrics", round_))
        return {**metrics, **dict(zip(names, values, strict=True))}

    def _evaluate_reply(self, request: EvaluateTask) -> EvaluateReply:
        line, rng = self._lines[-1], generator(0, request.address.id)
        # Of one mean, so that which policies are the best does not depend on chance.
        returns = _returns(line, request.episodes, rng)
        return EvaluateReply(returns=returns, agent_returns=_of_agents(line, line.agent_returns, rng))

    def _learn_reply(self, round_: int, stages: Sequence[str], groups: Sequence[int]) -> learner.LearnReply:
        names = {f"g{group:02d}" for group in groups}
        metrics = {
            name: value
            for name, value in self._metrics(round_).items()
            if name.split("/")[0] in stages and name.split("/")[-1] in names
        }
        return learner.LearnReply(metrics=metrics)

    def _sample_reply(self, request: SampleTask | learner.WholeTask, round_: int) -> SampleReply:
        sampling = request.sampling
        line, rollouts = self._line(round_), len(sampling.rollouts)
        episodes = sampling.num_envs * (sampling.rollout_length // self._spec.horizon)
        if sampling.fragments:
            episodes = line.episodes // line.rollouts
        rng = generator(0, request.address.id, round_)
        sums = [mean * episodes for mean in line.agent_returns]
        return SampleReply(
            env_steps=sampling.num_envs * sampling.rollout_length * rollouts,
            returns=_returns(line, episodes * rollouts, rng),
            agent_returns=tuple(_of_agents(line, sums, rng) for _ in range(rollouts)) if sums else (),
            env_metrics=line.env_metrics,
            # The winner is unknown, and a draw leaves ratings unchanged.
            score=0.5 if isinstance(request, SampleTask) and request.match else None,
        )


def _returns(line: RoundLine, count: int, rng: np.random.Generator) -> tuple[float, ...]:
    """The returns of `count` episodes around the round's mean, all equal if the round's were."""
    mean = line.return_mean or 0.0
    return _varied([mean] * count, rng) if line.return_sd else (mean,) * count


def _of_agents(line: RoundLine, values: Sequence[float], rng: np.random.Generator) -> tuple[float, ...]:
    """Returns by agent, all changed by one factor: no rule sees that agents are paid differently."""
    factor = 1 + _SPREAD * rng.standard_normal() if line.return_sd else 1.0
    return tuple(value * factor for value in values)


def _varied(values: Sequence[float], rng: np.random.Generator) -> tuple[float, ...]:
    # Only the last digits change, and nearly keep the mean.
    differences = rng.standard_normal(len(values))
    return tuple(np.multiply(values, 1 + _SPREAD * (differences - differences.mean())).tolist()) if values else ()


def unstored(usage: Usage) -> Usage:
    """The operations of a task that sends its objects in its message."""
    return replace(usage, puts=0, bytes_written=0)
