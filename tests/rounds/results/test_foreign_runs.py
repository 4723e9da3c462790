"""A foreign run loads the code that its configuration names only after the user trusts it."""

import shutil
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from commands import Commands

import marless as api
from marless.cli.app import main
from marless.coordinator.errors import UserError
from marless.runs.folder import RunFolder, sha256
from marless.runs.integrity.trusted_origin import named_code
from marless.training import configuration

SETTINGS = ("actors.num_envs=2", "algorithm.hidden=[8]", "evaluation.episodes=2", "evaluation.final_episodes=2")
PLAYS = (
    ["evaluate", "RUN", "--episodes", "2", "--workers", "1"],
    ["crossplay", "RUN", "random", "--episodes", "2"],
    ["export", "RUN", "--to", "npz", "--episodes", "2", "--out", "episodes"],
    ["replay", "RUN", "--episodes", "1"],
    ["resume", "RUN", "stop.rounds=2", "--workers", "1"],
)
READS = (
    ["runs"],
    ["status", "RUN"],
    ["runs", "verify", "RUN"],
    ["report", "--timeline", "RUN"],
    ["log", "RUN"],
    ["report", "RUN", "--out", "page.html"],
    ["export", "RUN", "--to", "safetensors", "--out", "policies"],
    ["estimate", "--simulate", "RUN", "--rollouts", "1", "--rounds", "3"],
    ["train", "RUN/config.toml", "--help"],
)
GAME = """
import pathlib
from named_games import Game

def make(render_mode=None):
    pathlib.Path("called").touch()
    return Game()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    with chdir(folder):
        (folder / "my_game.py").write_text(GAME)
        name = "task.name=pettingzoo:my_game:make"
        assert main(["train", name, *SETTINGS, "stop.rounds=1", "--run", "mine", "--workers", "1"]) == 0
        yield folder
    sys.modules.pop("my_game", None)


@pytest.fixture
def marless(trained, tmp_path, shell, capfd, no_processes):
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    shell.cd(tmp_path / "copy")
    Path("called").unlink()
    return Commands(capfd)


def somebody_elses():
    """The run as it comes from a machine with another key."""
    shutil.copytree("runs/mine", "runs/gift")
    (Path("runs/gift/.seal")).write_text("0" * 64)
    return "gift"


@pytest.mark.parametrize("command", PLAYS, ids=lambda command: command[0])
def test_foreign_run_is_played_when_trusted(marless, command):
    run = somebody_elses()
    words = [word.replace("RUN", run) for word in command]
    refused = marless(*words)
    assert refused.code == 2 and not Path("called").exists()
    assert refused.err == [
        "marless: gift was not made by you on this machine, and runs task.name=pettingzoo:my_game:make:"
        " read runs/gift/config.toml, then pass --trust"
    ]
    trusted = marless(*words, "--trust")
    assert not any("not made by you" in line for line in trusted.err)
    assert Path("called").exists(), trusted


def test_trust_is_asked_for_once(marless):
    somebody_elses()
    assert marless("evaluate", "gift", "--workers", "1", "--trust").code == 0
    assert marless("evaluate", "gift", "--workers", "1").code == 0


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_on_a_terminal_the_user_is_asked(marless, shell, answer, code):
    somebody_elses()
    shell.type(f"{answer}\n")
    assert marless("evaluate", "gift", "--workers", "1").code == code


@pytest.mark.parametrize("command", READS, ids=lambda command: command[0])
def test_commands_that_only_read_call_nothing(marless, command):
    run = somebody_elses()
    assert marless(*(word.replace("RUN", run) for word in command)).code == 0
    assert not Path("called").exists()


def test_own_run_is_played_after_copy_or_move(marless, tmp_path):
    shutil.move("runs/mine", tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", "runs/renamed")
    for run in (str(tmp_path / "elsewhere"), "renamed"):
        assert marless("evaluate", run, "--workers", "1").code == 0


def test_a_changed_configuration_has_no_seal(marless):
    path = Path("runs/mine/config.toml")
    changed = path.read_bytes() + b"# more\n"
    path.write_bytes(changed)
    plan = Path("runs/mine/plan.json")
    plan.write_text(plan.read_text().replace(RunFolder(Path("runs/mine")).identity().configs[0], sha256(changed)))
    assert "not made by you" in marless("evaluate", "mine").err[0]


def test_run_without_foreign_code_is_played_unasked(marless):
    settings = ("task.name=toy/signal", *SETTINGS, "stop.rounds=1", "--run", "plain", "--workers", "1")
    assert marless("train", *settings).code == 0
    assert not Path("runs/plain/.seal").exists()
    assert marless("evaluate", "plain", "--workers", "1").code == 0


def test_the_same_in_python(marless):
    somebody_elses()
    for play in (api.evaluate, api.replay, api.resume):
        with pytest.raises(UserError, match="then pass trust=True"):
            play("gift")
    assert not Path("called").exists()
    assert api.evaluate("gift", workers=1, trust=True).round == 1


def test_runs_need_confirmation_without_place_for_key(marless, shell):
    shell.export(XDG_STATE_HOME="/dev/null")
    assert "not made by you" in marless("evaluate", "mine").err[0]


def test_the_key_is_the_users_alone(marless, shell, tmp_path):
    shell.export(XDG_STATE_HOME=str(tmp_path / "state"))
    somebody_elses()
    assert marless("evaluate", "gift", "--workers", "1", "--trust").code == 0
    (key,) = (tmp_path / "state/marless").iterdir()
    assert key.stat().st_mode & 0o777 == 0o600


def test_every_setting_that_names_code_is_listed():
    settings = {
        "task": {"name": "pettingzoo:a.b:c", "options": {"text": "x:y"}},
        "evaluation": {"options": {"text": "y:z"}},
        "algorithm": {"name": "qmix", "network": "nets:make", "mixer": "mixers:make", "engine": "torch"},
        "opponents": {"side": 1, "policies": "players:one"},
    }
    listed = named_code(configuration(settings, {}))
    assert {text.partition("=")[2] for text in listed} == {
        "pettingzoo:a.b:c",
        "nets:make",
        "mixers:make",
        "players:one",
    }
    league = {"league": {"rule": "uniform", "script": "players:two"}, "actors": {"rollouts": 4}}
    assert named_code(configuration(league, {})) == ["league.script=players:two"]
