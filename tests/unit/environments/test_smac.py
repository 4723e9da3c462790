"""SMAC and SMACv2 behind our protocol, on a stand-in with their interface. StarCraft does not run."""

import random
import sys

import numpy as np
import pytest
import smac_stand_in as stand_in

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.errors import BadRequest, MissingExtra
from marless.testing import environments as conformance

# In 'duel', two allies of health 2 against one enemy of health 3: damage 3, 10 for the kill and 200 for the victory.
POINT = 20 / 213
STOP, BACK, SHOOT = 1, 2, 6


@pytest.fixture
def world(shell):
    made = stand_in.World()
    shell.provide(stand_in.modules(made))
    return made


def duel(num_envs=1, **options):
    return registry.make(EnvTask(name="smac/duel", options=options), num_envs)


def play(environment, *moves):
    environment.reset(np.random.default_rng(0))
    return [environment.step((np.array([move] * environment.num_envs),)) for move in moves]


@pytest.mark.parametrize("name", ["smac/3m", "smac/duel", "smacv2/terran_3_vs_3", "smacv2/terran_2_vs_3"])
def test_the_adapter_keeps_every_promise_of_the_protocol(world, name):
    conformance.check(lambda num_envs: registry.make(EnvTask(name=name), num_envs), random_starts=name != "smac/duel")
    assert world.running == set()


def test_sizes_are_known_before_starcraft_starts(world):
    spec = registry.spec(EnvTask(name="smac/3m"))
    assert spec.agents == ("agent_0", "agent_1", "agent_2")
    (kind,) = spec.classes
    assert (kind.agents, kind.observation_size, kind.actions) == ((0, 1, 2), 5, 9)
    assert (spec.horizon, spec.state_size, spec.masked) == (12, 6, True)
    assert world.launches == 0


def test_won_battle_pays_twenty_and_terminates_all(world):
    first, last = play(duel(), [SHOOT, SHOOT], [SHOOT, STOP])
    np.testing.assert_allclose(first.rewards, [[POINT, POINT]])  # damage 2 for two
    np.testing.assert_allclose(last.rewards, [[211 * POINT / 2, 211 * POINT / 2]])  # damage 1, the kill, the victory
    assert first.rewards.sum() + last.rewards.sum() == pytest.approx(20)
    assert last.terminated.tolist() == [[True, True]]
    assert (last.truncated[0], last.ended[0], last.env_metrics["win"][0]) == (False, True, 1.0)
    assert not first.ended.any() and first.final is None and first.env_metrics == {}


def test_fallen_unit_terminates_and_leaves_its_reward_share(world):
    steps = play(duel(), [STOP, STOP], [STOP, STOP], [0, SHOOT], [0, SHOOT])
    assert [step.terminated[0].tolist() for step in steps] == [
        [False, False],
        [True, False],
        [False, False],
        [False, True],
    ]
    np.testing.assert_allclose([step.rewards[0] for step in steps], [[0, 0], [0, 0], [0, POINT], [0, POINT]])
    assert [step.ended[0] for step in steps] == [False, False, False, True]
    assert not steps[-1].truncated[0] and steps[-1].env_metrics["win"][0] == 0.0


def test_fallen_unit_sees_zeros_and_only_no_op(world):
    _, step = play(duel(obs_timestep_number=True), [STOP, STOP], [STOP, STOP])
    assert step.observation.alive.tolist() == [[False, True]]
    # Like in SMAC, dead agents observe the time. The living agent observes its position, its health and the enemy's.
    np.testing.assert_allclose(step.observation.values[0], [[[0, 0, 0, 0], [1, 2, 3, 0.4]]], rtol=1e-6)
    assert step.observation.values[0].dtype == np.float32
    assert step.observation.masks[0].astype(int).tolist() == [[[1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 1]]]


