import msgspec
import pytest

from marless.coordinator.config.config_keys import valid_keys
from marless.coordinator.config.loading import convert, load, load_with_origins
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.renamed_keys import MOVED, new_name
from marless.coordinator.config.schema import DEFAULT_ROUNDS, ConfigError, RunConfig
from marless.functions.algorithms.ppo.specs import IppoConfig, MappoConfig


def refusal(*overrides, path=None):
    with pytest.raises(ConfigError) as caught:
        load(path, overrides)
    message = str(caught.value)
    assert "\n" not in message and message
    return message


def document(config):
    """A configuration as the tables of a file, which has no null."""

    def without_null(value):
        if isinstance(value, dict):
            return {key: without_null(inner) for key, inner in value.items() if inner is not None}
        return value

    return without_null(msgspec.to_builtins(config))


def team_of(*settings):
    """The algorithm, its network and first step size, the sharing, and the rounds."""
    config, _ = load_with_origins(None, settings)
    algorithm = config.algorithm
    return algorithm.name, algorithm.network, algorithm.lr or 1e-3, config.sharing.rule, config.stop.rounds


ATTENTION, PERCEPTRONS = ("ippo", "attention", 1e-3, "all"), ("mappo", "mlp", 2e-3, "none")


def test_the_default_run_has_one_attention_network():
    assert team_of() == team_of("algorithm.engine=numpy", "seed=3", "algorithm.lr=1e-3") == (*ATTENTION, 150)
    assert (team_of("stop.rounds=5"), team_of("stop.seconds=5")) == ((*ATTENTION, 5), (*ATTENTION, None))


@pytest.mark.parametrize("setting", ["algorithm.name=mappo", "algorithm.network=mlp", "base.policies=a"])
def test_naming_mappo_or_another_network_gives_perceptrons(setting):
    assert team_of(setting) == (*PERCEPTRONS, DEFAULT_ROUNDS)
    assert team_of("task.agents=6")[:2] == team_of("sharing.rule=all")[:2] == PERCEPTRONS[:2]


@pytest.mark.parametrize("limit", ["stop.seconds=3", "stop.env_steps=10", "stop.dollars=1", "stop.return=-36"])
def test_run_with_limit_gets_no_default_limit(limit):
    assert load(None, [limit]).stop.rounds is None


@pytest.mark.parametrize(
    "wrong, nearest",
    [
        ("actors.num_env", "actors.num_envs"),
        ("algorithm.lrr", "algorithm.lr"),
        ("stop.round", "stop.rounds"),
        ("sharing.rules", "sharing.rule"),
        ("placment.rule", "placement.rule"),
        ("functions.actor.memory", "functions.actor.memory_mb"),
        ("evaluation.episode", "evaluation.episodes"),
        ("task.agent", "task.agents"),
        ("sed", "seed"),
    ],
)
def test_unknown_key_is_refused_with_nearest_key(wrong, nearest):
    assert f"did you mean {nearest}?" in refusal(f"{wrong}=1")


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_moved_key_is_read_with_one_line(old, new, tmp_path, caplog):
    new_name.cache_clear()
    path = tmp_path / "old.toml"
    path.write_text(f"{old} = 3\nalgorithm = {{ epochs = 1, num_minibatches = 1 }}\n")
    values = [flatten(msgspec.to_builtins(load(path, more)))[new] for more in ([], [f"{old}=4"], [f"{new}=5"])]
    assert (values, caplog.messages) == ([3, 4, 5], [f"{old} is now called {new}"])


def test_a_typed_key_may_lack_a_common_table(tmp_path):
    (tmp_path / "qmix.toml").write_text('algorithm = "qmix"\n')
    _, origins = load_with_origins(tmp_path / "qmix.toml", ["buffer_size=9", "gamma=.9", "episodes=4"])
    assert origins["algorithm.buffer_size"] == origins["algorithm.gamma"] == origins["evaluation.episodes"]
    assert load(None, ["tau=.1", "algorithm=vdn"]).algorithm.tau == 0.1


@pytest.mark.parametrize(
    "settings, says",
    [
        (
            ["algorithm.name=maddpg", "algorithm.priority=0.6"],
            "priority is a key of iql, vdn, qmix and qplex, not of maddpg",
        ),
        (["algorithm.name=qmix", "algorithm.clipped=true"], "clipped is a key of ippo, mappo and happo, not of qmix"),
        (["algorithm.mixing_embed_dim=64"], "mixing_embed_dim is a key of qmix, not of mappo"),
    ],
)
def test_key_of_other_algorithms_names_those_algorithms(settings, says):
    assert refusal(*settings) == f"the command line: algorithm.{says}"


def test_hyperparameter_is_checked_against_chosen_algorithm():
    assert set(valid_keys("ippo")) >= {"algorithm.name", "algorithm.lr", "algorithm.gamma"}
    assert isinstance(load(None, ["algorithm.name=ippo", "algorithm.gamma=0.5"]).algorithm, IppoConfig)


