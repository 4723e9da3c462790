"""Metrics of agents: by hand, and against their group's metrics in every algorithm."""

import dataclasses

import numpy as np
import pytest
import synthetic
from value_scenes import APART, NUM_ENVS, PAIRED, STEPS, TOGETHER, Scene

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.metrics import MOST_AGENTS, ByAgent, explained_variance
from marless.functions.algorithms.off_policy.replay_minibatch import with_minibatch
from marless.functions.algorithms.off_policy.reward_scale import RewardScale
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages
from marless.functions.randomness import generator


def test_explained_variance_equals_hand_computation():
    # Targets 0 and 2 have variance 1. The residuals of values 0 and 1 are 0 and 1, with variance ¼.
    assert explained_variance(np.array([0.0, 1.0]), np.array([0.0, 2.0])) == 0.75
    assert explained_variance(np.array([7.0, 7.0]), np.array([0.0, 2.0])) == 0.0  # a constant explains nothing
    assert explained_variance(np.array([5.0, 7.0]), np.array([0.0, 2.0])) == 1.0  # a constant offset does not count
    assert explained_variance(np.array([0.0, -2.0]), np.array([0.0, 2.0])) == -3.0
    assert explained_variance(np.empty(0), np.empty(0)) == 0.0


def test_agent_metrics_equal_hand_computation():
    counted = np.array([[[True, True]], [[False, True]], [[False, False]]])
    rows = ByAgent.of([1, 4, 5], counted)  # two rows of agent 1, one of 4, none of 5
    assert rows.means({"kl": np.array([1.0, 3.0, 8.0])}) == {"kl": 4.0, "kl_a01": 2.0, "kl_a04": 8.0, "kl_a05": 0.0}
    # All three: values 0, 1, 3 for targets 0, 2, 4 leave 0, 1, 1 with variance 2/9. The targets' variance is 8/3.
    assert rows.explained_variance(np.array([0.0, 1, 3]), np.array([0.0, 2, 4])) == {
        "explained_variance": pytest.approx(1 - (2 / 9) / (8 / 3)), "explained_variance_a01": 0.75,
        "explained_variance_a04": 1.0, "explained_variance_a05": 0.0,
    }  # fmt: skip


def test_single_agents_and_large_groups_have_group_metrics():
    for agents in ([3], [], list(range(MOST_AGENTS + 1))):
        rows = ByAgent.of(agents, np.ones((len(agents) or 1, 2, 1), bool))
        values = np.arange(float(rows.counts.sum()))
        assert rows.means({"kl": values}) == {"kl": values.mean()}
        assert rows.explained_variance(values, values) == {"explained_variance": 1.0}


PPO_FIGURES = ("policy/entropy", "policy/clip_fraction", "policy/kl")


@pytest.mark.parametrize("recurrent", [False, True], ids=["rows", "stretches"])
@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_weighted_ppo_agent_metrics_equal_group_metrics(name, recurrent):
    settings = {
        "hidden": [5],
        "num_minibatches": 3,
        "epochs": 2,
        "lr": 0.05,
        "clip_coef": 0.05,
        "recurrent": recurrent,
        "data_chunk_length": 4,
    }
    context, algorithm = synthetic.context(name, synthetic.spec("one choice", masked=True), settings)
    found = figures_of(context, algorithm, range(1))
    living = [int(context.batch.alive[agent].sum()) for agent in (0, 2)]
    assert living[0] != living[1]
    for figure in PPO_FIGURES:
        each = [found[f"{figure}_a{agent:02d}/g00"] for agent in (0, 2)]
        assert each[0] != each[1]
        assert found[f"{figure}/g00"] == pytest.approx(np.average(each, weights=living), rel=1e-12)
        assert f"{figure}_a01/g01" not in found  # a group of one agent has only group metrics
    assert {f"postprocess/explained_variance_a{agent:02d}/g00" for agent in (0, 2)} <= found.keys()


