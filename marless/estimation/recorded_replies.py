"""Replies of a recorded run, made anew for tasks of any size from its lines of metrics."""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core.state import RoundLine, State
from functions import keys
from functions.contract import (
    DescribeReply,
    DescribeTask,
    Done,
    EvaluateReply,
    EvaluateTask,
    InitialiseReply,
    InitialiseTask,
    LearnReply,
    LearnTask,
    Ref,
    RegroupReply,
    RegroupTask,
    Reply,
    Request,
    SampleReply,
    SampleTask,
    Usage,
    WholeReply,
    WholeTask,
)
from functions.environments.base import EnvSpec

_SHA256 = "0" * 64


class RecordedReplies:
    """Replies with the recorded returns and metrics, the last round's for all later ones; tables are not recorded."""

    def __init__(self, state: State, lines: Sequence[RoundLine]) -> None:
        self._spec: EnvSpec = state.env_spec
        self._lines = lines

    def to(self, request: Request, usage: Usage) -> Done:
        """The answer to `request`, whose objects have the bytes that `usage` says were written."""
        kinds = request.writes()
        size = usage.bytes_written // max(1, len(kinds))
        keys_by_kind = {kind: keys.object_key(request.address.output, kind) for kind in kinds}
        refs = {kind: Ref(key=key, sha256=_SHA256, size=size) for kind, key in keys_by_kind.items()}
        bodies = {ref.key: bytes(size) for ref in refs.values()} if request.inline_objects else {}
        if bodies:
            usage = unstored(usage)
        reply = self._reply(request)
        return Done(
            id=request.address.id,
            attempt=request.attempt,
            objects=refs,
            reply=reply,
            usage=usage,
            inlined=bodies,
        )

    def _reply(self, request: Request) -> Reply:
        match request:
            case DescribeTask():
                return DescribeReply(spec=self._spec)
            case InitialiseTask():
                return InitialiseReply()
            case RegroupTask():
                return RegroupReply()
            case LearnTask():
                return self._learn_reply(request.address.round, request.stages, request.groups)
            case EvaluateTask():
                # All alike, so that which policies are the best does not depend on chance.
                line = self._lines[-1]
                return EvaluateReply(
                    returns=(line.return_mean or 0.0,) * request.episodes, agent_returns=line.agent_returns
                )
            case WholeTask():
                rounds = range(request.address.round, request.address.round + request.rounds)
                return WholeReply(
                    samples=tuple(self._sample_reply(request, number) for number in rounds),
                    learns=tuple(LearnReply(metrics=self._line(number).metrics) for number in rounds),
                )
        return self._sample_reply(request, request.address.round)

    def _line(self, round_: int) -> RoundLine:
        return self._lines[min(round_, len(self._lines) - 1)]

    def _learn_reply(self, round_: int, stages: Sequence[str], groups: Sequence[int]) -> LearnReply:
        names = {f"g{group:02d}" for group in groups}
        metrics = {
            name: value
            for name, value in self._line(round_).metrics.items()
            if name.split("/")[0] in stages and name.split("/")[-1] in names
        }
        return LearnReply(metrics=metrics)

    def _sample_reply(self, request: SampleTask | WholeTask, round_: int) -> SampleReply:
        sampling = request.sampling
        line, rollouts = self._line(round_), len(sampling.rollouts)
        episodes = sampling.num_envs * (sampling.rollout_length // self._spec.horizon)
        if sampling.fragments:
            episodes = line.episodes // line.rollouts
        agents = tuple(mean * episodes for mean in line.agent_returns)
        return SampleReply(
            env_steps=sampling.num_envs * sampling.rollout_length * rollouts,
            returns=(line.return_mean or 0.0,) * (episodes * rollouts),
            agent_returns=(agents,) * rollouts if agents else (),
            env_metrics=line.env_metrics,
            # Who would win is not known; a draw leaves ratings as they are.
            score=0.5 if isinstance(request, SampleTask) and request.match else None,
        )


def unstored(usage: Usage) -> Usage:
    """The operations of a task whose objects travel in its message."""
    return replace(usage, puts=0, bytes_written=0)