def test_settings_without_names_belong_to_defaults():
    config = load(None, ["algorithm.lr=3e-4", "task.agents=4", "algorithm.engine=numpy"])
    expected = MappoConfig(lr=3e-4, gamma=0.9, engine="numpy")
    assert (config.algorithm, config.task.name) == (expected, "mpe/simple_spread")


@pytest.mark.parametrize(
    "override, read",
    [
        ("seed=7", lambda config: config.seed == 7),
        ("algorithm.lr=3e-4", lambda config: config.algorithm.lr == 3e-4),
        ("algorithm.hidden=[32, 16]", lambda config: config.algorithm.hidden == (32, 16)),
        ("task.name=toy/signal", lambda config: config.task.name == "toy/signal"),
        ('task.name="toy/signal"', lambda config: config.task.name == "toy/signal"),
        ("task.options.horizon=9", lambda config: config.task.options["horizon"] == 9),
        ("stop.return=-36", lambda config: config.stop.return_ == -36.0),
        ("functions.actor.timeout_s=5", lambda config: config.functions.actor.timeout_s == 5.0),
        (" seed =7", lambda config: config.seed == 7),
    ],
)
def test_a_dotted_override_sets_its_key(override, read):
    assert read(load(None, [override]))


@pytest.mark.parametrize("text", ["seed", "=3", ".=3", "seed.=3", "a..b=1", ""])
def test_malformed_setting_is_refused_with_example(text):
    assert "is not key=value, such as algorithm.lr=3e-4" in refusal(text)


def test_later_override_wins_over_earlier_and_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("seed = 1\n[actors]\nnum_envs = 3\n")
    config = load(file, ["seed=2", "seed=4"])
    assert (config.seed, config.actors.num_envs) == (4, 3)


@pytest.mark.parametrize(
    "overrides, key, says",
    [
        (["seed=one"], "seed", "'one' is not a whole number, such as seed=1 (seed of all random numbers"),
        (["seed=1.5"], "seed", "1.5 is not a whole number, such as seed=1"),
        (["seed=true"], "seed", "true is not a whole number"),
        (["seed=-1"], "seed", "-1 is not a whole number of at least 0"),
        (["seed=9223372036854775808"], "seed", "of at most 9223372036854775807"),
        (["seed="], "seed", "'' is not a whole number"),
        (["seed.x=1"], "seed", "a table is not a whole number"),
        (["algorithm.lr=-1"], "algorithm.lr", "-1 is not a number above 0, such as algorithm.lr=0.001"),
        (["algorithm.lr=nan"], "algorithm.lr", "nan is not a number above 0"),
        (["algorithm.gamma=1.5"], "algorithm.gamma", "1.5 is not a number of at most 1, such as"),
        (["algorithm.name=mapo"], "algorithm.name", "There are ippo, mappo"),
        (["algorithm.name=3"], "algorithm.name", "3 is not a text, such as algorithm.name=mappo"),
        (["algorithm.epochs=0"], "algorithm.epochs", "0 is not a whole number of at least 1"),
        (["actors.num_envs=0"], "actors.num_envs", "of at least 1, such as actors.num_envs=64"),
        (["actors.rollouts=10001"], "actors.rollouts", "of at most 10000"),
        (["sharing.rule=some"], "sharing.rule", "'some'"),
        (["sharing.cap=0"], "sharing.cap", "1"),
        (["sharing.cap=both"], "sharing.cap", "both"),
        (["placement.rule=wide"], "placement.rule", "'wide'"),
        (["stop.dollars=0"], "stop.dollars", "above 0, such as stop.dollars=0.5"),
        (["stop.dollars=nan"], "stop.dollars", "above 0"),
        (["functions.actor.memory_mb=64"], "functions.actor.memory_mb", "of at least 128"),
        (["functions.learner.timeout_s=901"], "functions.learner.timeout_s", "of at most 900"),
        (["attempts=0"], "attempts", "of at least 1"),
        (["task.agents=many"], "task.agents", "'many' is not a whole number, such as task.agents=3"),
        (["task.options.far=nan"], "task.options.far", "nan is not a finite number"),
        (["task.options.far=-inf"], "task.options.far", "-inf is not a finite number"),
        (["task.options.near=1", "task.options.kind=[1, 2]"], "task.options.kind", "true or false, a number or a text"),
        (["task.options.kind.of=1"], "task.options.kind", "it is not true or false"),
        (["task.options.day=2020-01-01"], "task.options.day", "it is not true or false"),
        (["task.name=mpe/simple_sprad"], "task.name", "did you mean mpe/simple_spread?"),
        (["task.name=lbf"], "task.name", "lbf/8x8-2p-3f (level-based foraging)"),
        (["pricing.region=mars-north-1"], "pricing.region", "us-east-1"),
        (["stop.dollars=1", "pricing.storage=express"], "stop.dollars", "express"),
    ],
)
def test_impossible_value_is_refused_with_key_and_rule(overrides, key, says):
    message = refusal(*overrides)
    assert message.startswith(f"the command line: {key}: ")
    assert says in message