def test_agent_metrics_equal_those_of_agent_alone():
    """Fixed weights, and advantages that are normalised over the group: only these depend on the other agent."""
    settings = {"hidden": [5], "num_minibatches": 2, "epochs": 1, "lr": 1e-300, "recurrent": True}
    context, algorithm = synthetic.context("ippo", synthetic.spec("one choice", masked=True), settings)
    together = figures_of(context, algorithm, range(1))
    for agent, other in ((0, 2), (2, 0)):
        alive = context.batch.alive.copy()
        alive[other] = False
        alone = dataclasses.replace(context, batch=dataclasses.replace(context.batch, alive=alive))
        apart = figures_of(alone, algorithm, range(1))
        for figure in (*PPO_FIGURES, "postprocess/explained_variance"):
            assert together[f"{figure}_a{agent:02d}/g00"] == pytest.approx(apart[f"{figure}/g00"], rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("reward", ["own", "team"])
@pytest.mark.parametrize(("name", "stage"), [("iql", "policy"), ("iddpg", "critic"), ("maddpg", "critic")])
def test_weighted_value_agent_metrics_equal_group_metrics(name, stage, reward):
    scene = Scene(name, PAIRED, sequence_length=3, burn_in=1, reward=reward)
    found, living = figures_of(context_of(scene), scene.algorithm, range(2)), rows_of(scene)
    # A team's return lasts while one agent lives, so its values are learned on equally many rows for all.
    rows = [(living.any(axis=0) if reward == "team" else living[agent]).sum() for agent in (0, 2)]
    assert living[0].sum() != living[2].sum()
    for figure in ("td_loss", "value"):
        each = [found[f"{stage}/{figure}_a{agent:02d}/g00"] for agent in (0, 2)]
        assert each[0] != each[1]
        expected = np.average(each, weights=rows)
        assert found[f"{stage}/{figure}/g00"] == pytest.approx(expected, rel=1e-12)


LEVEL = 0.3  # of the normaliser of `Scene`
VALUES = [("iql", "policy/value"), ("iddpg", "critic/value"), ("maddpg", "critic/value"), ("vdn", "mix/value")]


@pytest.mark.parametrize("team", [APART, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize(("name", "figure"), VALUES)
def test_value_is_in_reward_units_of_living_rows(name, figure, team):
    """Networks that return 0.3: in units of reward the value is 0.3 of these plus the level, for any deaths."""
    scene = constant(Scene(name, team), 0.3)
    outcome = report(context_of(scene), scene.algorithm, range(1, 2))
    found = {key: value for key, value in outcome.metrics.items() if key.startswith(figure)}
    part = LEVEL / 4 if name == "vdn" else LEVEL  # every agent of a side has its part of the level
    expected = {group: 0.3 * unit_of(outcome, group) + part for group in {key.rpartition("/")[2] for key in found}}
    assert found == {key: pytest.approx(expected[key.rpartition("/")[2]]) for key in found}
    assert len(found) == (5 if name == "vdn" else 4 if team == APART else 6)


def test_joint_value_is_in_units_of_living_rewards():
    scene = constant(Scene("vdn"), 0.3)
    outcome, living = report(context_of(scene), scene.algorithm, range(1, 2)), rows_of(scene)
    assert not living.all()
    expected = living.sum() / living.any(axis=0).sum() * (0.3 * unit_of(outcome, "g00") + LEVEL / 4)
    assert outcome.metrics["mix/joint_value/g00"] == pytest.approx(expected)
    scene = Scene("qmix")
    scene.tensors |= {key: array * 0 for key, array in scene.tensors.items() if key.startswith("mixer/")}
    assert figures_of(context_of(scene), scene.algorithm, range(1, 2))["mix/joint_value/g00"] == pytest.approx(LEVEL)


@pytest.mark.parametrize("name", ["iddpg", "maddpg"])
def test_constant_policy_has_entropy_of_uniform_legal_choice(name):
    scene = constant(Scene(name, PAIRED), 0.3)
    context = context_of(scene)
    found = figures_of(context, scene.algorithm, range(2))
    batch = with_minibatch(dataclasses.replace(context, update=1)).batch
    alive = batch.alive[[0, 2]]
    even = np.log(np.stack([batch.of(batch.masks, agent).sum(axis=-1) for agent in (0, 2)]))
    assert alive.any(axis=(1, 2)).all() and not alive.all() and len({*even[alive].tolist()}) > 1
    expected = {"": even[alive].mean(), "_a00": even[0][alive[0]].mean(), "_a02": even[1][alive[1]].mean()}
    for of, value in expected.items():
        assert found[f"policy/entropy{of}/g00"] == pytest.approx(value)


def constant(scene, value):
    for key, array in scene.tensors.items():
        if key.split("/")[0] in ("policy", "critic", "target", "critic_target"):
            scene.tensors[key] = np.full_like(array, value) if key.endswith("/b2") else array * 0
    return scene


def context_of(scene):
    batch = scene.replay_buffer.segments_from(np.arange(NUM_ENVS), STEPS)
    return dataclasses.replace(scene.context(2, scene.tensors), batch=batch)


def rows_of(scene):
    """The rows of the last update's minibatch that count ``[4, T, B]``."""
    config = scene.config
    batch = scene.replay_buffer.sample(generator(5, 2, "replay", 1), config.batch_size, config.length)
    learned = batch.alive.copy()
    learned[:, : config.burn_in] = False
    return learned


def unit_of(outcome, group):
    """The reward that is 1 in the values of a group."""
    return RewardScale.of(outcome.tensors[f"normaliser/{group}"]).value_scale(True).reward


def report(context, algorithm, updates):
    """The stages' results and metrics of these updates of a round."""
    code, names = algorithms.implementation(algorithm), [stage.name for stage in algorithm.stages]
    return stages.run(algorithm, code, context, Share(names, sorted(set(context.team.groups)), updates))


def figures_of(context, algorithm, updates):
    return report(context, algorithm, updates).metrics
