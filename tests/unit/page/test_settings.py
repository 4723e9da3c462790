"""The settings that a page shows first, and the command that gives them again."""

import pytest

from coordinator.config.loading import load
from functions.algorithms.registry import ALGORITHMS
from marless.page.run_settings import command, settings


@pytest.mark.parametrize("name", [spec.name for spec in ALGORITHMS.ours()])
def test_the_command_names_what_differs_for_every_algorithm(name):
    """One that imitates has no defaults without a dataset."""
    given = [f"algorithm.name={name}", "seed=7", *(["offline.dataset=data"] if name == "bc" else [])]
    config = load(None, given)
    words = command(config).split()
    assert words[:2] == ["marless", "train"] and load(None, words[2:]) == config
    assert {*words[2:]} == {*given} - {f"algorithm.name={load(None).algorithm.name}"}
    assert {each.key for each in settings(config) if each.differs} == {word.split("=")[0] for word in words[2:]}
