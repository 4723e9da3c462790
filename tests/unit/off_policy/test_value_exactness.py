"""Value methods in stages: the same weights as a plain loop with automatic differentiation, and the same bytes under
every placement of stages."""

from dataclasses import replace

import numpy as np
import pytest
from plain_values import Plain
from synthetic import meddled
from value_scenes import APART, FIRST, NUM_ENVS, STEPS, TOGETHER, WIDE, Scene

from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.off_policy.target_networks import observation_inputs
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.value import decomposition_stages
from marless.functions.algorithms.value.utilities import agent_utilities
from marless.functions.learner import stages
from marless.functions.messages.exchange import TaskHeader
from marless.functions.nn import recurrent
from marless.functions.randomness import generator

NAMES = ("iql", "vdn", "qmix", "qplex")


def as_plain(scene, rounds=2):
    config = scene.config
    length = config.sequence_length or (STEPS if config.recurrent else 1)
    plain = Plain(scene.name, scene.spec, scene.team, config, scene.tensors, scene.rollouts)
    for round_ in range(FIRST, FIRST + rounds):
        for update in range(config.updates_per_round):
            plain.update(scene.context(round_, {}, update), length)
    return plain


CASES = {
    "one step ahead": {},
    "huber, not double": {"huber_delta": 0.3, "double": False, "max_grad_norm": WIDE},
    "three steps ahead": {"sequence_length": 3, "n_step": 3},
    "three steps ahead, time limits are ends": {"sequence_length": 6, "n_step": 3, "time_limit": "terminal"},
    "two steps ahead in segments of three, hard targets": {
        "sequence_length": 3,
        "n_step": 2,
        "target_update_interval": 3,
    },
    "fast targets, rewards as they are": {"tau": 0.5, "standardise_rewards": False, "gamma": 1.0},
    "time limits are ends": {"time_limit": "terminal"},
    "mixed returns": {"td_lambda": 0.7, "sequence_length": 6},
    "mixed returns, time limits are ends": {"td_lambda": 0.4, "sequence_length": 6, "time_limit": "terminal"},
    "recurrent": {"recurrent": True, "batch_size": 4},
    "recurrent, burn-in": {"recurrent": True, "sequence_length": 3, "burn_in": 1, "n_step": 2, "huber_delta": 1.0},
    "recurrent over three steps, not double": {
        "recurrent": True,
        "n_step": 3,
        "double": False,
        "batch_size": 3,
        "hidden": [4],
    },
    "burn-in without hidden state": {"sequence_length": 2, "burn_in": 1},
    "priorities": {"priority": 0.7, "priority_beta": 0.5, "priority_steps": 100},
    "priorities of segments": {"priority": 1.0, "sequence_length": 3, "n_step": 2, "burn_in": 1, "huber_delta": 0.3},
    "priorities, recurrent": {"priority": 0.5, "priority_steps": 1, "recurrent": True, "batch_size": 3, "n_step": 2},
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_stages_give_weights_of_one_joint_loss(name, case):
    equals_plain(Scene(name, **CASES[case]))


@pytest.mark.parametrize("team", [APART, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
@pytest.mark.parametrize("name", NAMES)
def test_stages_equal_joint_loss_for_teams_and_sides(name, sides, team):
    equals_plain(Scene(name, team, sides, sequence_length=2, n_step=2))


@pytest.mark.parametrize("team", [APART, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("name", NAMES)
def test_stages_equal_joint_loss_with_own_priorities(name, team):
    equals_plain(Scene(name, team, (0, 1, 0, 1), priority=0.8, sequence_length=2, updates_per_round=4))


def test_so_do_independent_learners_of_their_own_rewards():
    equals_plain(Scene("iql", reward="own", sequence_length=2))
    equals_plain(Scene("iql", reward="own", sequence_length=2, first=True))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", ["one step ahead", "time limits are ends", "recurrent, burn-in"])
@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
@pytest.mark.parametrize("name", NAMES)
def test_stages_equal_joint_loss_from_first_update(name, sides, case):
    equals_plain(Scene(name, sides=sides, first=True, **CASES[case]))


@pytest.mark.parametrize("hyper", [0, 6])
def test_mixer_equals_joint_loss_with_any_hypernetwork(hyper):
    equals_plain(Scene("qmix", hypernet_embed=hyper, mixing_embed_dim=3))
    equals_plain(Scene("qplex", hypernet_embed=hyper, mixing_heads=2))


def equals_plain(scene):
    (found, metrics), plain = scene.learned(), as_plain(scene)
    assert found.keys() == plain.tensors.keys()
    for key, array in plain.tensors.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-10, atol=1e-13, err_msg=key)
        # Every network changed.
        assert not array.size or not np.array_equal(found[key], scene.tensors[key]), key
    norms = {key: value for key, value in metrics.items() if "grad_norm" in key}
    assert norms == {metric_of(key): pytest.approx(norm, rel=1e-9) for key, norm in plain.norms.items()}
    for key, capped in plain.capped.items():  # the norm cap clipped gradients
        assert capped == 0 if scene.config.max_grad_norm == WIDE else capped > 0, (key, capped)


def metric_of(network):
    part, group = network.split("/")
    return f"mix/mixer_grad_norm/{group}" if part == "mixer" else f"policy/policy_grad_norm/{group}"


def through_storage(tensors):
    return codec.decode(codec.encode(tensors, TaskHeader(task="t")), "t")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_the_same_wherever_stages_run(name, case):
    for dtype in (np.float32, np.float64):
        scene = Scene(name, dtype=dtype, **CASES[case])
        together = scene.run("packed", rounds=1)
        for rule in ("split", "fused"):
            same_bytes(scene.run(rule, rounds=1, stored=through_storage), together)
        assert {array.dtype for key, array in together.items() if key.startswith("policy/")} == {np.dtype(dtype)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
@pytest.mark.parametrize("team", [APART, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_the_same_for_every_team(name, team, sides):
    for settings in ({"batch_size": 1}, {"priority": 0.6}):
        scene = Scene(name, team, sides, dtype=np.float32, **settings)
        same_bytes(scene.run("split", stored=through_storage), scene.run("packed"))


def same_bytes(found, expected):
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape), key
        assert found[key].tobytes() == array.tobytes(), key


@pytest.mark.parametrize("name", NAMES)
def test_priority_settings_change_nothing_with_uniform_draws(name):
    found = Scene(name, priority_beta=0.9, priority_steps=3).run()
    same_bytes(found, Scene(name).run())
    assert not any(key.startswith("priorities/") for key in found)


def test_joint_learners_share_priorities_and_others_do_not():
    for name, kinds in (("iql", 4), ("vdn", 2), ("qmix", 2), ("qplex", 2)):
        found = Scene(name, APART, (0, 1, 0, 1), priority=1.0).run()
        assert len({found[f"priorities/g{group:02d}/values"].tobytes() for group in range(4)}) == kinds


@pytest.mark.parametrize("state_size", [3, 0])
@pytest.mark.parametrize("case", ["one step ahead", "three steps ahead", "recurrent", "recurrent, burn-in"])
@pytest.mark.parametrize("name", NAMES)
def test_data_of_dead_agents_change_no_value_byte(name, case, state_size):
    scene = Scene(name, state_size=state_size, **CASES[case])
    rollouts = [meddled(scene.spec, rollout) for rollout in scene.rollouts]
    other = Scene(name, rollouts=rollouts, state_size=state_size, **CASES[case])
    assert any(not rollout["alive"].all() for rollout in scene.rollouts)
    same_bytes(other.run(), scene.run())


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_drawn_changes_no_byte(name):
    """A minibatch of two steps out of 54: the other rows have no effect."""
    scene = Scene(name, batch_size=2, updates_per_round=1)
    batch = scene.replay_buffer.sample(generator(5, FIRST, "replay", 0), 2)
    wanted = {float(value) for value in batch.observations[0][0, 0, :, 0]}
    rollouts = []
    for rollout_ in scene.rollouts:
        found = {key: array.copy() for key, array in rollout_.items()}
        keep = np.isin(found["observation/0"][0, ..., 0], list(wanted))
        assert keep.sum() <= 2
        found["reward"][:, ~keep] += 1000
        rollouts.append(found)
    same_bytes(Scene(name, batch_size=2, updates_per_round=1, rollouts=rollouts).run(rounds=1), scene.run(rounds=1))


@pytest.mark.parametrize(("rule", "passes"), [("packed", 1), ("split", 2)])
@pytest.mark.parametrize("name", ["vdn", "qmix", "qplex"])
def test_single_function_computes_minibatch_utilities_once(name, rule, passes, monkeypatch):
    scene, made = Scene(name), []

    def counted(context, group, **settings):
        made.append(context.update)
        return agent_utilities(context, group, **settings)

    monkeypatch.setattr(decomposition_stages, "agent_utilities", counted)
    scene.run(rule, rounds=1)
    # A second set from the round's own data, in its last update, for the metrics.
    for update, whole in ((0, 0), (1, 1)):
        assert made.count(update) == (passes + whole) * len(set(scene.team.groups))


def test_gradient_of_sum_is_own_for_each_network():
    """VDN: the gradient is the same for all living agents, so a network does not depend on another's weights."""
    scene = Scene("vdn", APART, sequence_length=2, n_step=2)
    code, groups = algorithms.implementation(scene.algorithm), (0, 1, 2, 3)
    known = dict(scene.tensors)
    for names in (("utility",), ("mix",)):
        share = Share(names, groups, range(1))
        known |= stages.run(scene.algorithm, code, scene.context(FIRST, known), share).tensors
    gradients = np.concatenate([known[f"gradient/g{group:02d}"] for group in groups])
    alive = scene.replay_buffer.sample(generator(5, FIRST, "replay", 0), 7, 2).alive
    for t, b in np.ndindex(alive.shape[1:]):
        assert len({*gradients[alive[:, t, b], t, b].tolist()}) <= 1
    assert not gradients[~alive].any() and gradients[alive].any()


def test_a_stage_leaves_the_minibatch_as_it_was():
    """All stages of an update share arrays. None may write into them."""
    for name in NAMES:
        scene = Scene(name, recurrent=True, burn_in=1, n_step=2)
        drawn = scene.replay_buffer.sample

        def frozen(*arguments, drawn=drawn):
            batch = drawn(*arguments)
            for value in vars(batch).values():
                for array in value if isinstance(value, tuple) else (value,):
                    if isinstance(array, np.ndarray):
                        array.flags.writeable = False
            return batch

        scene.replay_buffer.sample = frozen
        scene.run()


@pytest.mark.parametrize("name", NAMES)
def test_segments_at_episode_starts_unroll_like_whole_rollouts(name):
    scene = Scene(name, recurrent=True)
    rollouts = [{**rollout, "ended": np.zeros((STEPS, NUM_ENVS), bool)} for rollout in scene.rollouts]
    for rollout_ in rollouts:
        rollout_["ended"][[1, 3]] = True  # episodes of two steps each
    scene = Scene(name, recurrent=True, rollouts=rollouts)
    weights = recurrent.weights_of(scene.tensors, "policy/g00")

    def values(first, length):
        context = replace(scene.context(FIRST, scene.tensors), batch=scene.replay_buffer.segments_from(first, length))
        outputs, _ = observation_inputs(context, 0).unroll(weights)
        return outputs.reshape(length, 2, len(first), -1)  # group 0 has two agents

    whole = values(np.arange(NUM_ENVS), STEPS)
    for begin in range(0, STEPS, 2):
        part = values(begin * NUM_ENVS + np.arange(NUM_ENVS), 2)
        np.testing.assert_allclose(part, whole[begin : begin + 2], rtol=1e-12)
        if begin:  # a segment that starts within an episode has no earlier hidden state
            assert not np.allclose(values((begin - 1) * NUM_ENVS + np.arange(NUM_ENVS), 1), whole[begin - 1 : begin])
