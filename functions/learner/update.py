"""Learning: computes new tensors from a round's data and the current tensors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.adapters.state import frozen_networks, whole_networks, without_whole_networks
from marless.functions.algorithms.specification import AlgorithmConfig, Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.batch import Batch
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.learner import stages
from marless.functions.learner.partial_sums import MicroBatch, folding, make_sums
from marless.functions.messages.learner import Learning, LearnTask, WholeTask
from marless.functions.messages.team import Team
from marless.functions.serving import Tensors, read
from marless.functions.storage_port import Blobs


def update(
    task: LearnTask | WholeTask,
    round_: int,
    share: Share,
    data: Batch,
    tensors: Tensors,
    replay_buffer: ReplayBuffer | None = None,
    progress: float = 0.0,
    age: int = 0,
) -> stages.StageResults:
    """Runs `share` of round `round_` on its `data` and on `replay_buffer`, pure.

    `progress` is the share of the run that is over before the round, and `age` how many rounds before it sampled the
    data.
    """
    learning = task.learning
    algorithm = algorithms.trained(learning)
    context = _context(task, round_, data, tensors, progress)
    context = replace(context, replay_buffer=replay_buffer, age=age)
    code = algorithms.implementation(algorithm)
    if learning.micro_batch:
        code = folding(algorithm, code, context, share, -(-data.rollouts // learning.micro_batch))
    outcome = stages.run(algorithm, code, context, share, learning.summaries)
    return outcome._replace(tensors=without_whole_networks(outcome.tensors, tensors)) if learning.base else outcome


def sums(
    task: LearnTask | WholeTask,
    round_: int,
    part: MicroBatch,
    trajectories: Tensors,
    tensors: Tensors,
    groups: Sequence[int],
    progress: float = 0.0,
) -> Tensors:
    """The sums of the groups over a micro-batch of round `round_`, for `update`, pure."""
    algorithm = algorithms.trained(task.learning)
    code = algorithms.implementation(algorithm)
    data = code.join(task.learning.spec, trajectories, part.rollouts)
    context = replace(_context(task, round_, data, tensors, progress), part=part.place)
    return make_sums(algorithm, code, context, part.number, groups)


def _context(
    task: LearnTask | WholeTask, round_: int, data: Batch, tensors: Tensors, progress: float
) -> Context[AlgorithmConfig]:
    learning = task.learning
    algorithm = algorithms.algorithm(learning.algorithm)
    return Context(
        spec=learning.spec,
        team=task.team,
        config=algorithms.configuration(algorithm, learning.hyperparameters).resolved(learning.spec).at(progress),
        seed=task.address.seed,
        round=round_,
        batch=data,
        tensors={**tensors, **whole_networks(tensors)} if learning.base else tensors,
        rows=learning.rows,
    )


def read_base(learning: Learning, team: Team, blobs: Blobs) -> Tensors:
    """Return the frozen networks of the team's groups, by name. Empty if networks have no base."""
    base = learning.base
    return frozen_networks(read(blobs, (base.networks,)), base.team, team) if base else {}


def split_by_lifetime(tensors: Tensors, parts: Sequence[str]) -> tuple[Tensors, Tensors, Tensors]:
    """The policies, the learner state that lasts from round to round, and the tensors of this round only."""
    policies, learner, round_local = Tensors(), Tensors(), Tensors()
    for name, array in tensors.items():
        part = name.split("/", 1)[0]
        target = policies if part == "policy" else learner if part in parts else round_local
        target[name] = array
    return policies, learner, round_local


def as_stored(tensors: Tensors) -> Tensors:
    """The tensors with the memory layout they have after storage, which can change the last bits of a sum."""
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}
