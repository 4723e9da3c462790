"""Settings as classes."""

import pytest

import marless


def test_a_table_has_only_the_given_keys():
    assert marless.Stop(rounds=50, return_=-36.0) == {"rounds": 50, "return": -36.0}
    assert marless.MAPPO(lr=3e-4) == {"name": "mappo", "lr": 3e-4}


def test_a_wrong_key_is_refused_at_once():
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
