"""`task.last_action`: an agent's observation ends with its last action."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, Observation, Step
from marless.functions.environments.last_action import LastAction, numbers_of, within_unit

LARGEST = float(np.finfo(np.float32).max)


class Counting:
    """Two environments of a chooser, an agent with two choices and one with numbers. All see the step's number.

    The second environment ends with step 2. The agent with two choices dies in step 1 of the first.
    """

    num_envs = 2
    spec = EnvSpec(
        agents=("one", "two", "three"),
        classes=(
            AgentClass("one", (0,), 1, 3),
            AgentClass("two", (1,), 1, 5, branches=(2, 3)),
            AgentClass("three", (2,), 1, 2, low=(-1.0, 0.0), high=(1.0, 10.0)),
        ),
        horizon=9,
    )

    def seen(self, step):
        alive = np.ones((2, 3), bool)
        alive[0, 1] = step < 1
        values = tuple(np.full((2, 1, 1), step, np.float32) * alive[:, [kind], None] for kind in range(3))
        return Observation(values, alive)

    def reset(self, rng):
        self.steps = 0
        return self.seen(0)

    def step(self, actions):
        self.steps += 1
        ended = np.array([False, self.steps == 2])
        final = self.seen(self.steps) if ended.any() else None
        no = np.zeros((2, 3), bool)
        return Step(self.seen(self.steps), np.zeros((2, 3)), no, ended, ended, final)


def test_last_action_follows_observation_until_episode_end():
    environment = LastAction(Counting())
    assert [kind.observation_size for kind in environment.spec.classes] == [4, 6, 3]
    first = environment.reset(np.random.default_rng(0))
    assert [values.shape for values in first.values] == [(2, 1, 4), (2, 1, 6), (2, 1, 3)]
    assert not any(values.any() for values in first.values)

    actions = np.array([[2], [0]]), np.array([[[1, 0]], [[0, 2]]]), np.array([[[1, 5]], [[-0.5, 0]]], np.float32)
    seen = environment.step(actions).observation
    np.testing.assert_array_equal(seen.values[0][:, 0], [[1, 0, 0, 1], [1, 1, 0, 0]])
    np.testing.assert_array_equal(seen.values[1][:, 0], [[0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1]])  # the first is dead
    np.testing.assert_array_equal(seen.values[2][:, 0], [[1, 1, 0], [1, -0.5, -1]])

    step = environment.step(actions)
    np.testing.assert_array_equal(step.observation.values[0][:, 0], [[2, 0, 0, 1], [2, 0, 0, 0]])
    np.testing.assert_array_equal(step.final.values[0][:, 0], [[2, 0, 0, 1], [2, 1, 0, 0]])


@pytest.mark.parametrize(
    ("low", "high", "actions", "expected"),
    [
        (-1.0, 3.0, [-1, 0, 1, 3], [-1, -0.5, 0, 1]),
        (0.25, 0.25, [0.25], [0]),
        (0.0, 0.0, [0.0], [0]),
        (-LARGEST, LARGEST, [-LARGEST, 0, LARGEST / 2, LARGEST], [-1, 0, 0.5, 1]),
        (0.0, LARGEST, [0, LARGEST / 4, LARGEST], [-1, -0.5, 1]),
        (-LARGEST, -LARGEST, [-LARGEST], [0]),
        (1e-30, 3e-30, [1e-30, 2e-30, 3e-30], [-1, 0, 1]),
    ],
)
def test_numbers_are_scaled_to_minus_one_and_one(low, high, actions, expected, recwarn):
    kind = AgentClass("x", (0,), 1, 1, low=(low,), high=(high,))
    found = numbers_of(kind, np.array(actions, np.float32)[:, None])
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-6)
    assert found.dtype == np.float32 and not recwarn.list


def test_ordinary_bounds_give_the_quotient_of_single_precision():
    rng = np.random.default_rng(3)
    low = rng.normal(size=1000).astype(np.float32)
    high = (low + rng.exponential(size=1000)).astype(np.float32)
    actions = (low + rng.random(1000) * (high - low)).astype(np.float32)
    assert within_unit(actions, low, high).tobytes() == (2 * (actions - low) / (high - low) - 1).tobytes()


def test_it_stands_behind_an_image_too():
    entities = EnvTask(name="mpe/simple_spread", options={"entities": True}, last_action=True)
    (kind,) = registry.spec(entities).classes
    assert kind.observation_size == np.prod(kind.observation_shape) + kind.actions
