"""JaxMARL's SMAX behind our protocol. Tests with JaxMARL run only in `make conformance`."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from drawing_commands import with_pictures

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest, MissingExtra
from marless.testing import environments as conformance

STOP, FIRST_ENEMY = 4, 5
# Few steps, so that the suite of the protocol plays several episodes.
SHORT = {"max_steps": 12}


def needs_jaxmarl(test):
    installed = find_spec("jax") is not None and find_spec("jaxmarl") is not None
    return pytest.mark.conformance(pytest.mark.skipif(not installed, reason="JaxMARL is not installed")(test))


@pytest.mark.parametrize("package", ["jax", "jaxmarl"])
def test_missing_jaxmarl_says_how_to_install_it(shell, package):
    if package == "jaxmarl" and find_spec("jax") is None:
        pytest.skip("without jax, jaxmarl is not asked for")
    shell.uninstall(package)
    with pytest.raises(MissingExtra) as error:
        registry.make(EnvTask(name="jaxmarl:smax/27m_vs_30m"), 1)
    assert str(error.value) == (
        f"jaxmarl:smax/27m_vs_30m needs JaxMARL (the package '{package}' is not installed): "
        "pip install 'jaxmarl>=0.2,<0.3'"
    )


def test_options_that_are_ours_are_refused():
    with pytest.raises(BadRequest, match="action_type cannot be chosen"):
        registry.make(EnvTask(name="jaxmarl:smax/3m", options={"action_type": "continuous"}), 1)


@needs_jaxmarl
def test_jax_starts_silently_on_one_thread():
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from marless.functions.environments import registry\n"
        "from marless.functions.environments.base import EnvTask\n"
        "before = dict(os.environ), sys.stdout, sys.stderr, sys.__stdout__\n"
        "registry.spec(EnvTask(name='jaxmarl:smax/3m'))\n"
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
def test_the_adapter_keeps_every_promise_of_the_protocol():
    conformance.check(lambda num_envs: registry.make(EnvTask(name="jaxmarl:smax/3m", options=SHORT), num_envs))


@needs_jaxmarl
@pytest.mark.parametrize(
    ("name", "agents", "options", "says"),
    [
        ("jaxmarl:smax/3n", None, {}, "jaxmarl:smax/3n: JaxMARL has no SMAX scenario '3n'. Choose one of 3m"),
        ("jaxmarl:smax/3m", 4, {}, "jaxmarl:smax/3m: task.agents is 4, but the scenario has 3 agents"),
        (
            "jaxmarl:smax/3m",
            None,
            {"colour": "red"},
            "jaxmarl:smax/3m: SMAX refuses task.options {'colour': 'red'}: .*colour",
        ),
    ],
)
def test_names_unknown_to_jaxmarl_are_refused(name, agents, options, says):
    with pytest.raises(BadRequest, match=says) as error:
        registry.make(EnvTask(name=name, agents=agents, options=options), 1)
    assert "\n" not in str(error.value)


def waiting(seen):
    """All stand still and shoot the same enemy, the first in reach."""
    shots = seen.masks[0][:, :, FIRST_ENEMY:]
    return (np.where(shots.any(axis=2), FIRST_ENEMY + shots.argmax(axis=2), STOP),)


def in_maps(state, units=6):
    """JaxMARL's state, ten numbers per unit and then two more, with positions as fractions of the map, 32 by 32."""
    found = np.array(state)
    found[: 10 * units].reshape(units, 10)[:, 1:3] /= 32
    return found


@needs_jaxmarl
def test_environment_plays_jaxmarl_steps_with_its_key():
    """Key by key and step by step against JaxMARL's own environment."""
    environment = registry.make(EnvTask(name="jaxmarl:smax/3m"), 16)
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
