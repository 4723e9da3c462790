"""PettingZoo environments through our protocol, ours through PettingZoo's, and the errors of both adapters."""

from importlib import import_module
from types import ModuleType

import msgspec
import numpy as np
import pytest
import relays
from mpe2 import simple_adversary_v3, simple_spread_v3
from relays import FAULTS, relay

from marless.coordinator.core.apply import LONGEST_PROBLEM
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvTask, Unsupported
from marless.functions.environments.pettingzoo import adapter
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.parallel_view import ParallelView
from marless.functions.errors import MissingExtra
from marless.testing.environments import check

TURNS = "pettingzoo:pettingzoo.classic.tictactoe_v3"
SPREAD = "pettingzoo:mpe2.simple_spread_v3:parallel_env"
ADVERSARY = "pettingzoo:mpe2.simple_adversary_v3:parallel_env"
TYPED = "def Game() -> 'ParallelEnv':\n"
RAISING = FAULTS["raises"].__code__
SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4:parallel_env"


def act(environment, number=0):
    shapes = [(environment.num_envs, len(kind.agents)) for kind in environment.spec.classes]
    return tuple(np.full(shape, number) for shape in shapes)


def undescribed(classes):
    return tuple(msgspec.structs.replace(kind, spaces=None) for kind in classes)


def opened(task, num_envs=1, seed=0):
    environment = adapter.make(task, num_envs)
    return environment, environment.reset(np.random.default_rng(seed))


def test_spread_has_one_class_and_its_own_state():
    spec = registry.spec(EnvTask(name=SPREAD, options={"N": 2, "max_cycles": 7}))
    assert spec.agents == ("agent_0", "agent_1")
    assert undescribed(spec.classes) == (AgentClass("agent", (0, 1), 12, 5),)
    assert (spec.horizon, spec.state_size, spec.masked) == (7, 24, False)


def test_speaker_and_listener_are_different_classes():
    spec = registry.spec(EnvTask(name=SPEAKER))
    assert undescribed(spec.classes) == (AgentClass("speaker", (0,), 3, 3), AgentClass("listener", (1,), 11, 5))


@pytest.mark.parametrize(("name", "module"), [(SPREAD, simple_spread_v3), (ADVERSARY, simple_adversary_v3)])
def test_the_adapter_shows_what_the_environment_itself_gives(name, module):
    num_envs, choices, rng = 2, np.random.default_rng(1), np.random.default_rng(3)
    environment, _ = opened(EnvTask(name=name, options={"max_cycles": 4}), num_envs, seed=3)
    own = [module.parallel_env(max_cycles=4) for _ in range(num_envs)]
    observations = [env.reset(seed=int(rng.integers(2**31)))[0] for env in own]
    for t in range(1, 10):
        numbers = tuple(
            choices.integers(kind.actions, size=(num_envs, len(kind.agents))) for kind in environment.spec.classes
        )
        step = environment.step(numbers)
        for e, env in enumerate(own):
            actions = dict(zip(environment.spec.agents, np.concatenate([part[e] for part in numbers]), strict=True))
            observations[e], rewards, *_ = env.step(actions)
            np.testing.assert_array_equal(step.rewards[e], [rewards[agent] for agent in environment.spec.agents])
            if t % 4 == 0:
                _assert_sees(environment.spec, step.final, e, observations[e])
                np.testing.assert_array_equal(step.final.state[e], env.state())
                observations[e] = env.reset(seed=int(rng.integers(2**31)))[0]
            _assert_sees(environment.spec, step.observation, e, observations[e])
        assert step.ended.all() == step.truncated.all() == (t % 4 == 0)


def _assert_sees(spec, observation, copy, expected):
    for kind, values in zip(spec.classes, observation.values, strict=True):
        np.testing.assert_array_equal(values[copy], [expected[spec.agents[i]] for i in kind.agents])


def test_terminated_agents_stay_gone_until_reset():
    environment, seen = opened(relay("Speaking"))
    alive, terminated, rewards, states = [], [], [], [seen.state[0]]
    for _ in range(4):
        step = environment.step(act(environment, 1))
        alive.append(step.observation.alive[0].tolist())
        terminated.append(step.terminated[0].tolist())
        rewards.append(step.rewards[0].tolist())
        states.append(step.observation.state[0])
    assert alive == [[True, True, True], [False, True, True], [False, False, True], [True, True, True]]
    assert terminated == [[False] * 3, [True, False, False], [False, True, False], [False, False, True]]
    assert rewards == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 3]]
    np.testing.assert_array_equal(states, [[0, 3], [1, 3], [2, 2], [3, 1], [0, 3]])
    assert step.ended.tolist() == [True] and step.truncated.tolist() == [False]
    assert not step.final.alive.any() and not step.final.values[0].any()


