"""Completions of the tab key, by a real bash and by the functions that bash and zsh ask."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from marless.cli.completion import COLLECTIONS, completers, setting_candidates
from marless.comparison import run_selection
from marless.coordinator.config.config_keys import valid_keys
from marless.functions.algorithms import registry as algorithms

# Each line is completed as bash does it: the function that the script registers reads the line and sets COMPREPLY.
SCRIPT = r"""
eval "$(marless doctor --completion bash)"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
while read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete marless
    echo "${COMPREPLY[*]}"
done
"""
# Zsh passes the widget's line and words as variables, and `_describe` shows the completions.
ZSH_SCRIPT = r"""
compdef() {}
eval "$(marless doctor --completion zsh)"
_describe() { print -rl -- ${(P)2} }
while IFS= read -r BUFFER; do
    CURSOR=${#BUFFER} words=(${(z)BUFFER})
    _python_argcomplete marless
done
"""
CANDIDATES = {
    "marless runs arch": ("archive", "write a run into one file"),
    "marless train --back": ("--backend", "where functions run (default: local)"),
    "marless status fi": ("first", ""),
    "marless train mpe/simple_spread qmix algorithm.mixing": (
        "algorithm.mixing_embed_dim=",
        "hidden units of the mixing network. Higher can learn more, but takes longer",
    ),
}


def completed(shell_and_options, script, folder):
    """The lines that a shell prints for the lines above, typed in a folder with the run `first`."""
    (folder / "runs" / "first").mkdir(parents=True)
    done = subprocess.run(
        [*shell_and_options, script],
        input="".join(f"{line}\n" for line in CANDIDATES),
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.strip() for line in done.stdout.splitlines()]


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_commands_options_runs_and_settings(tmp_path):
    assert completed(["bash", "-c"], SCRIPT, tmp_path) == [text for text, _ in CANDIDATES.values()]


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh")
def test_zsh_completes_the_same_with_what_it_means(tmp_path):
    assert completed(["zsh", "-f", "-c"], ZSH_SCRIPT, tmp_path) == [*map(":".join, CANDIDATES.values())]


def test_keys_of_named_algorithm_are_offered_with_meaning():
    assert setting_candidates("", ["mpe/simple_spread", "qmix"]) == {
        f"{key}=": text for key, text in valid_keys("qmix").items()
    }
    assert [*setting_candidates("stop.r", [])] == ["stop.rounds=", "stop.return="]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("algorithm.name=", [*algorithms.names()]),
        ("algorithm.name=q", ["qmix", "qplex"]),
        ("algorithm.lr_schedule=", ["constant", "linear", "cosine"]),
        ("algorithm.recurrent=", ["true", "false"]),
        ("league.rule=", ["none", "uniform", "prioritised"]),
        ("log.to=t", ["tensorboard"]),
        ("task.name=mpe/simple_s", ["mpe/simple_speaker_listener", "mpe/simple_spread"]),
        ("stop.rounds=", ["400"]),
        ("algorithm.hidden=", ["64,64"]),
        ("no.key=", []),
    ],
)
def test_existing_or_example_values_follow_equals_sign(typed, values):
    assert [setting.partition("=")[2] for setting in setting_candidates(typed, [])] == values


def test_the_keys_of_a_resource_have_its_name():
    assert setting_candidates("resources.judge.sl", []).keys() == {"resources.judge.slots="}
    assert "resources.NAME.slots=" in setting_candidates("resources.", [])


def test_only_settings_files_and_resumable_settings_are_offered(tmp_path, shell):
    shell.cd(tmp_path)
    (tmp_path / "configs").mkdir()
    for name in ("my.toml", "notes.txt", "configs/own.toml"):
        (tmp_path / name).touch()
    offered = completers("train")["settings"]
    assert {"my.toml", "seed="} <= offered(prefix="", parsed_args=Namespace()).keys()
    assert offered(prefix="m", parsed_args=Namespace(settings=[])).keys() == {"my.toml"}
    assert offered(prefix="configs/", parsed_args=Namespace()).keys() == {"configs/own.toml"}
    assert offered(prefix="./m", parsed_args=Namespace()).keys() == {"./my.toml"}
    assert offered(prefix=f"{tmp_path}/c", parsed_args=Namespace()).keys() == {f"{tmp_path}/configs/"}
    resumed = completers("resume")["settings"](prefix="", parsed_args=Namespace())
    assert {key.partition(".")[0] for key in resumed} == {"stop", "functions", "log", "resources"}


def test_each_run_is_offered_once_unless_being_removed(tmp_path, shell):
    shell.cd(tmp_path)
    for name in ("runs/first", "runs/.removed-second-0a", "studies/lr", "ablations/rules"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to("first")
    (tmp_path / "studies" / "lr" / "study.json").touch()
    assert completers("study")["study"](prefix="l") == ["lr"]
    assert completers("runs remove")["runs"](prefix="") == ["latest", "first", "studies/lr", "ablations/rules"]
    assert [Path(parent) for parent in COLLECTIONS] == [*run_selection.COLLECTIONS]
