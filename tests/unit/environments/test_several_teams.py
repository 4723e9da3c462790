"""Environments of several teams: they have the largest team's numbers, and smaller teams lack some."""

import re

import numpy as np
import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.data.trajectory import Recorder
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.several_teams import names_of
from marless.functions.episode_returns import Episodes
from marless.functions.errors import BadRequest
from marless.functions.nn.entities.attention import attention_over

SPREAD = EnvTask(name="mpe/simple_spread", agents=(2, 3))
TASKS = [
    SPREAD,
    EnvTask(name="mpe/simple_spread", agents=(4, 1), options={"continuous_actions": True}),
    EnvTask(name="mpe/simple_spread", agents=(2, 3), options={"entities": True}, last_action=True),
    EnvTask(name="mpe/simple_tag", agents=(4, 5), order="distance"),
    EnvTask(name="toy/signal", agents=(2, 3), options={"masked": True, "elimination": True, "horizon": 6}),
    EnvTask(name="lbf/8x8-2p-2f+10x10-3p-3f"),
    EnvTask(name="smax/3m+5m_vs_6m", options={"max_steps": 6, "equal_enemies": True}),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_agents_missing_in_team_are_always_dead(task):
    environment, rng = registry.make(task, 5), np.random.default_rng(1)
    spec, observation = environment.spec, environment.reset(np.random.default_rng(1))
    sizes = [len(registry.spec(team).agents) for team in task.teams]
    recorder = Recorder(spec, 2 * spec.horizon, 5)
    for t in range(2 * spec.horizon):
        assert (observation.alive.sum(axis=1) <= [sizes[row % 2] for row in range(5)]).all()
        actions = []
        for index, kind in enumerate(spec.classes):
            assert not observation.values[index][~observation.alive[:, kind.agents]].any()
            legal = np.ones((5, len(kind.agents), kind.actions)) if not spec.masked else observation.masks[index]
            likes = rng.random(legal.shape) * legal
            assert legal.any(axis=-1).all()
            actions.append(likes.astype(np.float32) if kind.continuous else likes.argmax(axis=-1))
        step = environment.step(tuple(actions))
        recorder.record(t, observation, [action.swapaxes(0, 1) for action in actions], None, step)
        observation = step.observation
    arrays = recorder.tensors(0)  # raises if agents come back, or if a number is not finite
    assert not arrays["u00000/reward"][~arrays["u00000/alive"]].any() and arrays["u00000/ended"].any(axis=0).all()


def test_smaller_team_has_numbers_of_own_environment():
    both, alone = registry.make(SPREAD, 4), registry.make(EnvTask(name=SPREAD.name, agents=2), 2)
    observed, expected = (environment.reset(np.random.default_rng(1)) for environment in (both, alone))
    assert observed.alive.tolist() == [[True, True, False], [True] * 3] * 2
    (values,), (small,) = observed.values, expected.values
    # The velocity, the position, three landmarks, two others and their messages, each of two numbers.
    assert np.array_equal(values[::2, :2, [*range(8), 10, 11, 14, 15]], small)
    assert not values[::2, :2, [8, 9, 12, 13, 16, 17]].any() and not values[::2, 2].any()


@pytest.mark.parametrize("task", TASKS[:1] + TASKS[5:6], ids=str)
def test_attention_reads_smaller_team_as_alone(task):
    rng, both = np.random.default_rng(2), registry.make(task, 4)
    alone = registry.make(task.teams[0], 2)
    (whole,), (kind,) = both.spec.classes, alone.spec.classes
    layer = attention_over(whole.entities)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in layer.shapes(whole.observation_size, 32)]
    (values,) = both.reset(np.random.default_rng(1)).values
    (small,) = alone.reset(np.random.default_rng(1)).values
    seen = layer(*arrays).forward(values[::2, : len(kind.agents)].reshape(-1, whole.observation_size))[0]
    expected = attention_over(kind.entities)(*arrays).forward(small.reshape(-1, kind.observation_size))[0]
    np.testing.assert_allclose(seen, expected, rtol=1e-4, atol=1e-5)


