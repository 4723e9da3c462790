"""Melting Pot behind our protocol: a stand-in of its interface, and, with the mark `packages`, the package."""

import random
import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest
from marless.testing import environments as conformance
from marless_tasks.meltingpot import average

MODULES = ("meltingpot", "meltingpot.substrate", "meltingpot.scenario")


def needs_melting_pot(test):
    skip = pytest.mark.skipif(find_spec("meltingpot") is None, reason="Melting Pot is not installed")
    return pytest.mark.packages(skip(test))


class Pond:
    """Two players see a random picture and their inventory. Each action adds its number, and the third step is last."""

    def __init__(self, roles, built):
        assert roles == ("angler", "angler")
        self.rng, self.held, self.steps, self.closed = random.Random(random.random()), [0, 0], 0, 0
        built.append(self)

    def observation_spec(self):
        spec = {"RGB": SimpleNamespace(shape=(16, 24, 3)), "INVENTORY": SimpleNamespace(shape=(1,))}
        return [spec, spec]

    def action_spec(self):
        return [SimpleNamespace(num_values=3)] * 2

    def timestep(self, rewards):
        world = np.full((4, 6, 3), self.steps, dtype=np.uint8)
        seen = [
            {
                "RGB": np.array(self.rng.choices(range(256), k=16 * 24 * 3), dtype=np.uint8).reshape(16, 24, 3),
                "INVENTORY": np.array([held], dtype=np.float64),
                "SECRET": np.array([7.0]),
                "WORLD.RGB": world,
            }
            for held in self.held
        ]
        return SimpleNamespace(observation=seen, reward=rewards, last=lambda: self.steps == 3)

    def reset(self):
        return self.timestep(None)

    def step(self, actions):
        self.steps += 1
        self.held = [held + action for held, action in zip(self.held, actions, strict=True)]
        return self.timestep([np.array(float(action)) for action in actions])

    def close(self):
        self.closed += 1


@pytest.fixture
def stand_in(shell):
    """`meltingpot` with one substrate, `pond`, and its games."""
    built = []
    config = SimpleNamespace(
        default_player_roles=("angler", "angler"),
        individual_observation_names=["RGB", "INVENTORY", "SECRET"],
        lab2d_settings_builder=lambda roles, config: {"maxEpisodeLengthFrames": 9},
    )
    modules = {name: ModuleType(name) for name in MODULES}
    modules["meltingpot.substrate"].SUBSTRATES = frozenset({"pond", "coins"})
    modules["meltingpot.substrate"].get_config = {"pond": config}.__getitem__
    modules["meltingpot.substrate"].build = lambda name, roles: Pond(roles, built)
    modules["meltingpot.scenario"].PERMITTED_OBSERVATIONS = frozenset({"RGB", "INVENTORY"})
    shell.provide(modules)
    return built


def make(substrate="pond", num_envs=1, agents=None, **options):
    return registry.make(EnvTask(name=f"meltingpot/{substrate}", agents=agents, options=options), num_envs)


def test_squares_of_pixels_are_averaged_and_rounded():
    picture = np.zeros((4, 2, 1), dtype=np.uint8)
    picture[0, 0], picture[3] = 255, 254
    assert average(picture, 2).tolist() == [[[64]], [[127]]]  # 255 / 4 and 508 / 4
    assert np.array_equal(average(picture, 1), picture)


def test_agents_see_smaller_picture_and_permitted_values(stand_in):
    environment = make()
    (kind,) = environment.spec.classes
    assert environment.spec.agents == ("player_0", "player_1") and environment.spec.horizon == 9
    assert (kind.observation_shape, kind.observation_size, kind.actions) == ((2, 3, 3), 2 * 3 * 3 + 1, 3)
    environment.reset(np.random.default_rng(0))
    step = environment.step((np.array([[2, 1]]),))
    assert step.rewards.tolist() == [[2.0, 1.0]]
    assert step.observation.values[0][0, :, -1].tolist() == [2.0, 1.0]
    assert environment.render(0).shape == (4, 6, 3)


def test_episode_ends_with_substrate_or_horizon(stand_in):
    for horizon, ends in ((None, 3), (2, 2)):
        environment = make(**({"horizon": horizon} if horizon else {}))
        environment.reset(np.random.default_rng(0))
        steps = [environment.step((np.array([[0, 0]]),)) for _ in range(ends)]
        assert [step.ended[0] for step in steps] == [False] * (ends - 1) + [True]
        assert bool(steps[-1].truncated[0]) == (horizon is not None)


def test_games_are_closed_and_python_generator_stays_unchanged(stand_in):
    random.seed(3)
    expected = random.random()
    random.seed(3)
    environment = make(num_envs=2)
    environment.reset(np.random.default_rng(0))
    environment.reset(np.random.default_rng(1))
    environment.close()
    environment.close()
    assert random.random() == expected
    assert len(stand_in) > 4 and {pond.closed for pond in stand_in} == {1}


def test_the_adapter_keeps_every_promise_of_the_protocol(stand_in):
    conformance.check(lambda num_envs: make(num_envs=num_envs))


@pytest.mark.parametrize(
    ("substrate", "agents", "options", "says"),
    [
        ("pund", None, {}, "meltingpot/pund: Melting Pot has no substrate 'pund'; there are: pond"),
        ("xyz", None, {}, "there are: coins, pond"),
        ("pond", 3, {}, "meltingpot/pond: task.agents is 3, but the environment has 2 agents"),
        ("pond", None, {"downsample": 5}, "downsample is 5, which does not divide the picture's 16 by 24 pixels"),
        ("pond", None, {"downsample": 0}, "task.options.downsample: it is not a whole number of at least 1"),
        ("pond", None, {"horizon": 0}, "task.options.horizon: it is not a whole number of at least 1"),
        ("pond", None, {"roles": "x"}, "there is no roles here"),
    ],
)
def test_unsupported_options_are_refused_in_one_line(stand_in, substrate, agents, options, says):
    with pytest.raises(BadRequest, match=says):
        make(substrate, agents=agents, **options)


@needs_melting_pot
def test_coins_has_two_players_with_sprite_views():
    spec = make("coins").spec
    (kind,) = spec.classes
    assert spec.agents == ("player_0", "player_1")
    # Nothing, four moves and two turns.
    assert (kind.observation_shape, kind.observation_size, kind.actions) == ((11, 11, 3), 363, 7)


@needs_melting_pot
@pytest.mark.parametrize("substrate", ["coins", "commons_harvest__open"])
def test_substrates_keep_protocol_except_equal_bytes(substrate):
    conformance.check(lambda num_envs: make(substrate, num_envs, horizon=4), episodes=1, repeatable=False)


@needs_melting_pot
def test_it_plays_in_silence():
    code = (
        "import numpy as np\n"
        "from marless.functions.environments import registry\n"
        "from marless.functions.environments.base import EnvTask\n"
        "environment = registry.make(EnvTask(name='meltingpot/collaborative_cooking__cramped'), 1)\n"
        "environment.reset(np.random.default_rng(0)); environment.step((np.zeros((1, 2), dtype=int),))\n"
        "print(environment.render(0).shape); environment.close()"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert (completed.stdout, completed.stderr) == ("(40, 72, 3)\n", "")
