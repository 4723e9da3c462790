"""Settings as classes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import marless


def test_table_has_given_keys_and_refuses_others():
    assert marless.Stop(rounds=50, return_=-36.0) == {"rounds": 50, "return": -36.0}
    assert marless.MAPPO(lr=3e-4) == {"name": "mappo", "lr": 3e-4}

    with pytest.raises(marless.ConfigError, match=r"Stop: there is no key stop\.round; did you mean stop\.rounds\?"):
        marless.Stop(round=50)


def test_classes_mappings_and_keywords_train_alike(small):
    config = marless.Config(task="mpe/simple_tag", algorithm=marless.IPPO, actors=marless.Actors(num_envs=4), rounds=1)
    rest = {"evaluation": small["evaluation"], "quiet": True}
    by_class = marless.train(config, **rest)
    by_word = marless.train("mpe/simple_tag", "ippo", actors={"num_envs": 4}, rounds=1, **rest)
    assert by_class.summary.weights_sha256 == by_word.summary.weights_sha256


def test_a_file_holds_what_was_given(home):
    config = marless.Config(task="mpe/simple_spread", algorithm=marless.QMIX(hidden=[8]), stop={"rounds": 3})
    assert config.to_toml("my.toml") == (home / "my.toml").read_text()
    again = marless.Config.from_toml("my.toml")
    assert again.diff(config) == {} and again.diff(marless.Config(**again, seed=2)) == {"seed": (1, 2)}


USER = """import marless

good = marless.Config(task="mpe/simple_spread", algorithm=marless.MAPPO(lr=3e-4), stop=marless.Stop(rounds=5))
run = marless.train(good, callbacks=[lambda row: row["round"] == 3])
mean: float = marless.evaluate(run, episodes=10).returns.mean
@marless.algorithm
def mine() -> marless.algorithms.AlgorithmSpec:
    return marless.algorithms.ppo_variant()
marless.train("toy/signal", mine, rounds=5)
marless.Stop(round=50)
marless.MAPPO(lr="fast")
marless.train("toy/signal", algorithm=3)
marless.train("toy/signal", round=3)
marless.benchmark(["toy/signal"], [good], round=3)
"""


@pytest.mark.slow
def test_mypy_finds_wrong_keys_and_types(home):
    (home / "user.py").write_text(USER)
    root = str(Path(marless.__file__).parents[1])
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "user.py"]
    done = subprocess.run(command, cwd=home, env={**os.environ, "MYPYPATH": root}, capture_output=True, text=True)
    errors = [line.partition(": ")[0] for line in done.stdout.splitlines() if ": error:" in line]
    assert errors == [f"user.py:{line}" for line in (10, 11, 12, 13, 14)], done.stdout
