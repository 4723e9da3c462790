"""SMAX behind our protocol. Tests with JaxMARL are slow and run only in `make conformance`; tests of errors
without it always run."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from drawing_commands import with_pictures

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scene import Box, Disc, fade
from marless.functions.errors import BadRequest, MissingExtra
from marless.testing import environments as conformance

STOP, FIRST_ENEMY = 4, 5
# Few steps, so that the suite of the protocol plays several episodes; one engine is compiled for all that use it.
SHORT = {"max_steps": 12}


def needs_jaxmarl(test):
    installed = find_spec("jax") is not None and find_spec("jaxmarl") is not None
    return pytest.mark.conformance(pytest.mark.skipif(not installed, reason="JaxMARL is not installed")(test))


@pytest.mark.parametrize("package", ["jax", "jaxmarl"])
def test_without_jaxmarl_one_line_says_how_to_get_it(shell, package):
    if package == "jaxmarl" and find_spec("jax") is None:
        pytest.skip("without jax, jaxmarl is not asked for")
    shell.uninstall(package)
    with pytest.raises(MissingExtra) as error:
        registry.make(EnvTask(name="smax/27m_vs_30m"), 1)
    assert str(error.value) == (
        f"smax/27m_vs_30m needs JaxMARL (the package '{package}' is not installed): pip install 'jaxmarl>=0.2,<0.3'"
    )


@pytest.mark.parametrize("option", ["scenario", "action_type"])
def test_options_that_are_ours_are_refused(option):
    with pytest.raises(BadRequest, match=f"smax/3m: task.options.{option} cannot be chosen"):
        registry.make(EnvTask(name="smax/3m", options={option: "continuous"}), 1)


def test_naming_a_task_does_not_load_jax():
    code = (
        "import sys; from marless.functions.environments import task_names\n"
        "from marless.functions.environments.starcraft import smac, smax; task_names.is_known('smax/3m')\n"
        "print([m for m in ('jax', 'jaxmarl', 'flax', 'smac', 'smacv2') if m in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.strip() == "[]"


@needs_jaxmarl
def test_jax_starts_silently_on_one_thread_and_leaves_the_settings_of_the_process_alone():
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from marless.functions.environments import registry\n"
        "from marless.functions.environments.base import EnvTask\n"
        "before = dict(os.environ), sys.stdout, sys.stderr, sys.__stdout__\n"
        "registry.spec(EnvTask(name='smax/3m'))\n"
        "import jax\n"
        "same = (dict(os.environ), sys.stdout, sys.stderr, sys.__stdout__) == before\n"
        "threads = [path.read_text().strip() for path in Path('/proc/self/task').glob('*/comm')]\n"
        "print(same, jax.default_backend(), sum('XLAEigen' in name for name in threads))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], env=with_pictures(), capture_output=True, text=True, check=True, timeout=300
    )
    one_thread = "1" if sys.platform == "linux" else "0"
    assert completed.stdout == f"True cpu {one_thread}\n"


@needs_jaxmarl
@pytest.mark.parametrize(
    ("name", "allies", "enemies"),
    [("3m", 3, 3), ("8m", 8, 8), ("2s3z", 5, 5), ("3s5z", 8, 8), ("5m_vs_6m", 5, 6), ("smacv2_10_units", 10, 10)],
)
def test_the_sizes_are_jaxmarls(name, allies, enemies):
    spec = registry.spec(EnvTask(name=f"smax/{name}"))
    (kind,) = spec.classes
    assert spec.agents == tuple(f"ally_{i}" for i in range(allies))
    # 13 features of every other unit and 10 of the agent's own; four moves, stop, and every enemy.
    assert kind.observation_size == 13 * (allies - 1 + enemies) + 10
    assert kind.actions == 5 + enemies
    # Of all units 10 features, team and type.
    assert spec.state_size == 12 * (allies + enemies)
    # JaxMARL's limit is 100, but it checks the time before it counts the step.
    assert (spec.horizon, spec.masked) == (101, True)


@needs_jaxmarl
def test_the_adapter_keeps_every_promise_of_the_protocol():
    conformance.check(lambda num_envs: registry.make(EnvTask(name="smax/3m", options=SHORT), num_envs))


@needs_jaxmarl
def test_a_picture_has_every_unit_in_its_place_and_fades_the_dead():
    environment = registry.make(EnvTask(name="smax/3m", options=SHORT), 2)
    environment.reset(np.random.default_rng(0))
    state = environment._battles.state
    killed = state.replace(unit_alive=state.unit_alive.at[1, 4].set(False))
    environment._battles = environment._battles.replace(state=killed)
    scene = environment.render(1)
    dead, *alive = [shape for shape in scene.shapes if isinstance(shape, Disc)]
    # From the lower left corner, the dead unit first.
    places = np.asarray(state.unit_positions[1])[[4, 0, 1, 2, 3, 5]]
    np.testing.assert_allclose([(disc.x, scene.height - disc.y) for disc in (dead, *alive)], places, rtol=1e-6)
    ally, enemy = alive[0].colour, alive[-1].colour
    assert [disc.colour for disc in alive] == [ally] * 3 + [enemy] * 2 and ally != enemy
    assert dead.colour == fade(enemy)
    # A bar of health, whole at first, for every unit alive.
    bars = [shape for shape in scene.shapes if isinstance(shape, Box)]
    assert len(bars) == 2 * 5 and all(bar.width == 2 * alive[0].radius for bar in bars)


@needs_jaxmarl
@pytest.mark.parametrize(
    ("name", "agents", "options", "says"),
    [
        ("smax/3n", None, {}, "smax/3n: JaxMARL has no SMAX scenario '3n'; there are: 3m"),
        ("smax/3m", 4, {}, "smax/3m: task.agents is 4, but the scenario has 3 agents"),
        ("smax/3m", None, {"colour": "red"}, "smax/3m: SMAX refuses task.options {'colour': 'red'}: .*colour"),
    ],
)
def test_what_jaxmarl_does_not_have_is_refused_in_one_line(name, agents, options, says):
    with pytest.raises(BadRequest, match=says) as error:
        registry.make(EnvTask(name=name, agents=agents, options=options), 1)
    assert "\n" not in str(error.value)


def waiting(seen):
    """All stand still and shoot the same enemy, the first in reach."""
    shots = seen.masks[0][:, :, FIRST_ENEMY:]
    return (np.where(shots.any(axis=2), FIRST_ENEMY + shots.argmax(axis=2), STOP),)


def episodes(environment, seed, act):
    """Per finished episode of every environment: the team's return, the env metric `win`, whether it was cut, its last
    step."""
    seen, done = environment.reset(np.random.default_rng(seed)), []
    returns = np.zeros(environment.num_envs)
    for _ in range(environment.spec.horizon):
        step = environment.step(act(seen))
        returns += step.rewards.sum(axis=1)
        for row in np.flatnonzero(step.ended):
            alive = int(step.final.alive[row].sum())
            done.append((returns[row], step.env_metrics["win"][row], bool(step.truncated[row]), alive))
        returns[step.ended] = 0.0
        seen = step.observation
    return done


@needs_jaxmarl
def test_a_battle_won_is_worth_two_and_a_battle_lost_less_than_one():
    done = episodes(registry.make(EnvTask(name="smax/3m"), 16), 0, waiting)
    won = [value for value, win, _, _ in done if win]
    lost = [value for value, win, _, _ in done if not win]
    assert won and lost
    # The enemy's whole health, and 1 for the victory; no unit heals.
    np.testing.assert_allclose(won, 2.0, atol=1e-5)
    assert max(lost) < 1.0
    assert not any(cut or alive for _, _, cut, alive in done)


@needs_jaxmarl
def test_units_that_only_stand_lose_without_a_point():
    def stand(seen):
        return (np.full(seen.masks[0].shape[:2], STOP),)

    done = episodes(registry.make(EnvTask(name="smax/3m"), 16), 1, stand)
    assert {(value, win, cut, alive) for value, win, cut, alive in done} == {(0.0, 0.0, False, 0)}


@needs_jaxmarl
def test_the_time_limit_truncates():
    done = episodes(registry.make(EnvTask(name="smax/3m", options={"max_steps": 2}), 3), 0, waiting)
    # Three steps are not enough for the sides to meet.
    assert done == [(0.0, 0.0, True, 3)] * 3


@needs_jaxmarl
def test_the_fallen_leave_their_part_to_those_who_stand():
    environment = registry.make(EnvTask(name="smax/3m"), 16)
    seen, shares = environment.reset(np.random.default_rng(0)), set()
    for _ in range(40):
        before = seen.alive
        step = environment.step(waiting(seen))
        for alive, rewards in zip(before, step.rewards, strict=True):
            assert not rewards[~alive].any()
            assert len({*rewards[alive]}) == 1
            shares.add(int(alive.sum()))
        seen = step.observation
    assert shares == {1, 2, 3}


def in_maps(state, units=6):
    """JaxMARL's state, ten numbers per unit and then two more, with positions as fractions of the map, 32 by 32."""
    found = np.array(state)
    found[: 10 * units].reshape(units, 10)[:, 1:3] /= 32
    return found


