"""A round of every algorithm on a random task, from small networks, with the engine that its settings name."""

from functools import partial

import msgspec
import numpy as np

from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.data.replay_buffer import ReplayBuffer, rollout_keys
from marless.functions.data.trajectory import rollout_prefix, tensors_below
from marless.functions.learner import stages
from marless.functions.messages.learner import Past, newest_rounds
from marless.functions.policies import Policy
from marless.testing.algorithms.random_tasks import TASKS, RandomTask, teams

ROUND, ROLLOUTS, NUM_ENVS = 3, 2, 16
CHOICES, NUMBERS = "unequal agents with masks and a state", "numbers"
# A task for each algorithm.
SETTINGS = {
    "ippo": "several choices beside numbers",
    "mappo": CHOICES,
    "happo": CHOICES,
    "iql": CHOICES,
    "vdn": CHOICES,
    "qmix": CHOICES,
    "qplex": CHOICES,
    "pqn": CHOICES,
    "iddpg": NUMBERS,
    "maddpg": NUMBERS,
    "isac": NUMBERS,
    "masac": CHOICES,
    "bc": "several choices beside numbers",
}
# The first gradients of soft policies are small, and Adam divides by their size: an epsilon above them. Which of two
# critics has the lesser value may turn on a last bit: few updates.
_SOFT = {"adam_eps": 1e-3, "updates_per_round": 8}
COMPARABLE = {"isac": _SOFT, "masac": _SOFT, "bc": {"adam_eps": 1e-3}}


def as_precise(tensors, precision):
    return {name: array.astype(precision) if array.dtype.kind == "f" else array for name, array in tensors.items()}


def with_memory(name, settings):
    """Return the settings. Leave `recurrent` out if the algorithm has no such setting."""
    fields = algorithms.algorithm(name).config.__struct_fields__
    return {key: value for key, value in settings.items() if key != "recurrent" or key in fields}


def trained(name, precision, task=None, **settings):
    """The tensors after a round of small networks that begins after some rounds, and its metrics."""
    return prepared(name, precision, task, **settings)()


def require_alike(plain, other, tolerance):
    assert plain.tensors.keys() == other.tensors.keys() and plain.metrics.keys() == other.metrics.keys()
    for key, array in plain.tensors.items():
        assert other.tensors[key].dtype == array.dtype
        np.testing.assert_allclose(other.tensors[key], array, rtol=tolerance, atol=tolerance, err_msg=key)


def prepared(name, precision, task=None, own_start=False, **settings):
    """The call that trains for a round of small networks. Their first weights are numpy's, unless the engine has its
    `own_start`. Then only the engine's results depend on the machine, and there are no summaries."""
    spec = TASKS[SETTINGS[name]] if task is None else task
    team, algorithm = teams(spec)[1], algorithms.algorithm(name)
    few = {"updates_per_round": 12} if algorithm.config().replayed_steps else {}
    discount = {"gamma": 0.9} if "gamma" in algorithm.config.__struct_fields__ else {}
    settings = with_memory(name, {"hidden": [16, 16], **few, **discount, **settings})
    config = algorithms.configuration(algorithm, settings).resolved(spec)
    algorithm, code = algorithm.without(config.idle_parts), algorithms.implementation(algorithm)
    groups = sorted(set(team.groups))
    is_own = own_start or config.network != "mlp"
    state, first = {}, config if is_own else msgspec.structs.replace(config, engine="numpy")
    for group in groups:
        state |= code.initialise(spec, team, first, 1, group)
    policy, played = Policy(spec, team, {k: v for k, v in state.items() if k.startswith("policy/")}), {}
    for rollout in range(ROLLOUTS):
        behaviour = config.behaviour(0)
        played |= collect(RandomTask(spec, NUM_ENVS), policy, 10, 1, ROUND, rollout, behaviour).tensors
    played = as_precise(_redrawn(spec, played) if own_start else played, precision)
    replay = None
    if config.replayed_steps:
        replay = ReplayBuffer(spec)
        rounds = [Past(round=ROUND, rollouts=ROLLOUTS, trajectories=())]
        replay.load(
            rollout_keys(newest_rounds(rounds, NUM_ENVS * 10, config.replayed_steps)),
            lambda keys: {key: tensors_below(played, f"{rollout_prefix(key.rollout)}/") for key in keys},
        )
    context = Context(
        spec=spec, team=team, config=config, seed=1, round=ROUND,
        batch=batch.join(spec, played, range(ROLLOUTS)), tensors=as_precise(state, precision), replay_buffer=replay,
    )  # fmt: skip
    share = Share([stage.name for stage in algorithm.stages], groups, range(config.updates_per_round))
    return partial(stages.run, algorithm, code, context, share, () if own_start else algorithm.summaries)


def _redrawn(spec, played):
    """The rollouts with other numbers and legal actions, which are the same on every machine."""
    rng, redrawn = np.random.default_rng(5), dict(played)
    for key in sorted(played):
        array, (_, *_, part) = played[key], key.split("/")
        if array.dtype.kind == "f":
            redrawn[key] = (2 * rng.random(array.shape) - 1).astype(array.dtype)
        elif "/action/" in key:
            kind = spec.classes[int(part)]
            legal = played.get(key.replace("/action/", "/mask/"), np.True_)
            ranks = legal * rng.random((*array.shape[:3], kind.actions))
            ends = np.cumsum(kind.branches)[:-1].astype(int)
            choices = [choice.argmax(axis=-1) for choice in np.split(ranks, ends, axis=-1)]
            redrawn[key] = np.stack(choices, axis=-1).reshape(array.shape).astype(array.dtype)
    return redrawn
