"""Rounds of sampling and learning in one invocation, which returns the networks of the last round only.

MARLess (SoCC 2025) has a function for every actor and every learner of a round. Where rounds are short, starting
functions and passing objects between them costs more than the rounds themselves.
"""

from functions.actor.handler import Played, play, unfinished_object
from functions.actor.recorded import recorded_rollouts
from functions.algorithms import registry as algorithms
from functions.algorithms.specification import Share
from functions.contract import LearnReply, Past, SampleReply, Team, WholeReply, WholeTask
from functions.data.replay_buffer import ReplayBuffer, newest_rounds
from functions.data.replay_loading import keep, load_rounds, named_by_round, replay_buffer_of
from functions.isolation.keeper import restore
from functions.keys import group_name
from functions.learner.update import as_stored, split_by_lifetime, update
from functions.ports import Blobs
from functions.serving import Objects, Tensors, read


def whole(task: WholeTask, blobs: Blobs) -> tuple[Objects, WholeReply]:
    """Samples and learns the task's rounds; returns all parts of all groups after the last, and every round's replies.

    Every round gives the same bytes as a `SampleTask` and `LearnTask`s.
    """
    algorithm = algorithms.algorithm(task.algorithm)
    share = Share([stage.name for stage in algorithm.stages], task.team.learning, range(task.updates))
    known = read(blobs, task.state)
    dataset = read(blobs, (task.recorded.dataset,), lasting=True) if task.recorded else {}
    replay = _Replay(task, blobs) if task.replayed_steps else None
    samples: list[SampleReply] = []
    learns: list[LearnReply] = []
    progress = task.progress or (0.0,) * task.rounds
    played = Played({}, SampleReply(env_steps=0), read(blobs, task.unfinished))
    for round_, (behaviour, over) in enumerate(zip(task.behaviours, progress, strict=True), start=task.round):
        if task.recorded:
            played = Played(*recorded_rollouts(task, task.recorded, dataset, round_ - task.round), {})
        else:
            played = play(task, known, round_, behaviour, played.unfinished)
        restore()
        replay_buffer = replay.with_round(round_, played.trajectories) if replay else None
        outcome = update(task, round_, share, played.trajectories, known, replay_buffer, over)
        policies, learner, _ = split_by_lifetime(outcome.tensors, algorithm.parts)
        known = {**known, **as_stored(policies), **as_stored(learner)}
        samples.append(played.reply)
        learns.append(LearnReply(metrics=outcome.metrics, tables=outcome.tables))
    policies, learner, _ = split_by_lifetime(_learned(known, task.team), algorithm.parts)
    objects = unfinished_object(task, played.unfinished)
    if replay:
        replay.keep()
        objects.append(("played", replay.played))
    reply = WholeReply(samples=tuple(samples), learns=tuple(learns))
    return [*objects, ("policies", policies), ("learner", learner)], reply


def _learned(known: Tensors, team: Team) -> Tensors:
    """The tensors without the policies of opponents, which do not change."""
    opponents = {group_name(agent) for agent in team.fixed}
    return {name: array for name, array in known.items() if name.split("/")[1] not in opponents}


class _Replay:
    """The replay buffer during one task, and the trajectories of the task's rounds."""

    def __init__(self, task: WholeTask, blobs: Blobs) -> None:
        self._task, self._blobs, self._rounds = task, blobs, task.past
        self._replay_buffer = replay_buffer_of(task.spec, task.past)
        self.played: Tensors = {}

    def with_round(self, round_: int, trajectories: Tensors) -> ReplayBuffer:
        """The replay buffer with one more round."""
        task = self._task
        # Without references, because the trajectory is not stored yet; later tasks read it from storage.
        own = Past(round=round_, rollouts=len(task.rollouts), trajectories=())
        self._rounds = newest_rounds((*self._rounds, own), task.num_envs * task.rollout_length, task.replayed_steps)
        self.played |= named_by_round(trajectories, round_)
        load_rounds(self._replay_buffer, self._rounds, {round_: trajectories}, self._blobs)
        return self._replay_buffer

    def keep(self) -> None:
        """Keeps the rounds that are stored for later tasks."""
        keep(self._replay_buffer, self._rounds)
