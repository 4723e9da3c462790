"""`task.last_action`: what an agent did last stands behind what it observes."""

import numpy as np

from functions.environments import registry
from functions.environments.base import AgentClass, EnvSpec, EnvTask, Observation, Step
from functions.environments.last_action import LastAction


class Counting:
    """Two environments of a chooser, an agent with two choices and one with numbers; all see the step's number.

    The second environment ends with step 2; the agent with two choices dies in step 1 of the first.
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


def test_every_kind_of_action_stands_behind_the_observation_until_the_episode_ends():
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


def test_it_stands_behind_an_image_too():
    entities = EnvTask(name="mpe/simple_spread", options={"entities": True}, last_action=True)
    (kind,) = registry.spec(entities).classes
    assert kind.observation_size == np.prod(kind.observation_shape) + kind.actions
