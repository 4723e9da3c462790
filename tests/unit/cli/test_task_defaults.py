"""Families of tasks have their own defaults, which the user's settings override."""

import msgspec
import pytest

from marless.coordinator.config.defaults import fill_family
from marless.coordinator.config.loading import convert, load, load_with_origins
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.config.task_defaults import FAMILIES
from marless.functions.environments.episodic import single_class


def changed(*settings):
    here, usual = flat(load(None, settings)), flat(load(None, (*settings, "task.name=mpe/simple")))
    return {key: here[key] for key in here if key != "task.name" and here[key] not in (None, usual[key])}


def flat(config):
    return {
        f"{table}.{key}": value
        for table, values in msgspec.to_builtins(config).items()
        if isinstance(values, dict)
        for key, value in leaves(values)
    }


def leaves(table, prefix=""):
    for key, value in table.items():
        yield from leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]


KNIGHTS = "pettingzoo.butterfly.knights_archers_zombies"
STEPPED = {"evaluation.episodes_per_invocation": 320, "functions.evaluator.timeout_s": 300.0}
BATTLES = {"sharing.rule": "all", "algorithm.gamma": 0.99}


@pytest.mark.parametrize("name", ["mappo", "ippo"])
def test_battles_use_team_reward_long_horizon_shared_networks(name):
    assert changed("task.name=smax/8m", f"algorithm.name={name}") == {**BATTLES, "algorithm.reward": "team"}


def test_ppo_starts_with_large_steps_where_measured():
    falling = {"algorithm.lr": 2e-3, "algorithm.lr_schedule": "linear"}
    falling |= {"algorithm.ent_coef": 0.03, "algorithm.ent_schedule": "linear"}
    both = {"mpe/simple_spread": falling}
    both["mpe/simple_speaker_listener"] = {**falling, "algorithm.normalise_observations": True}
    for task, falling in both.items():
        task = f"task.name={task}"
        for name in ("ippo", "mappo"):
            assert changed(task, f"algorithm.name={name}") == falling
            assert changed(task, f"algorithm.name={name}", "stop.env_steps=9000") == falling
            for own in ("algorithm.lr=0.1", "algorithm.lr_schedule=cosine", "algorithm.ent_coef=0", "stop.seconds=9"):
                assert changed(task, f"algorithm.name={name}", own) == {}
    assert changed("task.name=mpe/simple_spread", "task.agents=6") == {}
    assert changed("task.name=mpe/simple_spread", "algorithm.name=qmix") == {}
    assert changed("task.name=mpe/simple_spread", "algorithm.network=attention") == {}


@pytest.mark.parametrize(
    "settings, rounds",
    [
        (["task.name=smax/3m", "preset=quick", "stop.dollars=1"], 400),
        (["task.name=smax/3m", "preset=good"], 4000),
        (["preset=quick"], 150),
        (["preset=good", "stop.seconds=60"], 1500),
        (["task.name=smax/3m", "stop.seconds=60"], None),
    ],
)
def test_preset_sets_rounds(settings, rounds):
    config, origins = load_with_origins(None, settings)
    assert (config.stop.rounds, config.preset, "preset" in origins) == (rounds, None, False)


@pytest.mark.parametrize("settings", [["stop.rounds=3"], ["task.name=smax/3m", "stop.env_steps=3"]])
def test_preset_excludes_other_lengths(settings):
    with pytest.raises(ConfigError, match="preset: it sets the number of rounds"):
        load_with_origins(None, [*settings, "preset=good"])


def test_algorithm_gets_only_settings_it_has():
    # Off-policy algorithms share networks by default.
    replayed = {key: value for key, value in BATTLES.items() if key != "sharing.rule"}
    for name in ("iql", "vdn", "qmix"):
        assert changed("task.name=smax/8m", f"algorithm.name={name}") == {**replayed, "algorithm.n_step": 20}
    assert changed("task.name=smax/8m", "algorithm.name=maddpg") == replayed


def test_value_methods_explore_foraging_long_and_replay_more():
    known = {"algorithm.gamma": 0.95, "algorithm.updates_per_round": 128}
    searching = {**known, "algorithm.epsilon_steps": 200_000, "algorithm.priority": 0.6}
    changes = {name: changed("task.name=lbf/8x8-2p-2f", f"algorithm.name={name}") for name in ("iql", "qmix", "maddpg")}
    mixing = {"algorithm.huber_delta": 1000, "algorithm.max_grad_norm": 10, "algorithm.tau": 0.01}
    assert changes == {"iql": searching, "qmix": {**searching, **mixing}, "maddpg": known}


