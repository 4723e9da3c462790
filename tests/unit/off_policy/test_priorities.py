"""Priorities after an update, worked out by hand, and their assignment to transitions as the replay buffer slides."""

import numpy as np
import pytest

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.value.priorities import Draw, Priorities, PriorityUpdate
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.messages.team import Team

ALONE = EnvSpec(agents=("a",), classes=(AgentClass("a", (0,), 1, 2),), horizon=4)
# Values stay 0, so that |value - target| is the reward.
STILL = {
    "lr": 1e-30,
    "gamma": 0.9,
    "hidden": [2],
    "updates_per_round": 3,
    "standardise_rewards": False,
    "priority": 0.5,
}


def rollout(*rewards):
    """Steps of one environment without episode ends. Observations are zeros."""
    shape, at_the_end = (len(rewards), 1), np.array([[len(rewards) - 1, 0]])
    return {
        "terminated": np.zeros((1, *shape), bool), "alive": np.ones((1, *shape), bool), "ended": np.zeros(shape, bool),
        "cut": at_the_end, "reward": np.array(rewards, np.float32).reshape(1, *shape),
        "observation/0": np.zeros((1, *shape, 1), np.float32), "cut_observation/0": np.zeros((1, 1, 1), np.float32),
        "action/0": np.zeros((1, *shape), np.int32),
    }  # fmt: skip


class Alone:
    """A single learning agent, its tensors, and its replay buffer with rollouts by (round, number)."""

    def __init__(self, **settings):
        self.algorithm = algorithms.algorithm("iql")
        self.code = algorithms.implementation(self.algorithm)
        self.config = algorithms.configuration(self.algorithm, {**STILL, **settings})
        self.team, self.replay_buffer, self.round = Team(groups=(0,)), ReplayBuffer(ALONE), 0
        made = self.code.initialise(ALONE, self.team, self.config, 1, 0)
        still = ("policy/", "target/")
        self.tensors = {key: 0 * array if key.startswith(still) else array for key, array in made.items()}
        self.tensors["normaliser/g00"] = np.array([0, 1.0, 1.0, 0])  # of level 0

    def hold(self, round_, rollouts):
        self.round = round_
        self.replay_buffer.load(
            [RolloutKey(*name, "x") for name in rollouts],
            lambda missing: {u: rollouts[u.round, u.rollout] for u in missing},
        )

    def context(self, update):
        batch = self.replay_buffer.segments(np.zeros(1, int))
        return Context(ALONE, self.team, self.config, 7, self.round, batch, self.tensors, self.replay_buffer, update)

    def learn(self, update):
        share = Share(("policy",), (0,), range(update, update + 1))
        self.tensors |= stages.run(self.algorithm, self.code, self.context(update), share).tensors

    @property
    def values(self):
        return self.tensors["priorities/g00/values"]


def test_two_updates_are_worked_out_by_hand():
    """Four transitions with errors 1, 0, 3 and 8, alpha ½."""
    agent = Alone(batch_size=4, priority_beta=0.4, priority_steps=8)
    agent.hold(0, {(0, 0): rollout(1, 0, 3, 8)})
    # All are new, so each of four equal parts of the total holds one, and weights are 1.
    draw = Draw.sample(agent.context(0), "g00")
    assert (draw.indices.tolist(), draw.weights.tolist()) == ([0, 1, 2, 3], [1, 1, 1, 1])
    agent.learn(0)
    # The square roots of 1, 0.000001, 3 and 8, up to the small constant added to each.
    np.testing.assert_allclose(agent.values, [1, 0.001, 3**0.5, 8**0.5], rtol=1e-6)
    # The segments' cumulative priorities are 1, 1.001, 2.733 and 5.5615. The parts of draws begin at 0, 1.390, 2.781
    # and 4.171. So the last two draws fall into the last segment for any random numbers.
    draw = Draw.sample(agent.context(1), "g00")
    assert draw.indices[2:].tolist() == [3, 3]
    assert draw.indices[1] in (2, 3)
    # Beta is half-way from 0.4 to 1: (least / own)^0.7, which is (N P)^-0.7 over its maximum.
    np.testing.assert_allclose(draw.weights[2:], (0.001 / 8**0.5) ** 0.7, rtol=1e-6)


def test_weight_exponent_rises_with_steps_to_one():
    agent = Alone(batch_size=4, priority_beta=0.4, priority_steps=16)
    exponents = []
    for round_ in range(6):
        agent.hold(round_, {(round_, 0): rollout(1, 0, 3, 8)})  # the buffer has one round
        agent.learn(0)
        exponents.append(agent.config.beta(int(agent.tensors["priorities/g00/steps"][0])))
        agent.learn(1)
    assert exponents == pytest.approx([0.55, 0.7, 0.85, 1, 1, 1])