def test_a_value_cannot_become_a_table():
    assert refusal("seed=1", "seed.x=3") == "seed.x: seed is a value, not a table"


def test_a_missing_file_is_named(tmp_path):
    assert str(tmp_path / "no.toml") in refusal(path=tmp_path / "no.toml")


@pytest.mark.parametrize(
    "body, says", [(b"seed = \n", "is not valid TOML"), (b"\xff\xfe", "cannot be read"), (b"a = 1\na = 2\n", "TOML")]
)
def test_unreadable_file_is_named_with_reason(tmp_path, body, says):
    file = tmp_path / "run.toml"
    file.write_bytes(body)
    message = refusal(path=file)
    assert str(file) in message and says in message


def test_a_folder_is_no_file(tmp_path):
    assert "cannot be read" in refusal(path=tmp_path)


def test_wrong_key_in_file_is_named_with_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[actors]\nnum_env = 3\n")
    assert refusal(path=file) == f"{file}: there is no key actors.num_env; did you mean actors.num_envs?"


@pytest.mark.parametrize("name", ["mappo", "ippo"])
def test_every_key_is_described_and_settable(name):
    for key, text in valid_keys(name).items():
        assert text, key


@pytest.mark.parametrize(
    "overrides",
    [[], ["algorithm.name=ippo", "stop.return=-40"], ["task.name=toy/signal", "task.options.mixed=true", "seed=3"]],
)
def test_configuration_written_as_tables_reads_back(overrides):
    config = load(None, overrides)
    assert convert(document(config), "here") == config


def test_a_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        RunConfig().seed = 3


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["sharing.rule=dynamic", "sharing.distance=regret"], "sharing.distance: policies of mappo .* jsd, kde-kl"),
        (["scaling.rule=budget"], "scaling.rule=budget divides dollars among rounds; set stop.dollars and stop.rounds"),
        (["scaling.rule=budget", "stop.dollars=1"], "divides dollars among rounds; set stop.dollars and"),
        (["scaling.rule=adapt"], "scaling.rule=adapt compares returns with a target; set stop.return"),
        (["scaling.priced_as=spilt"], "scaling.priced_as: there is no placement rule 'spilt'; known are split"),
        (
            ["sharing.rows=member", "algorithm.name=vdn"],
            "sharing.rows=member leaves out rows, and vdn draws minibatches",
        ),
        (["sharing.rule=groups"], "sharing.groups: sharing.rule=groups needs them, such as "),
        (['sharing.groups=[["a", "b"], ["c", "a"]]'], "sharing.groups: a is named twice"),
        (["scaling.min_rollouts=5"], "scaling.min_rollouts: 5 is more than actors.rollouts"),
    ],
)
def test_rules_that_cannot_go_together_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load(None, overrides)


@pytest.mark.parametrize("name", ["ippo", "mappo", "iql", "iddpg"])
def test_independent_learners_are_spread_over_slots(name):
    assert load(None, [f"algorithm.name={name}"]).placement.rule == "balanced"


@pytest.mark.parametrize(("names", "rule"), [(("ippo", "mappo"), "none"), (("iql", "vdn", "iddpg"), "all")])
def test_who_learns_from_replay_shares_networks_by_default(names, rule):
    for name in names:
        assert load(None, [f"algorithm.name={name}"]).sharing.rule == rule
        assert load(None, [f"algorithm.name={name}", "sharing.base=return"]).sharing.rule == rule
        for choice in ("none", "all"):
            assert load(None, [f"algorithm.name={name}", f"sharing.rule={choice}"]).sharing.rule == choice


@pytest.mark.parametrize("name", ["ippo", "vdn"])
def test_manual_groups_are_rule_unless_another_is_set(name):
    by_hand = [f"algorithm.name={name}", 'sharing.groups=[["agent_0", "agent_1"]]']
    assert load(None, by_hand).sharing.rule == "groups"
    assert load(None, [*by_hand, "sharing.rule=none"]).sharing.rule == "none"


@pytest.mark.parametrize("name", ["vdn", "qmix", "maddpg"])
def test_learners_coupled_in_updates_share_one_invocation(name):
    assert load(None, [f"algorithm.name={name}"]).placement.rule == "packed"
    assert load(None, [f"algorithm.name={name}", "placement.inline_objects=false"]).placement.rule == "packed"
    assert load(None, [f"algorithm.name={name}", "placement.rule=fused"]).placement.rule == "fused"