def test_enemies_that_a_map_lacks_cannot_be_attacked():
    (masks,) = registry.make(EnvTask(name="smax/3m+5m_vs_6m"), 2).reset(np.random.default_rng(1)).masks
    assert masks.shape == (2, 5, 5 + 6)
    assert not masks[0, :3, 5 + 3 :].any()


def test_returns_are_counted_by_team():
    environment, episodes = registry.make(SPREAD, 5), Episodes(5, 3)
    environment.reset(np.random.default_rng(1))
    for _ in range(environment.spec.horizon):
        episodes.add(environment.step((np.ones((5, 3), np.int64),)))
    returns = episodes.agent_returns().sum(axis=1)
    for first, name in enumerate(("return_2_agents", "return_3_agents")):
        values, numbers = episodes.env_metrics[name]
        assert numbers == [*range(first, 5, 2)]
        assert values == pytest.approx(returns[first::2])


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (EnvTask(name="smax/3m+8m"), ["3m", "8m"]),
        (SPREAD, ["2_agents", "3_agents"]),
        (EnvTask(name="mpe/simple_spread+simple_spread", agents=(2,)), ["team", "team"]),
    ],
    ids=str,
)
def test_teams_are_named_by_what_differs(task, names):
    assert names_of(task.teams) == names


def test_unfinished_episodes_of_several_teams_go_on():
    first, second = (registry.make(SPREAD, 3) for _ in range(2))
    first.reset(np.random.default_rng(1))
    actions = (np.ones((3, 3), np.int64),)
    first.step(actions)
    saved = first.save()
    second.resume(saved, np.random.default_rng(2))
    first.resume(saved, np.random.default_rng(2))
    for _ in range(first.spec.horizon):
        one, other = first.step(actions), second.step(actions)
        assert np.array_equal(one.observation.values[0], other.observation.values[0])
        for name, values in one.env_metrics.items():
            np.testing.assert_array_equal(values, other.env_metrics[name])
    with pytest.raises(BadRequest, match="environments of several teams cannot be saved: set at least 5"):
        registry.make(EnvTask(name="toy/signal", agents=(2, 3)), 2).save()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"name": "matrix/climbing", "agents": (2, 3)}, "matrix/climbing: task.agents is 3; the game is for 2"),
        ({"name": "lbf/8x8-2p-3f+8x8-3p-2f"}, "8x8-2p-3f has more of entity 'food' with 3 features than the"),
        ({"name": "lbf/8x8-2p-3f+grid-8x8-3p-3f"}, "8x8-2p-3f has agents, actions or entities of other kinds than the"),
        ({"name": "mpe/simple_spread+simple_tag"}, "mpe/simple_spread has agents, actions or entities of other kinds"),
        ({"name": "mpe/simple_spread", "agents": (3, 0)}, "mpe/simple_spread: agents is a whole number from 1, not 0"),
    ],
)
def test_teams_that_differ_beyond_numbers_are_refused(settings, says):
    with pytest.raises(BadRequest, match=re.escape(says)):
        registry.make(EnvTask(**settings), 2)


@pytest.mark.parametrize(
    ("typed", "agents"), [("3", 3), ("3.0", 3), ("[3]", (3,)), ("2,3", (2, 3)), ("[2, 3]", (2, 3)), ("[2.0,3]", (2, 3))]
)
def test_sizes_are_a_number_or_a_list(typed, agents):
    assert load(None, [f"task.agents={typed}"]).task.agents == agents


def test_each_team_needs_an_environment():
    with pytest.raises(ConfigError, match=r"actors\.num_envs: 2 environments cannot play 3 teams; set at least 3"):
        load(None, ["task.agents=2,3,4", "actors.num_envs=2"])