def test_agent_sees_flattened_box_and_zeros_when_gone():
    environment, seen = opened(relay())
    draw = np.random.default_rng(int(np.random.default_rng(0).integers(2**31))).random()
    np.testing.assert_allclose(seen.values[0][0, 0], [0, 0, draw, 0], rtol=1e-7)
    environment.step(act(environment, 1))
    step = environment.step(act(environment, 2))
    np.testing.assert_array_equal(step.observation.values[0][0, 0], np.zeros(4))
    np.testing.assert_array_equal(step.observation.values[0][0, 1, [0, 1, 3]], [1, 2, 3 + 2])


def test_agents_left_at_time_limit_are_truncated():
    environment, _ = opened(relay(count=5))
    for _ in range(5):
        step = environment.step(act(environment))
    assert step.truncated.all() and step.ended.all()
    assert step.terminated.tolist() == [[False, False, False, True, False]]
    assert step.final.alive.tolist() == [[False, False, False, False, True]]
    np.testing.assert_array_equal(step.final.values[0][0, 4, :2], [4, 5])


def test_masks_come_with_observations_and_free_gone_agents():
    environment, seen = opened(relay(masked=True))
    assert environment.spec.masked and environment.spec.classes[0].observation_size == 4
    np.testing.assert_array_equal(seen.masks[0][0], [[i != j for j in range(4)] for i in range(3)])
    environment.step(act(environment))
    step = environment.step(act(environment))
    np.testing.assert_array_equal(step.observation.masks[0][0, 0], [True] * 4)


def test_a_horizon_shorter_than_the_episode_truncates_it():
    environment, _ = opened(relay(dying=False, max_cycles=0, horizon=3))
    steps = [environment.step(act(environment)) for _ in range(3)]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, True]
    assert steps[-1].final.values[0][0, 0, 1] == 3.0
    assert not steps[-1].terminated.any()


def test_horizon_is_found_in_inner_game_and_options():
    assert registry.spec(relay("LengthInside")).horizon == 17
    name = "pettingzoo:mpe2.simple_spread_v3:parallel_env"
    assert registry.spec(EnvTask(name=name, options={"max_cycles": 9, "horizon": 4})).horizon == 4
    assert registry.spec(relay("Mute", max_cycles=11)).horizon == 11


def test_a_state_that_cannot_be_called_is_none():
    assert registry.spec(relay("Stateful")).state_size == 0


def test_a_state_that_is_an_image_is_scaled():
    _, seen = opened(relay("Pictured"))
    np.testing.assert_allclose(seen.state, [[0.2, 1.0]], rtol=1e-7)


@pytest.mark.parametrize(
    ("sides", "expected"),
    [("runner_2,runner", (1, 1, 0)), ("runner, runner_0", (1, 0, 0)), ("runner_1,runner_2,runner_0", (2, 0, 1))],
)
def test_longest_name_prefix_decides_the_side(sides, expected):
    assert registry.spec(relay(sides=sides)).sides == expected
    assert registry.spec(relay()).sides == ()


def test_leftovers_of_reset_are_fixed_by_rebuilding():
    with pytest.raises(AssertionError, match="reset leaves something behind"):
        check(lambda num_envs: registry.make(relay("Tired"), num_envs))
    check(lambda num_envs: registry.make(relay("Tired", rebuild=True), num_envs))


def test_particle_environment_numbers_stay_within_bounds():
    spec = registry.spec(EnvTask(name=SPREAD, options={"continuous_actions": True}))
    assert undescribed(spec.classes) == (AgentClass("agent", (0, 1, 2), 18, 5, low=(0.0,) * 5, high=(1.0,) * 5),)