def test_evaluations_of_slow_copies_are_short():
    for task in ("pettingzoo:some.module:env", "package:lbf/8x8-2p-2f"):
        assert changed(f"task.name={task}").items() >= STEPPED.items()


@pytest.mark.parametrize(
    ("task", "copies", "timeout_s"),
    [
        ("smac/8m", 8, None),
        ("smacv2/terran_5_vs_5", 8, None),
        ("pettingzoo:pettingzoo.sisl.pursuit_v5:parallel_env", 8, 300),
        ("pettingzoo:pettingzoo.butterfly.pistonball_v6:parallel_env", 8, 300),
        ("vmas/balance", 64, 300),
        ("meltingpot/coins", 8, 300),
    ],
)
def test_slow_tasks_have_few_environments_and_time(task, copies, timeout_s):
    config = load(None, (f"task.name={task}",))
    assert (config.actors.num_envs, config.evaluation.episodes_per_invocation) == (copies, copies)
    if timeout_s is not None:
        assert config.functions.actor.timeout_s == config.functions.evaluator.timeout_s == timeout_s
    assert config.task.options == {}


def test_robots_and_grids_have_published_settings():
    long = {"sharing.rule": "none", "algorithm.gamma": 0.9, "actors.num_envs": 8}
    expected = {
        "mamujoco/Ant-2x4": {**long, "algorithm.gamma": 0.99, "actors.num_envs": 2},
        "magent2/battle": {**long, "sharing.rule": "all"},
    }
    for task, settings in expected.items():
        config = flat(load(None, (f"task.name={task}", "algorithm.name=ippo")))
        assert {key: config[key] for key in settings} == settings
        assert config["functions.actor.timeout_s"] == 300


def test_kitchens_play_as_many_as_published():
    kitchens = {**BATTLES, "actors.num_envs": 8, "evaluation.episodes": 16, "evaluation.final_episodes": 160}
    assert changed("task.name=overcooked/cramped_room", "algorithm.name=ippo") == kitchens


@pytest.mark.parametrize("task", ["vmas/balance", "hanabi/small", "meltingpot/coins"])
def test_equal_players_share_networks_and_look_far(task):
    assert changed(f"task.name={task}").items() >= {"sharing.rule": "all", "algorithm.gamma": 0.99}.items()


def test_actors_have_longer_limit_for_warehouses_only():
    configs = [load(None, (f"task.name={task}",)) for task in ("package:rware/x", "rware/x")]
    assert [config.functions.actor.timeout_s for config in configs] == [300, 60]


@pytest.mark.parametrize("version", [10, 11, 12])
def test_leaky_environment_is_rebuilt_unless_user_objects(version):
    settings = (f"task.name=pettingzoo:{KNIGHTS}_v{version}:parallel_env", "task.options.max_cycles=12")
    assert load(None, settings).task.options == {"rebuild": True, "max_cycles": 12}
    own = load(None, (*settings, "task.options.rebuild=false"))
    assert own.task.options == {"rebuild": False, "max_cycles": 12}
    assert own.actors.num_envs == 8


@pytest.mark.parametrize(
    ("task", "algorithm", "rule", "gamma"),
    [
        ("pettingzoo:my_game:env", "mappo", "all", None),
        ("pettingzoo:my_game:env", "happo", "none", None),
        ("roles/apprentices", "mappo", "none", 0.9),
    ],
)
def test_equal_agents_of_unmeasured_task_share_networks(task, algorithm, rule, gamma):
    config = load(None, [f"task.name={task}", f"algorithm.name={algorithm}"])
    assert (config.sharing.rule, config.algorithm.gamma) == (rule, gamma)


@pytest.mark.parametrize("algorithm", ["mappo", "pqn", "qmix", "maddpg"])
@pytest.mark.parametrize("horizon, gamma", [(1, 0.97), (50, 0.97), (100, 0.975), (150, 59 / 60), (250, 0.99)])
def test_the_discount_follows_from_the_longest_episode(horizon, gamma, algorithm):
    settings = ["task.name=pettingzoo:my_game:env", f"algorithm.name={algorithm}"]
    spec = single_class("agent", 2, 3, 3, horizon)
    assert load(None, settings).algorithm.resolved(spec).discount == pytest.approx(gamma, rel=1e-12)
    assert load(None, [*settings, "algorithm.gamma=0.5"]).algorithm.resolved(spec).discount == 0.5


