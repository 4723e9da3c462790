"""The learner function: computes new policies and learner state from trajectories and the old learner state."""

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.adapters.state import first_state
from marless.functions.algorithms.specification import Share
from marless.functions.data.origins import read_sampled
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.data.replay_loading import keep, load_rounds, replay_buffer_of
from marless.functions.learner.partial_sums import micro_batches
from marless.functions.learner.regroup import regroup
from marless.functions.learner.update import read_base, split_by_lifetime, sums, update
from marless.functions.learner.whole_rounds import whole
from marless.functions.messages.learner import (
    InitialiseReply,
    InitialiseTask,
    LearnReply,
    LearnTask,
    RegroupTask,
    WholeTask,
)
from marless.functions.serving import Objects, Output, Tensors, read, serve
from marless.functions.storage_port import Blobs


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `InitialiseTask`, `LearnTask`, `WholeTask` or `RegroupTask`."""
    return serve(body, blobs, {InitialiseTask: initialise, LearnTask: learn, WholeTask: whole, RegroupTask: regroup})


def initialise(task: InitialiseTask, blobs: Blobs) -> tuple[Objects, InitialiseReply]:
    """Initialises the networks of round 0, each group's at its own random address."""
    learning, seed = task.learning, task.address.seed
    algorithm = algorithms.trained(learning)
    config = algorithms.configuration(algorithm, learning.hyperparameters).resolved(learning.spec)
    code = algorithms.implementation(algorithm)
    states = (code.initialise(learning.spec, task.team, config, seed, group) for group in task.team.learning)
    tensors: Tensors = {name: array for state in states for name, array in state.items()}
    if base := read_base(learning, task.team, blobs):
        tensors = first_state(tensors, base, task.rank, seed)
    policies, learner, _ = split_by_lifetime(tensors, algorithm.parts)
    return [Output("policies", policies), Output("learner", learner)], InitialiseReply()


def learn(task: LearnTask, blobs: Blobs) -> tuple[Objects, LearnReply]:
    """Runs the task's stages for its groups, or sums over a part of the round."""
    trajectories = read_sampled(blobs, task.trajectories, [task.sampled.round])
    learning, first = task.learning, task.first_update
    tensors = read(blobs, task.state + task.tensors) | read_base(learning, task.team, blobs)
    if task.partial is not None:
        part = micro_batches(task.rollouts, learning.micro_batch)[task.partial]
        part_sums = sums(task, task.address.round, part, trajectories, tensors, task.groups, task.progress)
        return [Output("tensors", part_sums)], LearnReply()
    share = Share(task.stages, task.groups, range(first, first + learning.updates), task.omissions)
    replay_buffer = _replay_buffer(task, trajectories, blobs)
    data = algorithms.implementation(algorithms.trained(learning)).join(learning.spec, trajectories, task.rollouts)
    outcome = update(task, task.address.round, share, data, tensors, replay_buffer, task.progress, task.age)
    policies, learner, round_local = split_by_lifetime(outcome.tensors, algorithms.trained(learning).parts)
    objects: Objects = [Output("policies", policies)] if policies else []
    if task.publish_tensors:
        objects.append(Output("tensors", round_local))
    return [*objects, Output("learner", learner)], LearnReply(metrics=outcome.metrics, tables=outcome.tables)


def _replay_buffer(task: LearnTask, trajectories: Tensors, blobs: Blobs) -> ReplayBuffer | None:
    """Return the replay buffer with the task's rollouts as its last, or None for algorithms without a buffer."""
    learning, newest = task.learning, task.sampled
    algorithm = algorithms.algorithm(learning.algorithm)
    if not algorithms.configuration(algorithm, learning.hyperparameters).replayed_steps:
        return None
    rounds = (*learning.past, newest)
    replay_buffer = replay_buffer_of(learning.spec, learning.past, newest)
    load_rounds(replay_buffer, rounds, {newest.round: trajectories}, blobs)
    keep(replay_buffer, rounds)
    return replay_buffer