def test_closing_twice_closes_every_environment_once():
    made = relays.Closing.made
    made.clear()
    environment = adapter.make(relay("Closing"), 2)
    environment.close()
    environment.close()
    with pytest.raises(ValueError, match=r"task\.agents is 2, but the environment has 3 agents"):
        adapter.make(relay("Closing", agents=2), 2)
    assert [env.closed for env in made] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", rf"step: RuntimeError: wheel lost \({RAISING.co_filename}:{RAISING.co_firstlineno + 1}\)$"),
        ("four parts", "step: returned tuple, not a tuple of 5 dictionaries"),
        ("nan", "step: the observation of agent 'runner_1' is not finite"),
        ("too large", "step: the observation of agent 'runner_1' is not finite"),
        ("shape", r"step: the observation of agent 'runner_1' has shape \(4,\), not \(2, 2\)"),
        ("words", "step: the observation of agent 'runner_1' is not numeric"),
        ("infinite reward", "step: the reward of agent 'runner_1' is not finite"),
        ("no observation", "step: returned no observation for agent 'runner_1'"),
        ("no reward", "step: returned no reward for agent 'runner_1'"),
        ("no termination", "step: returned no termination for agent 'runner_1'"),
        ("drops", r"step: agents \['runner_2'\] are gone, but neither terminated nor truncated"),
        ("no mask", "step: .*'runner_1' is not a dictionary with its action_mask"),
        ("all masked", "step: .*'runner_1' allows no action"),
    ],
)
def test_environment_fault_names_task_environment_step_and_method(fault, message):
    environment, _ = opened(relay(masked="mask" in fault, fault=fault))
    environment.step(act(environment))
    with pytest.raises(EnvironmentFault, match=f"relays:Relay, copy 0, step 2, {message}") as fell:
        environment.step(act(environment))
    assert "\n" not in str(fell.value)


class Uneven:
    def step(self):
        return np.stack([np.zeros(2), np.zeros(3)])


def test_fault_line_is_of_environment_not_libraries():
    with pytest.raises(EnvironmentFault) as fell:
        Guard("house/uneven", Uneven()).call("step")
    assert str(fell.value).endswith(f" ({__file__}:{Uneven.step.__code__.co_firstlineno + 1})")
    with pytest.raises(EnvironmentFault, match=r"AttributeError: 'Uneven' object has no attribute 'reset'$"):
        Guard("house/uneven", Uneven()).call("reset")


class Loud:
    def step(self):
        raise RuntimeError("no " * 1000)


def test_a_long_error_leaves_room_for_its_line():
    with pytest.raises(EnvironmentFault, match=r"step: RuntimeError: no no .*\.\.\. \(.*:\d+\)$") as fell:
        Guard("house/loud", Loud()).call("step")
    assert len(str(fell.value).partition(" (")[0]) < LONGEST_PROBLEM * 2 / 3


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        ("\nraise OSError('no licence')", EnvironmentFault, r"import of 'odd_games': OSError: no licence \(.*\.py:2\)"),
        (f"{TYPED}\n    raise OSError('no map')", EnvironmentFault, r"factory: OSError: no map \(.*odd_games\.py:3\)"),
        ("import nobody_has_this", MissingExtra, "needs the package 'nobody_has_this', .*pip install nobody_has_this"),
        ("\nimport numpy.foo", ValueError, r"package 'numpy' has no module 'foo' \(.*odd_games\.py:2\)"),
        ("import json.scaner", ValueError, r"'json' has no module 'scaner'; nearest: scanner \(.*odd_games\.py:1\)"),
        ("def Game():\n    import numpy.foo", ValueError, "package 'numpy' has no module 'foo'"),
        (f"{TYPED}    import numpy.foo", ValueError, r"package 'numpy' has no module 'foo' \(.*odd_games\.py:2\)"),
    ],
)
def test_failing_module_is_named_with_its_line(tmp_path, shell, source, error, says):
    (tmp_path / "odd_games.py").write_text(source)
    shell.import_from(tmp_path)
    shell.forget("odd_games")
    with pytest.raises(error, match=f"pettingzoo:odd_games:Game.*{says}$"):
        adapter.make(EnvTask(name="pettingzoo:odd_games:Game"), 1)


def test_a_fault_in_reset_names_its_error():
    with pytest.raises(EnvironmentFault, match=r"Relay, copy 0, step 0, reset: KeyError: 'no\\nseed'"):
        adapter.make(relay(fault="reset"), 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("truncated alone", r"step 2, step: agents \['runner_1'\] are truncated while others go on"),
        ("joins", r"step 2, step: agents \['stranger'\] are not in possible_agents"),
        ("late agent", r"step 0, reset: an episode starts without agents \['runner_0'\] of possible_agents"),
    ],
)
def test_unsupported_ways_of_playing_are_refused_by_name(fault, message):
    environment = adapter.make(relay(fault=fault), 1)
    with pytest.raises(Unsupported, match=message):
        environment.reset(np.random.default_rng(0))
        environment.step(act(environment))
        environment.step(act(environment))


def test_returning_agent_is_refused_in_that_step():
    environment, _ = opened(relay("Returning"))
    environment.step(act(environment))
    environment.step(act(environment))
    with pytest.raises(Unsupported, match=r"step 3, step: agents \['runner_0'\] are back in `agents`, which they left"):
        environment.step(act(environment))
    with pytest.raises(Unsupported, match="are back in `agents`"):
        check(lambda num_envs: adapter.make(relay("Returning"), num_envs))
    # An episode later everybody starts again.
    environment.reset(np.random.default_rng(0))
    assert environment.step(act(environment)).observation.alive.all()