def test_departed_rollouts_are_forgotten_and_new_come_first():
    agent = Alone(batch_size=4)
    agent.hold(0, {(0, 0): rollout(1, 1, 1, 1), (0, 1): rollout(0, 0, 0, 0)})
    agent.learn(0)
    old = {(0, 1): rollout(0, 0, 0, 0)}
    before = agent.values[4:].copy()
    agent.hold(1, {**old, (1, 0): rollout(8, 8, 8, 8), (1, 1): rollout(8, 8, 8, 8)})
    known = Priorities.load(agent.context(0), "g00")
    assert known.rollouts.tolist() == [[0, 1], [1, 0], [1, 1]]
    np.testing.assert_array_equal(known.values[:4], before)
    np.testing.assert_allclose(known.values[4:], 1, rtol=1e-5)
    agent.learn(0)
    assert agent.tensors["priorities/g00/units"].tolist() == [[0, 1], [1, 0], [1, 1]]
    # After one update with priority √8, new transitions start with √8.
    agent.hold(2, {(1, 1): rollout(8, 8, 8, 8), (2, 0): rollout(0, 0, 0, 0)})
    np.testing.assert_allclose(Priorities.load(agent.context(0), "g00").values[4:], 8**0.5, rtol=1e-6)


def test_rollouts_are_found_by_name_in_any_order():
    known = Priorities(np.array([[3, 0], [3, 1]]), np.array([1, 2, 3, 4], np.float32), 40)
    found = known.align(np.array([[4, 0], [3, 1]]), 2, 10)
    assert (found.values.tolist(), found.values.dtype, found.steps) == ([4, 4, 3, 4], np.float32, 50)
    again = found.align(np.array([[4, 0], [3, 1]]), 2, 10)
    assert (again.values.tolist(), again.steps) == ([4, 4, 3, 4], 50)


def test_segment_priority_is_mean_error_of_learned_rows():
    """Two agents, two steps, three segments. Errors 1, 2, 3 and 6 have mean 3. Errors 4 and 0 of one living agent have
    mean 2. A segment without living agents has priority 0."""
    difference = np.array([[[1, -4, 0], [2, 0, 0]], [[-3, 0, 0], [6, 0, 0]]], np.float64)
    learned = np.array([[[True, True, False], [True, True, False]], [[True, False, False], [True, False, False]]])
    config = Alone(priority=1.0).config
    update = PriorityUpdate.of(Draw(np.array([5, 0, 2]), np.ones(3)), config, difference, learned)
    assert update.indices.tolist() == [5, 0, 2]
    np.testing.assert_allclose(update.priorities, [3 + 1e-6, 2 + 1e-6, 0], rtol=1e-12)


def test_unlearnable_segment_is_drawn_again_only_alone():
    agent = Alone(batch_size=4)
    living, dead = rollout(1, 1, 1, 1), rollout(1, 1, 1, 1)
    dead["alive"][:] = False
    agent.hold(0, {(0, 0): dead, (0, 1): living})
    agent.learn(0)
    undrawable = agent.tensors["priorities/g00/values"][:4] == 0
    assert undrawable.sum() == 2  # one in each of the four parts of two transitions
    for update in range(1, 9):
        agent.learn(update)
        assert not undrawable[[index for index in Draw.sample(agent.context(update), "g00").indices if index < 4]].any()
        undrawable = agent.tensors["priorities/g00/values"][:4] == 0
    alone = Alone(batch_size=4)
    alone.hold(0, {(0, 0): dead})
    alone.learn(0)
    assert not alone.values.any()
    draw = Draw.sample(alone.context(1), "g00")
    assert (draw.indices.tolist(), draw.weights.tolist()) == ([0, 1, 2, 3], [1, 1, 1, 1])


def test_groups_with_other_priorities_learn_other_rows():
    """The buffer caches the last minibatch only. Another one is drawn again."""
    agent = Alone(batch_size=2)
    agent.hold(0, {(0, 0): rollout(10, 11, 12, 13)})
    drawn = [Draw(np.array(indices), np.ones(2)).minibatch(agent.context(0)) for indices in ([0, 1], [3, 2], [0, 1])]
    assert [context.batch.rewards[0, 0].tolist() for context in drawn] == [[10, 11], [13, 12], [10, 11]]


@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_uniform_draws_have_no_priorities_part(name):
    algorithm = algorithms.algorithm(name)
    code = algorithms.implementation(algorithm)
    for alpha, parts in ((0.0, 0), (0.1, 3)):
        config = algorithms.configuration(algorithm, {"priority": alpha})
        made = code.initialise(ALONE, Team(groups=(0,)), config, 1, 0)
        assert sum(key.startswith("priorities/") for key in made) == parts
        fitted = algorithm.without(config.idle_parts)
        lists = [fitted.parts, *(stage.reads for stage in fitted.stages), *(stage.writes for stage in fitted.stages)]
        assert any("priorities" in names for names in lists) == bool(parts)
        assert len(fitted.parts) == len(algorithm.parts) - (not parts)
