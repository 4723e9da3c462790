"""The origin of a configuration's value: its class, the task's family, the task, the file, or the command line."""

import json

import pytest

from marless.cli.app import main
from marless.coordinator.config.defaults import unused_schedule
from marless.coordinator.config.loading import load, load_with_origins

MAPPO = "algorithm.name=mappo"


def changed_origins(path, *overrides):
    return load_with_origins(path, overrides)[1]


def test_value_names_highest_layer_that_sets_it(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('algorithm = {name = "qmix", lr = 1e-3, gamma = 0.9}\ntask.name = "lbf/8x8-2p-3f"\nseed = 2')
    origins = changed_origins(path, "algorithm.lr=1e-4", "seed=3")
    # The family sets gamma too, but the file is above it. This family gives qmix three settings.
    file, family = f"file {path}", "family lbf/"
    of_family = dict.fromkeys(("algorithm.updates_per_round", "algorithm.epsilon_steps", "algorithm.priority"), family)
    of_both = dict.fromkeys(
        ("algorithm.huber_delta", "algorithm.max_grad_norm", "algorithm.tau"), f"{family} with qmix"
    )
    assert origins == {
        "seed": "command line",
        "task.name": file,
        "algorithm.name": file,
        "algorithm.lr": "command line",
        "algorithm.gamma": file,
        "algorithm.engine": "algorithm.engine=auto",
        **of_family,
        **of_both,
        "sharing.rule": family,
        "placement.rule": "algorithm qmix",
    }


def test_measured_settings_name_their_task():
    (origin,) = {changed_origins(None, MAPPO).get(f"algorithm.{key}") for key in ("lr", "lr_schedule", "ent_coef")}
    assert origin == changed_origins(None)["algorithm.network"] == "task mpe/simple_spread"


@pytest.mark.parametrize(
    ("settings", "missing_defaults"),
    [
        (["stop.dollars=1", "algorithm.lr=3e-4"], "defaults lr_schedule=linear, ent_coef=0.03, ent_schedule=linear"),
        ([MAPPO, "stop.dollars=1"], "lr=0.002, lr_schedule=linear, ent_coef=0.03, ent_schedule=linear"),
        (["stop.return=-40", "algorithm.name=ippo", "algorithm.gamma=0.8"], "lr=0.002, lr_schedule=linear, ent_coef"),
        (
            ["stop.seconds=5", "task.name=mpe/simple_speaker_listener"],
            "ent_schedule=linear, normalise_observations=True",
        ),
        ([], ""),
        (["stop.dollars=1", "stop.env_steps=10000"], ""),
        ([MAPPO, "stop.dollars=1", "algorithm.lr=3e-4"], ""),  # nor would it have a schedule with a limit in rounds
        (["stop.dollars=1", "task.name=mpe/simple_tag"], ""),
        (["stop.dollars=1", "task.agents=6"], ""),
        (["stop.dollars=1", "algorithm.name=qmix"], ""),
        (["stop.dollars=1", "algorithm.network=attention", "algorithm.engine=torch"], ""),
    ],
)
def test_run_of_unknown_length_names_missing_defaults(settings, missing_defaults):
    line = unused_schedule(load_with_origins(None, settings)[0])
    assert missing_defaults in line and bool(line) == bool(missing_defaults)


def test_only_new_run_reports_unknown_length(no_processes, shell, tmp_path, capsys):
    shell.cd(tmp_path)
    # These caps pay for no round.
    assert main(["train", MAPPO, "stop.dollars=0.0005", "--run", "short"]) == 1
    line = "without stop.rounds or stop.env_steps, this run lacks the defaults lr=0.002"
    assert capsys.readouterr().err.startswith(line)
    assert main(["resume", "short", "stop.dollars=0.0006"]) == 1
    said = capsys.readouterr().err
    assert "stopped after round 0" in said and line not in said


def test_printed_file_leaves_engine_to_reading_machine(capsys, tmp_path):
    settings = ["task.options.max_cycles=9"]
    assert main(["config", "--short", *settings]) == 0
    text, here = capsys.readouterr().out, load(None, settings)
    assert f'engine = "auto"  # {here.algorithm.engine} on this machine\n' in text
    assert "max_cycles = 9  # command line\n" in text and "exact_physics" not in text
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert load(path) == here


def test_printed_file_keeps_typed_engine_and_physics(capsys):
    assert main(["config", "--short", "algorithm.engine=numpy"]) == 0
    assert 'engine = "numpy"  # command line\n' in capsys.readouterr().out
    assert main(["config", "--short", "task.options.exact_physics=true"]) == 0
    assert "exact_physics = true  # command line\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "values", "origin"),
    [
        ([], (256, 3e-3, 0.005), "a small language model"),
        (["algorithm.lr=1e-3"], (256, 1e-3, 0.005), "command line"),
        (["base.model=folder"], (64, 5e-4, 0.003), None),
    ],
)
def test_agents_with_small_model_have_own_defaults(settings, values, origin):
    config, origins = load_with_origins(None, ["task.name=text/relay", "algorithm.name=grpo", *settings])
    assert (config.actors.num_envs, config.algorithm.lr, config.algorithm.ent_coef) == values
    assert origins.get("algorithm.lr") == origin


