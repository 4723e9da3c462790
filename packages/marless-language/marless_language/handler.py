"""The language function: for agents that speak it does the work of actors, learners and evaluators."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.functions.actor.match import earlier_agents, mean_score
from marless.functions.data.origins import origin, policies_sha256
from marless.functions.data.trajectory import EARLIER, rollout_prefix
from marless.functions.environments.base import EnvironmentFault, EnvSpec, EnvTask
from marless.functions.environments.spec_check import require_playable
from marless.functions.errors import BadRequest
from marless.functions.learner import handler as learner
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.learner import InitialiseTask, LearnTask
from marless.functions.randomness import generator
from marless.functions.serving import Objects, Output, Tensors, Work, read, serve
from marless.functions.storage_port import Blobs
from marless_language.bound_model import MODELS
from marless_language.episodes import Episodes, spec_of
from marless_language.errors import UnusableBase
from marless_language.playing import Transcript, Voice, play, voices, with_earlier
from marless_language.protocol import LanguageTask
from marless_language.registry import make
from marless_language.trajectories import tensors_of

# Episodes that are evaluated together. More would not be faster.
BLOCK = 256


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `DescribeTask`, `InitialiseTask`, `SampleTask`, `LearnTask` or `EvaluateTask` that names a
    language model."""
    works: dict[Any, Work] = {
        DescribeTask: describe,
        InitialiseTask: learner.initialise,
        SampleTask: sample,
        LearnTask: learner.learn,
        EvaluateTask: evaluate,
    }
    return serve(body, blobs, {kind: _speaking(work) for kind, work in works.items()})


def _speaking(work: Work) -> Work:
    """`work` within which the task speaks by its model."""

    def bound(task: Any, blobs: Blobs) -> Any:
        if task.model is None:
            raise BadRequest("the task names no language model")
        with MODELS.bind(task.model, blobs):
            try:
                return work(task, blobs)
            except UnusableBase as error:
                raise BadRequest(str(error)) from error

    return bound


def describe(task: DescribeTask, blobs: Blobs) -> tuple[Objects, DescribeReply]:
    """The roles as agents. Raises `BadRequest` for a base with another vocabulary, or too long prompts."""
    spec = _env_spec(task.environment)
    require_playable(task.evaluated, spec, lambda environment: _as_long(_env_spec(environment), spec))
    return [], DescribeReply(spec=spec)


def _env_spec(environment: EnvTask) -> EnvSpec:
    language_task, base = _task(environment), MODELS.speaker.base
    if language_task.context > base.context:
        raise BadRequest(
            f"{environment.name}: a prompt with its reply has {language_task.context} tokens, and the base reads"
            f" {base.context}; name another base.model"
        )
    return spec_of(language_task)


def _as_long(spec: EnvSpec, other: EnvSpec) -> EnvSpec:
    """Return `spec` with texts as long as the other's, because agents that speak read texts of any length."""
    size = other.classes[0].observation_size
    return replace(spec, classes=tuple(replace(kind, observation_size=size) for kind in spec.classes))


def _task(environment: EnvTask) -> LanguageTask:
    return make(environment, MODELS.speaker.base.tokenizer)


def sample(task: SampleTask, blobs: Blobs) -> tuple[Objects, SampleReply]:
    """Plays the task's rollouts, each by itself: its bytes do not depend on others. Raises the errors of tasks."""
    weights = read(blobs, task.policies)
    every, origin_ = voices(task.team, weights), origin(task, weights, task.address.round)
    marks: Tensors = {}
    if task.match:
        earlier = read(blobs, task.match.policies)
        every = with_earlier(every, task.match, earlier)
        origin_ = replace(origin_, opponents=policies_sha256(earlier, task.match.team))
        names = [f"{rollout_prefix(number)}/{EARLIER}" for number in task.sampling.rollouts]
        marks = dict.fromkeys(names, earlier_agents(task.match))
    rollouts = [_rollout(task, every, number) for number in task.sampling.rollouts]
    tensors = marks
    for number, transcript in zip(task.sampling.rollouts, rollouts, strict=True):
        tensors |= tensors_of(number, transcript.turns, transcript.outcome.rewards)
    returns = [transcript.outcome.rewards for transcript in rollouts]
    score = mean_score(task.match, returns) if task.match else None
    reply = SampleReply(
        env_steps=sum(transcript.replies for transcript in rollouts),
        returns=_returns(np.concatenate(returns)),
        agent_returns=tuple(tuple(part.sum(axis=0).tolist()) for part in returns),
        env_metrics=_env_metrics(task.sampling.environment.name, rollouts),
        score=score,
    )
    return [Output("trajectory", tensors, (origin_,))], reply


def _rollout(task: SampleTask, every: Sequence[Voice], number: int) -> Transcript:
    seed, round_, sampling = task.address.seed, task.address.round, task.sampling
    return play(
        MODELS.speaker,
        _episodes(sampling.environment),
        every,
        generator(seed, round_, "environment", number),
        lambda turn: generator(seed, round_, "replies", number, turn),
        sampling.num_envs,
        sampling.copies,
    )


def _episodes(environment: EnvTask) -> Episodes:
    return Episodes(environment.name, _task(environment), MODELS.speaker.base.context)


def evaluate(task: EvaluateTask, blobs: Blobs) -> tuple[Objects, EvaluateReply]:
    """Plays the task's episodes in blocks. Each block has its own random address."""
    every = voices(task.team, read(blobs, task.policies), task.greedy)
    episodes, blocks = _episodes(task.environment), list[Transcript]()
    for block, first in enumerate(range(0, task.episodes, BLOCK)):
        address = (task.address.seed, "evaluate", task.stream, task.address.round, task.part, block)
        count = min(BLOCK, task.episodes - first)
        blocks.append(play(MODELS.speaker, episodes, every, generator(*address), _luck(address), count))
    rewards = np.concatenate([transcript.outcome.rewards for transcript in blocks])
    return [], EvaluateReply(
        returns=_returns(rewards[:, _side(task)]),
        agent_returns=tuple(rewards.mean(axis=0).tolist()),
        env_metrics=_env_metrics(task.environment.name, blocks),
    )


def _luck(address: tuple[int | str, ...]) -> Callable[[int], np.random.Generator]:
    return lambda turn: generator(int(address[0]), *address[1:], "replies", turn)


def _side(task: EvaluateTask) -> NDArray[np.bool_]:
    """Return which roles' returns count. Raises `BadRequest` if the side is unknown."""
    sides = np.array(_task(task.environment).sides, int)
    if task.side is None:
        return np.ones(len(task.team.groups), np.bool_)
    if task.side not in sides:
        raise BadRequest(f"the task has no side {task.side}")
    return np.asarray(sides == task.side)


def _returns(rewards: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(rewards.sum(axis=1).tolist())


def _env_metrics(task: str, parts: Sequence[Transcript]) -> dict[str, float]:
    """Means over the episodes. Raises `EnvironmentFault` if some episodes have other metrics."""
    names = {*parts[0].outcome.metrics}
    if other := next((names ^ {*part.outcome.metrics} for part in parts if names ^ {*part.outcome.metrics}), None):
        raise EnvironmentFault(f"{task}, reply: metric {min(other)} is returned of some episodes alone")
    return {name: float(np.concatenate([part.outcome.metrics[name] for part in parts]).mean()) for name in names}
