"""Files for others hold no secret option, and terminals can show them safely. The run itself still plays."""

import json
from pathlib import Path

import pytest

import marless as api

pytest.importorskip("pettingzoo")

SECRET = "opensesame-4711"
KEYED = [
    "task.name=pettingzoo:keyed:make",
    f"task.options.api_key={SECRET}",
    "actors.num_envs=4",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
    "evaluation.every=1",
    "stop.rounds=2",
]


@pytest.fixture
def keyed(marless):
    said = marless("train", *KEYED, "--backend", "inline", "--run", "k", 'log.to=["csv"]')
    assert said.code == 0, said.err
    return marless


def assert_plain(said):
    text = "\n".join([*said.out, *said.err])
    assert SECRET not in text
    assert "\x1b" not in text and "\u202e" not in text and "\nmarless: forged" not in text


def test_the_run_plays_on_with_its_key(keyed):
    for command in (
        ["evaluate", "k", "--episodes", "4", "--workers", "1"],
        ["evaluate", "k", "--episodes", "4", "--workers", "1", "--json"],
        ["export", "k", "--to", "npz", "--episodes", "4"],
        ["export", "k", "--to", "safetensors"],
        ["report", "k", "--out", "page.html"],
        ["status", "k"],
        ["report", "--timeline", "k"],
        ["runs"],
        ["resume", "k", "stop.rounds=3", "--workers", "1"],
    ):
        said = keyed(*command)
        assert said.code == 0, said.err
        assert_plain(said)
    assert SECRET in Path("runs/k/config.toml").read_text(encoding="utf-8")
    given = [*Path("exports").rglob("*"), *Path("runs/k").glob("*.safetensors"), Path("page.html")]
    assert len(given) > 8
    for path in given:
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    document = json.loads(Path("exports/k-safetensors/policies.json").read_text(encoding="utf-8"))
    assert document["task"]["options"] == {"api_key": "<api_key>"}
    assert api.load_policy("runs/k").task.options == {"api_key": "<api_key>"}


def test_dataset_without_key_is_dataset_of_task(keyed):
    assert keyed("export", "k", "--to", "npz", "--episodes", "8", "--out", "data").code == 0
    said = keyed("train", *KEYED, "offline.dataset=data", "algorithm.name=bc", "--backend", "inline", "--run", "bc")
    assert said.code == 0, said.err


def test_error_is_shown_without_the_key(marless):
    said = marless("train", *KEYED, "task.options.fails=true", "--backend", "inline", "--run", "k")
    assert said.code != 0 and "<task.options.api_key>" in "\n".join(said.err)
    assert_plain(said)


def test_prints_of_environment_are_not_in_output(marless):
    said = marless("train", *KEYED, "task.options.prints=true", "--backend", "inline", "--run", "k", "--json")
    assert said.code == 0
    events = [json.loads(line)["event"] for line in said.out]
    assert (events[0], events[-1]) == ("started", "finished")
    assert "the key <task.options.api_key> \\u001b[2J" in said.err
    assert_plain(said)


def test_configuration_with_name_for_key_is_refused(marless):
    shown = marless("config", *KEYED)
    assert_plain(shown)
    Path("given.toml").write_text("\n".join(shown.out), encoding="utf-8")
    said = marless("train", "given.toml", "stop.rounds=1")
    assert said.code == 2 and "task.options.api_key has its name for a value" in said.err[0]


def test_unknown_keys_are_shown_and_ignored(marless):
    Path("bad.toml").write_text('"\\u001b[2J\\nforged" = 1\n', encoding="utf-8")
    said = marless("train", "bad.toml")
    assert said.code == 2 and len(said.err) == 1
    assert "\x1b" not in said.err[0] and "forged" in said.err[0]


def test_what_environments_print_is_for_their_user_alone(marless, processes):
    said = marless("train", *KEYED, "--workers", "1", "--run", "k")
    assert said.code == 0, said.err
    assert Path("runs/k/workers").stat().st_mode & 0o077 == 0