def test_time_limit_truncates_living_units_for_bootstrapping(world):
    # All units walk out of reach, where nothing more happens.
    environment = registry.make(EnvTask(name="smac/3m"), 1)
    seen = environment.reset(np.random.default_rng(3))
    for _ in range(12):
        mask = seen.masks[0][0]
        step = environment.step((np.where(mask[:, BACK], BACK, mask.argmax(axis=1))[None],))
        seen = step.observation
    assert (step.truncated[0], step.ended[0], step.env_metrics["win"][0]) == (True, True, 0.0)
    assert step.final.alive.any() and not step.terminated[step.final.alive].any()
    assert step.final.values[0][step.final.alive].any()
    assert step.observation.alive.all()


def test_last_and_next_first_observation_are_distinguished(world):
    _, last = play(duel(), [SHOOT, SHOOT], [SHOOT, STOP])
    assert not last.final.alive.any() and not last.final.values[0].any()
    assert last.final.masks[0].astype(int).tolist() == [[[1, 0, 0, 0, 0, 0, 0]] * 2]
    assert last.final.state.tolist() == [[1, 2, 0]]  # the enemy hit the first ally once
    assert last.observation.state.tolist() == [[2, 2, 3]]


def test_environments_are_games_of_their_own(world):
    environment = duel(num_envs=2)
    environment.reset(np.random.default_rng(0))
    step = environment.step((np.array([[SHOOT, SHOOT], [STOP, STOP]]),))
    np.testing.assert_allclose(step.rewards, [[POINT, POINT], [0, 0]])
    step = environment.step((np.array([[SHOOT, SHOOT], [STOP, STOP]]),))
    assert step.ended.tolist() == [True, False]
    assert step.env_metrics["win"][0] == 1.0
    assert world.launches == 2


def test_episodes_that_follow_use_the_starcraft_that_runs(world):
    environment = duel()
    environment.reset(np.random.default_rng(0))
    for _ in range(3):
        environment.step((np.array([[SHOOT, SHOOT]]),))
        assert environment.step((np.array([[SHOOT, STOP]]),)).ended[0]
    assert world.launches == 1
    environment.close()
    environment.close()
    assert world.running == set()


def test_reset_restarts_every_game_with_generated_seed(world):
    environment = duel(num_envs=2)
    for _ in range(2):
        environment.reset(np.random.default_rng(5))
    seeds = [built["seed"] for built in world.built[1:]]  # the first was only queried for its sizes
    assert seeds[:2] == seeds[2:] == np.random.default_rng(5).integers(2**31, size=2).tolist()
    assert (world.launches, len(world.running)) == (4, 2)


def test_unrepeatable_game_continues_after_ended_episode(world):
    environment = duel(repeatable=False)
    play(environment, [STOP, STOP])
    environment.reset(np.random.default_rng(0))  # SMAC would start a second StarCraft here and forget the first
    assert (world.launches, len(world.running)) == (2, 1)
    environment.step((np.array([[SHOOT, SHOOT]]),))
    environment.step((np.array([[SHOOT, STOP]]),))
    seen = environment.reset(np.random.default_rng(0))
    assert seen.state.tolist() == [[2, 2, 3]]
    assert world.launches == 2


def test_smacv2_draws_are_separate_from_process_generators(world):
    def first_steps(noise):
        random.seed(noise)
        np.random.seed(noise)
        environment = registry.make(EnvTask(name="smacv2/terran_8_vs_8"), 2)
        seen = [environment.reset(np.random.default_rng(1))]
        seen += [environment.step((np.where(seen[-1].alive, STOP, 0),)).observation]
        environment.close()
        return [one.values[0].tolist() for one in seen], random.random(), np.random.rand()

    drawn, after, after_numpy = first_steps(1)
    assert all(first_steps(noise)[0] == drawn for noise in (2, 3, 4))
    assert after == random.Random(1).random()
    assert after_numpy == np.random.RandomState(1).rand()


