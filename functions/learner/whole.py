"""Rounds of sampling and learning in one function: only the last round's networks leave it.

MARLess (SoCC 2025) has a function for every actor and every learner of a round. Where rounds are short, starting
functions and passing objects between them costs more than the rounds themselves.
"""

from functions.actor.handler import play
from functions.algorithms import registry as algorithms
from functions.contract import LearnReply, SampleReply, WholeReply, WholeTask
from functions.learner.update import as_stored, sorted_out, update
from functions.ports import Blobs
from functions.serving import Objects, read


def whole(task: WholeTask, blobs: Blobs) -> tuple[Objects, WholeReply]:
    """Plays and learns the task's rounds; all parts of all groups after the last, and what every round gave.

    Byte for byte what a `SampleTask` and `LearnTask`s of their own give in every round.
    """
    algorithm = algorithms.algorithm(task.algorithm)
    stages, groups = [stage.name for stage in algorithm.stages], sorted(set(task.team.groups))
    known = read(blobs, task.state)
    samples: list[SampleReply] = []
    learns: list[LearnReply] = []
    for round_ in range(task.round, task.round + task.rounds):
        trajectories, sampled = play(task, known, round_)
        outcome = update(task, round_, stages, groups, trajectories, known)
        policies, learner, _ = sorted_out(outcome.tensors, algorithm.parts)
        known = {**known, **as_stored(policies), **as_stored(learner)}
        samples.append(sampled)
        learns.append(LearnReply(figures=outcome.figures, tables=outcome.tables))
    policies, learner, _ = sorted_out(known, algorithm.parts)
    return [("policies", policies), ("learner", learner)], WholeReply(samples=tuple(samples), learns=tuple(learns))
