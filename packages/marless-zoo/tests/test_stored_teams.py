"""Stored teams have the returns and the hashes of their records."""

import hashlib
import json

import pytest

from marless.cli.app import main
from marless_zoo import training
from marless_zoo.stored_team import FOLDER, POLICIES, stored_teams

TINY = ("toy/corridor", "stop.rounds=2", "actors.num_envs=2", "evaluation.final_episodes=3")


@pytest.mark.parametrize("team", stored_teams(), ids=lambda team: team.name)
def test_the_files_of_a_record_are_of_its_training(team):
    body = (FOLDER / f"{team.name}{POLICIES}").read_bytes()
    assert (hashlib.sha256(body).hexdigest(), len(body)) == (team.sha256, team.size)
    config = team.configuration()
    assert (config.task.name, config.algorithm.name, config.seed) == (team.task, team.algorithm, team.seed)


@pytest.mark.parametrize(("name", "is_drawn"), [("spread-relation-ippo", True), ("climbing-mappo", False)])
def test_a_stored_team_returns_what_its_record_says(name, is_drawn, tmp_path, shell, capsys):
    shell.cd(tmp_path)
    assert main(["play", name, "--episodes", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["is_stored"] and answer["returns"] == answer["team"]["returns"]
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.gif"] * is_drawn


@pytest.mark.parametrize(("name", "hint"), [("relation-ippo", "spread-relation-ippo?"), ("0", "play lists all")])
def test_an_unknown_name_is_answered_in_one_line(name, hint, capsys):
    assert main(["play", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"marless: the zoo has no team {name}: ") and line.endswith(hint)


@pytest.mark.slow
def test_a_team_is_added_and_reproduced_and_another_hash_is_named(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    team = training.add("tiny", TINY, tmp_path)
    assert training.reproduce(["tiny"], tmp_path) == 0
    (tmp_path / "tiny.toml").write_text((tmp_path / "tiny.toml").read_text().replace("seed = 1", "seed = 2"))
    assert training.reproduce(["tiny"], tmp_path) == 1
    assert f"in place of {team.weights_sha256}" in capfd.readouterr().out