@pytest.mark.parametrize("name", ["mappo", "iql", "vdn", "qmix", "maddpg"])
def test_printed_configuration_keeps_values_for_any_task(name):
    config = load(None, (f"algorithm.name={name}",))
    document = msgspec.to_builtins(config)
    # All options of its algorithm. They complete a run's configuration.
    known = flat(config).keys() & {key for keys in FAMILIES.values() for key in keys}
    assert ("algorithm.n_step" in known) == (name in ("iql", "vdn", "qmix"))
    assert fill_family({**document, "task": {"name": "smax/8m"}}, known)[0] == {**document, "task": {"name": "smax/8m"}}


def test_the_callers_document_is_left_as_it_is():
    document = {"task": {"name": "rware/tiny-2ag"}, "algorithm": {"lr": 1e-3}}
    assert fill_family(document, ["algorithm.gamma"])[0]["algorithm"] == {"lr": 1e-3, "gamma": 0.99}
    assert document == {"task": {"name": "rware/tiny-2ag"}, "algorithm": {"lr": 1e-3}}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ((f"task.name=pettingzoo:{KNIGHTS}_v11:parallel_env", "task.options=3"), r"task\.options: 3 is not a table"),
        (("task.name=smax/8m", "sharing=all"), "sharing is a table, not a value"),
        (("task.name=smax/8m", "functions.evaluator=60"), r"functions\.evaluator is a table, not a value"),
        (("task.name=smax/8m", "functions=1"), "functions is a table, not a value"),
        (("task.name=3",), r"task\.name"),
    ],
)
def test_what_is_no_table_or_name_is_refused(settings, says):
    with pytest.raises(ConfigError, match=f"^the command line: {says}"):
        load(None, settings)


@pytest.mark.parametrize(
    ("horizon", "settings", "episodes", "final", "absolute"),
    [
        # 768 episodes are sampled, and 640 between two evaluations.
        (500, ["task.name=rware/tiny-2ag", "stop.rounds=12"], 64, 100, 100),
        (500, [], 64, 1280, 1280),  # 400 rounds of 64 episodes
        (500, ["actors.num_envs=8"], 16, 160, 160),  # 3,200
        (50, ["stop.env_steps=1_000_000"], 64, 1000, 1000),  # 20,000
        (50, ["stop.env_steps=1_000_000", "stop.rounds=100"], 64, 320, 320),  # 6,400
        (500, ["evaluation.every_steps=600_000", "actors.rollout_length=50", "stop.rounds=1000"], 120, 320, 320),
        (1, ["evaluation.every=100", "stop.rounds=9999"], 320, 3200, 3200),
        # The user's settings count.
        (9, ["stop.rounds=3", "evaluation.final_episodes=3200"], 64, 3200, 3200),
        (9, ["stop.rounds=3", "evaluation.episodes=10", "evaluation.final_episodes=20"], 10, 20, 100),
        # The run's length is unknown.
        (9, ["stop.dollars=0.1"], 64, 1280, 1280),
        (25, ["stop.rounds=3", "task.name=mpe/simple_spread"], 320, 3200, 3200),
    ],
)
def test_evaluations_are_a_share_of_the_training(horizon, settings, episodes, final, absolute):
    config = load(None, ["task.name=pettingzoo:my_game:env", *settings])
    assert config.evaluation_sizes(horizon) == (episodes, final, absolute)


@pytest.mark.parametrize(("lag", "correction"), [(0, "vtrace"), (1, "vtrace"), (2, "decoupled"), (4, "decoupled")])
@pytest.mark.parametrize("name", ["ippo", "mappo", "happo"])
def test_older_data_is_corrected_by_decoupled_ppo(name, lag, correction):
    settings = (f"algorithm.name={name}", f"pipeline.lag={lag}")
    assert load(None, settings).algorithm.correction == correction
    for named in ("vtrace", "none"):
        assert load(None, (*settings, f"algorithm.correction={named}")).algorithm.correction == named


def test_stored_lagged_run_keeps_its_correction():
    stored = msgspec.to_builtins(load(None, ("pipeline.lag=2", "algorithm.correction=vtrace")))
    assert convert(stored, "config.toml").algorithm.correction == "vtrace"
    assert not hasattr(load(None, ("algorithm.name=qmix", "pipeline.lag=2")).algorithm, "correction")


@pytest.mark.parametrize("own, steps, count", [(None, 25, 8), (None, 3_200, 16), (None, 32_000, 64), (3, 3_200, 3)])
def test_long_rollouts_have_more_minibatches(own, steps, count):
    assert type(load(None, []).algorithm)(num_minibatches=own).sized(steps).num_minibatches == count