@pytest.mark.parametrize(
    ("race", "units", "weights", "exceptions"),
    [
        ("terran", ["marine", "marauder", "medivac"], [0.45, 0.45, 0.1], ["medivac"]),
        ("protoss", ["stalker", "zealot", "colossus"], [0.45, 0.45, 0.1], None),
        ("zerg", ["zergling", "baneling", "hydralisk"], [0.45, 0.1, 0.45], ["baneling"]),
    ],
)
def test_smacv2_is_set_as_in_its_published_configurations(world, race, units, weights, exceptions):
    asked = []

    def wrapper(**keywords):
        asked.append(keywords)
        return stand_in.StarCraftCapabilityEnvWrapper(**(keywords | {"map_name": "10gen_terran"}))

    sys.modules["smacv2.env.starcraft2.wrapper"].StarCraftCapabilityEnvWrapper = wrapper  # the stand-in's own module
    spec = registry.spec(EnvTask(name=f"smacv2/{race}_5_vs_6", options={"difficulty": "9"}))
    assert len(spec.agents) == 5
    assert spec.classes[0].actions == 6 + 6
    config = asked[0]["capability_config"]
    assert (config["n_units"], config["n_enemies"]) == (5, 6)
    team = config["team_gen"]
    assert (team["dist_type"], team["unit_types"], team["weights"]) == ("weighted_teams", units, weights)
    assert team.get("exception_unit_types") == exceptions and team["observe"] is True
    start = config["start_positions"]
    assert (start["dist_type"], start["p"], start["map_x"], start["map_y"]) == ("surrounded_and_reflect", 0.5, 32, 32)
    assert asked[0]["map_name"] == f"10gen_{race}"
    assert (asked[0]["obs_own_pos"], asked[0]["use_unit_ranges"], asked[0]["min_attack_range"]) == (True, True, 2)
    assert asked[0]["difficulty"] == "9"


@pytest.mark.parametrize(("package", "task"), [("smac", "smac/8m"), ("smacv2", "smacv2/zerg_5_vs_5")])
def test_missing_package_line_names_everything_needed(shell, package, task):
    shell.uninstall(package)
    with pytest.raises(MissingExtra) as error:
        registry.make(EnvTask(name=task), 1)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"{task} needs the package '{package}', which is not installed: pip install")
    assert f"'{package} @ git+https://github.com/oxwhirl/{package}'" in line
    # Only SMACv2 declares that it needs an older protobuf.
    assert ("'marless[smac]'" in line) is (package == "smac")
    assert "SC2PATH" in line and "https://github.com/Blizzard/s2client-proto" in line and "Maps/SMAC_Maps" in line


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (FileNotFoundError(2, "No such file or directory", "/opt/sc2/Versions"), "needs StarCraft II in the folder"),
        (stand_in.SC2LaunchError("No SC2 binary\nfound at: /opt/sc2"), "needs StarCraft II in the folder"),
        (ValueError("Map SMAC_Maps/8m.SC2Map not found in /opt/sc2/Maps."), "needs the maps of .*SMAC_Maps.zip"),
    ],
)
def test_missing_starcraft_or_maps_names_their_place(world, error, says):
    world.launch_error = error
    environment = duel()
    with pytest.raises(MissingExtra, match=f"smac/duel {says}.*SC2PATH") as error:
        environment.reset(np.random.default_rng(0))
    assert "\n" not in str(error.value)
    environment.close()


def test_game_that_fails_to_start_is_fault(world):
    world.launch_error = ConnectionRefusedError("no\nanswer")
    with pytest.raises(EnvironmentFault, match=r"^smac/duel, copy 0, step 0, reset: .*Error: no answer \(.+:\d+\)$"):
        duel().reset(np.random.default_rng(0))


def test_package_that_fails_to_load_is_fault(shell, tmp_path):
    (tmp_path / "smac").mkdir()
    error = "Descriptors cannot be created directly.\nDowngrade the protobuf package"
    (tmp_path / "smac/env.py").write_text(f"raise TypeError({error!r})")
    (tmp_path / "smac/__init__.py").touch()
    shell.import_from(tmp_path)
    shell.forget("smac", "smac.env")
    with pytest.raises(EnvironmentFault, match=r"^smac/8m: import of 'smac.env': TypeError: Des.* package \(.+:\d+\)$"):
        registry.make(EnvTask(name="smac/8m"), 1)