def test_gone_agent_that_stays_listed_remains_gone():
    environment, _ = opened(relay("Returning", stays=True))
    played = [environment.step(act(environment)) for _ in range(4)]
    assert [step.observation.alive[0, 0] for step in played] == [True, False, False, True]
    assert [step.rewards[0, 0] for step in played] == [1, 1, 0, 0]


def test_missing_pettingzoo_family_is_named_by_extra(shell):
    shell.uninstall("multi_agent_ale_py")
    with pytest.raises(MissingExtra, match=r"needs 'multi_agent_ale_py', .*: pip install 'pettingzoo\[atari\]'$"):
        adapter.make(EnvTask(name="pettingzoo:pettingzoo.atari.pong_v3:parallel_env"), 1)


def test_package_wanted_by_environment_itself_is_missing(shell):
    """For example, Hanabi's factory raises a plain ImportError."""

    def factory() -> "AECEnv":  # noqa: F821
        raise ImportError("depends on nobody_has_this")

    module = import_module("pettingzoo.classic.tictactoe_v3")
    factory.__module__ = "pettingzoo.classic.tictactoe.tictactoe"
    stand_in = ModuleType(module.__name__)
    stand_in.env = factory
    shell.provide({module.__name__: stand_in})
    with pytest.raises(MissingExtra, match=r"lacks a package .*has_this\): pip install 'pettingzoo\[classic\]'$"):
        adapter.make(EnvTask(name="pettingzoo:pettingzoo.classic.tictactoe_v3:env"), 1)


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (
            EnvTask(name="pettingzoo:mpe2.simple_spread_v3"),
            ValueError,
            "write it as 'pettingzoo:package.module:factory'",
        ),
        (
            EnvTask(name="pettingzoo:mpe2.simple_spread_v9:x"),
            ValueError,
            "no module 'simple_spread_v9'; nearest: .*_v3",
        ),
        (
            EnvTask(name="pettingzoo:mpe2.simple_spread_v3:paralel_env"),
            ValueError,
            "nearest: pettingzoo:mpe2.simple_spread_v3:parallel_env",
        ),
        (relay("Anonymous"), Unsupported, "does not list its possible_agents"),
        (EnvTask(name="pettingzoo:mpe2.simple_spread_v3:env"), Unsupported, "an AECEnv .*; name its parallel_env"),
        (relay("Formless"), Unsupported, "makes a dict, neither a ParallelEnv nor"),
        (EnvTask(name=f"{TURNS}:parallel_env"), ValueError, "agents take turns; name its 'env' instead"),
        (EnvTask(name="pettingzoo:nobody_has_this.x:y"), MissingExtra, "'nobody_has_this' is neither installed"),
        (EnvTask(name=SPREAD, options={"M": 3}), ValueError, "refuses task.options {'M': 3}: TypeError: .*'M'"),
        (relay("Boundless"), ValueError, "add task.options.horizon"),
        (relay(horizon=0), ValueError, "the horizon is 0; it must be a whole number of steps, at least 1"),
        (relay(horizon=True), ValueError, "the horizon is True"),
        (relay(sides="runner"), ValueError, "task.options.sides is 'runner'; it lists .* two or more sides"),
        (relay(sides="runner,runner"), ValueError, "task.options.sides is 'runner,runner'; it lists"),
        (relay(sides="runner,"), ValueError, "task.options.sides is 'runner,'; it lists"),
        (relay(sides=True), ValueError, "task.options.sides is True; it lists"),
        (relay(sides="runner_0,runner_1"), ValueError, "agent 'runner_2' is on none of the sides"),
        (relay(sides="runner,walker"), ValueError, r"no agent is on side 'walker' .*; there are \['runner_0', "),
        (relay(agents=4), ValueError, "task.agents is 4, but the environment has 3 agents"),
    ],
)
def test_user_mistake_in_adapter_is_one_line(task, error, message):
    with pytest.raises(error, match=message) as refused:
        adapter.make(task, 1)
    assert task.name in str(refused.value) and "\n" not in str(refused.value)


def test_an_environment_goes_through_both_adapters_unchanged():
    environment = ParallelView(registry.make(relay(masked=True), 1), relay(masked=True))
    seen, _ = environment.reset(seed=1)
    assert {*seen["runner_1"]} == {"observation", "action_mask"}
    np.testing.assert_array_equal(seen["runner_1"]["action_mask"], [1, 0, 1, 1])
    environment.close()