def test_command_line_table_replaces_file_table(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[actors]\nnum_envs = 4\nrollout_length = 5")
    assert load(path, ["actors={num_envs=8}"]).actors.rollout_length is None
    origins = changed_origins(path, "actors={num_envs=8}")
    assert {key: origin for key, origin in origins.items() if key.startswith("actors")} == {
        "actors.num_envs": "command line"
    }


def test_the_command_says_it_of_every_value(capsys):
    assert main(["config", "--all", "--json", "algorithm.network=gru", "sharing.groups=[['agent_0']]"]) == 0
    lines = {line["key"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert lines["algorithm.recurrent"]["value"] and lines["algorithm.recurrent"]["set_by"] == "algorithm.network=gru"
    assert lines["sharing.rule"]["set_by"] == "sharing.groups"
    assert lines["actors.num_envs"] == {"key": "actors.num_envs", "value": 64, "set_by": "default"}


def test_notes_are_comments_of_equivalent_file(capsys, tmp_path):
    settings = ["task.name=lbf/8x8-2p-3f", "algorithm.name=qmix"]
    assert main(["config", *settings]) == 0
    text = capsys.readouterr().out
    assert "gamma = 0.95  # family lbf/\n" in text
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert load(path) == load(None, settings)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["algorithm.name=qmix", "task.name=lbf/8x8-2p-3f", "actors.num_envs=8"],
        ["sharing.rule=dynamic", "functions.actor.timeout_s=70", "task.options.max_cycles=9", "stop.seconds=9"],
    ],
)
def test_short_configuration_equals_long_configuration(settings, tmp_path, capsys):
    assert main(["config", "--short", *settings]) == 0
    printed = capsys.readouterr().out
    assert not {"[trend]", "[placement]", "[pricing]", "[league]"} & {*printed.splitlines()}
    assert main(["config", *settings]) == 0
    used = capsys.readouterr().out
    assert ("[trend]" in used) == ("trial_episodes" in used) == ("sharing.rule=dynamic" in settings)
    for text in (printed, used):
        (tmp_path / "my.toml").write_text(text)
        assert load(tmp_path / "my.toml") == load_with_origins(None, settings)[0]


def test_short_key_list_shows_other_set_keys(capsys):
    assert main(["config", "--short", "--json", "sharing.rule=all", "seed=3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tables = {line["key"].partition(".")[0] for line in lines}
    assert tables == {"seed", "task", "algorithm", "actors", "evaluation", "stop", "log", "sharing"}
    assert [line["key"] for line in lines if line["key"].startswith("sharing")] == ["sharing.rule"]


def test_command_explains_decisions_with_reasons_and_sources(capsys):
    task = ["pettingzoo:mpe2.simple_spread_v3:parallel_env", "task.options.max_cycles=150"]
    assert main(["config", "--why", "--json", *task]) == 0
    lines = {line["key"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    values = [lines[f"algorithm.{key}"]["value"] for key in ("gamma", "num_minibatches")]
    assert values == pytest.approx([1 - 1 / (0.4 * 150), 64 * 150 // 200])
    assert lines["sharing.rule"]["set_by"].endswith("(Yu et al. 2022)")
