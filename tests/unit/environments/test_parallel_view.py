"""Env tasks as PettingZoo's environments: its own test passes, seeds repeat, and play equals the engine's play."""

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from marless.environments import as_pettingzoo
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

TASKS = {
    "one choice": EnvTask(name="mpe/simple_spread"),
    "two classes and sides": EnvTask(name="mpe/simple_adversary"),
    "several choices": EnvTask(name="mpe/simple_reference"),
    "entities": EnvTask(name="mpe/simple_spread", options={"entities": True}),
    "masks, and agents that leave": EnvTask(
        name="toy/signal", agents=3, options={"masked": True, "elimination": True, "horizon": 20}
    ),
    "a state and an end by the rules": EnvTask(name="toy/signal", options={"mixed": True}),
    "a time limit between rules": EnvTask(name="toy/corridor", agents=3),
    "numbers": EnvTask(name="mpe/simple_spread", options={"continuous_actions": True}),
    "last actions": EnvTask(name="mpe/simple_spread", last_action=True),
    "roles": EnvTask(name="roles/apprentices"),
    "roles that agents do not see": EnvTask(name="roles/blind_spread"),
    "a dial": EnvTask(name="toy/dial"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_pettingzoos_own_test_passes(task):
    parallel_api_test(as_pettingzoo(task), num_cycles=60)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", [TASKS["one choice"], TASKS["a state and an end by the rules"]])
def test_equal_seeds_give_equal_episodes(task):
    parallel_seed_test(lambda: as_pettingzoo(task))
    first, other = as_pettingzoo(task).reset(seed=1)[0], as_pettingzoo(task).reset(seed=2)[0]
    assert any((first[agent] != other[agent]).any() for agent in first)


def test_play_equals_that_of_the_engine():
    task = EnvTask(name="mpe/simple_spread")
    view, engine = as_pettingzoo(task), registry.make(task, 1)
    seen, expected = view.reset(seed=5)[0], engine.reset(np.random.default_rng(5))
    rng = np.random.default_rng(0)
    for t in range(25):
        for place, agent in enumerate(view.agents):
            np.testing.assert_array_equal(seen[agent], expected.values[0][0, place])
        actions = rng.integers(5, size=3)
        seen, rewards, terminated, truncated, _ = view.step(dict(zip(view.agents, actions, strict=True)))
        step = engine.step((actions[None],))
        assert list(rewards.values()) == step.rewards[0].tolist()
        assert not any(terminated.values())
        assert all(truncated.values()) == (t == 24)
        expected = step.observation
    assert view.agents == []


def test_time_limit_truncates_and_rules_terminate():
    view = as_pettingzoo(EnvTask(name="toy/signal", options={"horizon": 1}))
    seen, _ = view.reset(seed=0)
    right = {agent: int(values.argmax()) for agent, values in seen.items()}
    *_, terminated, truncated, _ = view.step(right)
    assert (*terminated.values(), *truncated.values()) == (False, False, True, True)
    assert view.agents == [] and view.state()[-1] == 0.0
    assert view.step({}) == ({}, {}, {}, {}, {})
    view.reset(seed=0)
    *_, terminated, truncated, _ = view.step({agent: (number + 1) % 3 for agent, number in right.items()})
    assert (*terminated.values(), *truncated.values()) == (True, True, False, False)


def test_wrong_answer_removes_agent_and_mask_is_given():
    view = as_pettingzoo(EnvTask(name="toy/signal", options={"masked": True, "elimination": True}))
    seen, _ = view.reset(seed=3)
    right = {agent: int(one["observation"].argmax()) for agent, one in seen.items()}
    legal = np.flatnonzero(seen["agent_1"]["action_mask"])
    wrong = next(int(action) for action in legal if action != right["agent_1"])
    _, rewards, terminated, truncated, _ = view.step({"agent_0": right["agent_0"], "agent_1": wrong})
    assert rewards == {"agent_0": 0.5, "agent_1": 0.5}  # one of two answers was right
    assert terminated == {"agent_0": False, "agent_1": True}
    assert not any(truncated.values())
    assert view.agents == ["agent_0"]