@needs_jaxmarl
def test_a_environment_plays_what_jaxmarl_plays_with_its_key():
    """Key by key and step by step against JaxMARL's own environment, not batched and not compiled with ours."""
    environment = registry.make(EnvTask(name="smax/3m"), 16)
    seen = environment.reset(np.random.default_rng(7))
    import jax
    from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario

    theirs = HeuristicEnemySMAX(scenario=map_name_to_scenario("3m"))
    words = np.random.default_rng(7).integers(2**32, size=(16, 2), dtype=np.uint32)
    key, draw = jax.random.split(jax.random.wrap_key_data(words[1], impl="threefry2x32"))
    observations, state = theirs.reset(draw)
    for _ in range(25):
        np.testing.assert_allclose(seen.values[0][1], [observations[agent] for agent in theirs.agents], atol=1e-5)
        np.testing.assert_allclose(seen.state[1], in_maps(observations["world_state"]), atol=1e-5)
        legal = theirs.get_avail_actions(state)
        np.testing.assert_array_equal(seen.masks[0][1], [legal[agent] for agent in theirs.agents])
        actions = waiting(seen)
        step = environment.step(actions)
        key, draw = jax.random.split(key)
        chosen = {agent: actions[0][1, i] for i, agent in enumerate(theirs.agents)}
        observations, state, rewards, dones, _ = theirs.step_env(draw, state, chosen)
        assert step.rewards[1].sum() == pytest.approx(float(rewards["ally_0"]), abs=1e-5)
        assert step.ended[1] == bool(dones["__all__"])
        if step.ended[1]:
            assert step.env_metrics["win"][1] == float(rewards["ally_0"] >= 1.0)
            break
        seen = step.observation
