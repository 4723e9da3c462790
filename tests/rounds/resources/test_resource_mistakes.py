"""Mistakes about resources give one line with the fault, its place and the remedy. The run loses nothing."""

from pathlib import Path

import pytest
from commands import Commands
from installed_commands import STOCKFISH, needs_stockfish

RUN = ("task.name=toy/signal", "task.judge=judge", "stop.rounds=1", "actors.num_envs=2", "algorithm.hidden=[8]")
TOY = ("evaluation.episodes=2", "evaluation.final_episodes=2", "evaluation.every=1")


@pytest.fixture
def train(shell, tmp_path, capfd, no_processes):
    shell.cd(tmp_path)
    command = Commands(capfd)
    return lambda *settings: command("train", *RUN, *TOY, *settings, "--run", "asked")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["resources.jury.serve=judges:grade"], "task.judge: there is no resource 'judge'; there are jury"),
        ([], "task.judge: there is no resource 'judge'"),
        (["resources.judge.serve=no_such_module:grade"], "resources.judge.serve: there is no module 'no_such_module'"),
        (["resources.judge.serve=judges:graed"], "resources.judge.serve: there is no 'graed' in "),
        (["resources.judge.serve=json:loads"], "resources.judge.serve: 'json' belongs to Python's own library"),
        (["resources.judge.serve=judges:grade", "resources.judge.slots=0"], "resources.judge.slots: 0 is not a whole"),
        (["resources.judge.command=no-such-engine -x"], "resources.judge.command: 'no-such-engine' is not installed"),
        (["resources.judge.serve=grade"], "'grade' names no function: write package.module:function"),
        (["resources.judge.http=ftp://host"], "resources.judge: http: write it as https://host/path"),
        (["resources.judge.slots=2"], "a resource has exactly one of serve, command and http; none is set"),
    ],
)
def test_a_mistake_is_one_line_before_anything_begins(train, settings, line):
    said = train(*settings)
    assert (said.code, said.out) == (2, [])
    assert len(said.err) == 1 and line in said.err[0] and "Traceback" not in said.err[0]
    assert not Path("runs/asked").exists()


def test_without_bubblewrap_a_run_says_what_installs_it(train, shell, tmp_path):
    shell.export(PATH=str(tmp_path))
    said = train("resources.judge.serve=judges:grade", "resources.judge.sandbox=bubblewrap")
    assert said.code == 2 and len(said.err) == 1
    assert "resources.judge.sandbox: bubblewrap (bwrap) is not installed" in said.err[0]
    assert "apt-get install bubblewrap" in said.err[0]


def test_unusable_proxy_is_named_before_start(train, shell):
    shell.export(http_proxy="socks5://me:secret@proxy.example")
    said = train("resources.judge.http=http://judge.example/")
    assert (said.code, len(said.err)) == (2, 1) and "secret" not in said.err[0]
    assert "resources.judge.http: http_proxy names a proxy that is not asked by http://" in said.err[0]


@needs_stockfish
def test_engine_in_games_folder_of_debian_is_named(train, shell, tmp_path):
    if not STOCKFISH.startswith("/usr/games/"):
        pytest.skip("stockfish lies elsewhere")
    shell.export(PATH=str(tmp_path))
    said = train("resources.judge.command=stockfish", "resources.judge.until=bestmove")
    assert said.code == 2 and said.err[0].endswith(f"or not on the PATH; name it {STOCKFISH}")


def test_silent_judge_ends_run_in_one_line(train, processes):
    said = train("resources.judge.serve=judges:hangs", "resources.judge.timeout_s=0.2", "attempts=1")
    assert said.code == 1
    (line,) = said.err
    assert "resource 'judge'" in line and "0.2 s" in line and "(3 attempts)" in line and "marless resume asked" in line
