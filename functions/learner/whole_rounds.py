"""Rounds of sampling and learning in one invocation, which returns the networks of the last round only.

MARLess (SoCC 2025) has a function for every actor and every learner of a round. Where rounds are short, starting
functions and passing objects between them costs more than the rounds themselves.
"""

from marless.functions.actor.handler import Rollouts, unfinished_object
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.data import batch
from marless.functions.data.origins import origin
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.data.replay_loading import keep, load_rounds, named_by_round, replay_buffer_of
from marless.functions.isolation.process_guard import restore
from marless.functions.keys import group_name
from marless.functions.learner.partial_sums import micro_batches
from marless.functions.learner.update import as_stored, read_base, split_by_lifetime, sums, update
from marless.functions.messages.actor import SampleReply
from marless.functions.messages.exchange import Origin
from marless.functions.messages.learner import LearnReply, Past, WholeReply, WholeTask, newest_rounds
from marless.functions.messages.team import Team
from marless.functions.serving import Objects, Output, Tensors, read
from marless.functions.storage_port import Blobs


def whole(task: WholeTask, blobs: Blobs) -> tuple[Objects, WholeReply]:
    """Samples and learns the task's rounds. Returns all parts of all groups after the last, and every round's replies.

    Every round gives the same bytes as a `SampleTask` and `LearnTask`s.
    """
    sampling, learning = task.sampling, task.learning
    algorithm = algorithms.trained(learning)
    share = Share([stage.name for stage in algorithm.stages], task.team.learning, range(learning.updates))
    tensors = read(blobs, task.state) | read_base(learning, task.team, blobs)
    replay = _Replay(task, blobs) if task.replayed_steps else None
    samples: list[SampleReply] = []
    learns: list[LearnReply] = []
    progress = task.progress or (0.0,) * task.rounds
    sampler = Rollouts(task, blobs)
    for round_, (behaviour, over) in enumerate(zip(task.behaviours, progress, strict=True), start=task.address.round):
        rollouts = sampler.play(tensors, round_, behaviour)
        restore()
        replay_buffer = replay.with_round(origin(task, tensors, round_), rollouts.trajectories) if replay else None
        data = batch.join(learning.spec, rollouts.trajectories, sampling.rollouts)
        round_sums = _sums(task, round_, rollouts.trajectories, tensors, over)
        outcome = update(task, round_, share, data, {**tensors, **round_sums}, replay_buffer, over)
        policies, learner, _ = split_by_lifetime(outcome.tensors, algorithm.parts)
        tensors = {**tensors, **as_stored(policies), **as_stored(learner)}
        samples.append(rollouts.reply)
        learns.append(LearnReply(metrics=outcome.metrics, tables=outcome.tables))
    policies, learner, _ = split_by_lifetime(_learner_tensors(tensors, task.team), algorithm.parts)
    objects = unfinished_object(task, sampler.open_episodes)
    if replay:
        replay.keep()
        objects.append(Output("played", replay.played, tuple(replay.origins)))
    reply = WholeReply(samples=tuple(samples), learns=tuple(learns))
    return [*objects, Output("policies", policies), Output("learner", learner)], reply


def _sums(task: WholeTask, round_: int, trajectories: Tensors, tensors: Tensors, progress: float) -> Tensors:
    """The sums of all the round's micro-batches. None where the round is learned from at once."""
    parts = micro_batches(task.sampling.rollouts, task.learning.micro_batch)
    by_part = (sums(task, round_, part, trajectories, tensors, task.team.learning, progress) for part in parts)
    return {name: array for of_part in by_part for name, array in of_part.items()}


def _learner_tensors(tensors: Tensors, team: Team) -> Tensors:
    """Return the tensors without the opponents' constant policies."""
    opponents = {group_name(agent) for agent in team.fixed}
    return {name: array for name, array in tensors.items() if name.split("/")[1] not in opponents}


class _Replay:
    """The replay buffer during one task, and the trajectories of the task's rounds."""

    def __init__(self, task: WholeTask, blobs: Blobs) -> None:
        self._task, self._blobs, self._rounds = task, blobs, task.learning.past
        self._replay_buffer = replay_buffer_of(task.learning.spec, task.learning.past)
        self.played: Tensors = {}
        self.origins: list[Origin] = []

    def with_round(self, origin_: Origin, trajectories: Tensors) -> ReplayBuffer:
        """The replay buffer with one more round."""
        round_ = origin_.round
        self.origins.append(origin_)
        sampling, most = self._task.sampling, self._task.replayed_steps
        # Without references, because the trajectory is still here. Later tasks read it from storage.
        newest = Past(round=round_, rollouts=len(sampling.rollouts), trajectories=())
        self._rounds = newest_rounds((*self._rounds, newest), sampling.num_envs * sampling.rollout_length, most)
        self.played |= named_by_round(trajectories, round_)
        load_rounds(self._replay_buffer, self._rounds, {round_: trajectories}, self._blobs)
        return self._replay_buffer

    def keep(self) -> None:
        """Keeps the rounds that are stored for later tasks."""
        keep(self._replay_buffer, self._rounds)