def test_crash_is_fault_with_environment_and_step(world):
    environment = duel(num_envs=2)
    world.crash_at = 2
    with pytest.raises(EnvironmentFault, match=r"^smac/duel, copy 0, step 2, step: StarCraft II crashed or lost"):
        play(environment, [STOP, STOP], [STOP, STOP])
    environment.close()
    assert world.running == set()


def test_crash_hidden_in_reset_is_fault(world):
    class Hiding(stand_in.StarCraft2Env):
        def reset(self, episode_config=None):
            self._launch()
            self.full_restart()

    sys.modules["smac.env"].StarCraft2Env = Hiding  # the stand-in's own module
    with pytest.raises(EnvironmentFault, match="step 0, reset: StarCraft II crashed or lost its connection"):
        duel().reset(np.random.default_rng(0))


def test_after_a_crash_the_games_can_be_reset(world):
    environment = duel(repeatable=False)
    play(environment, [SHOOT, SHOOT], [SHOOT, STOP])
    world.crash_at = 1
    with pytest.raises(EnvironmentFault):
        environment.step((np.array([[STOP, STOP]]),))
    world.crash_at = None
    assert play(environment, [SHOOT, SHOOT], [SHOOT, STOP])[-1].env_metrics["win"][0] == 1.0
    assert len(world.running) == 1


def test_all_games_close_even_if_one_fails(world):
    environment = duel(num_envs=3)
    environment.reset(np.random.default_rng(0))
    world.close_error = BrokenPipeError("gone")
    with pytest.raises(EnvironmentFault, match="close: BrokenPipeError: gone"):
        environment.close()
    assert world.running == set()
    environment.close()


def test_an_illegal_action_is_a_fault(world):
    with pytest.raises(EnvironmentFault, match="step 1, step: AssertionError: Agent 1 cannot perform action 0"):
        play(duel(), [STOP, 0])


@pytest.mark.parametrize(
    ("method", "answer", "says"),
    [
        ("get_obs", [np.zeros(3, np.float32), np.zeros(2, np.float32)], "the observations is not numeric"),
        ("get_obs", [np.zeros(4, np.float32)] * 2, r"the observations has shape \(2, 4\), not \(2, 3\)"),
        ("get_obs", [np.full(3, np.nan)] * 2, "the observations is not finite"),
        ("get_avail_actions", [[0] * 7, [1] * 7], "an agent has no available action"),
        ("get_avail_actions", [[1, 0, 0, 0, 0, 0, 0]] * 2, "no unit can act, but the battle goes on"),
    ],
)
def test_invalid_package_value_is_fault(world, method, answer, says):
    environment = duel()
    environment.reset(np.random.default_rng(0))
    world.spoil[method] = answer
    with pytest.raises(EnvironmentFault, match=f"smac/duel, copy 0, step 1, step: {says}"):
        environment.step((np.array([[STOP, STOP]]),))


@pytest.mark.parametrize(
    ("name", "agents", "options", "says"),
    [
        ("smac/3n", None, {}, "smac/3n: SMAC has no map '3n'; there are: 3m"),
        ("smac/zz", None, {}, "there are: 10gen_protoss, 10gen_terran, 10gen_zerg, 3m, duel"),
        ("smacv2/terran", None, {}, "write it as 'smacv2/<race>_<n>_vs_<m>', a race of protoss, terran, zerg"),
        ("smacv2/human_5_vs_5", None, {}, "a race of protoss"),
        ("smacv2/terran_0_vs_5", None, {}, "write it as"),
        ("smac/duel", 3, {}, "task.agents is 3, but the scenario has 2 agents"),
        ("smac/duel", None, {"colour": "red"}, "smac refuses task.options {'colour': 'red'}: TypeError: .*colour"),
        ("smac/duel", None, {"seed": 1}, "task.options.seed cannot be chosen"),
        ("smac/duel", None, {"repeatable": "no"}, "task.options.repeatable is 'no', not true or false"),
    ],
)
def test_impossible_starcraft_request_is_refused_in_one_line(world, name, agents, options, says):
    with pytest.raises(BadRequest, match=says) as error:
        registry.make(EnvTask(name=name, agents=agents, options=options), 1)
    assert "\n" not in str(error.value)
