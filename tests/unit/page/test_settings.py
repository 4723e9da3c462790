"""The settings that a page shows first, and the command that gives them again."""

import pytest

from marless.coordinator.config.loading import load, load_with_origins
from marless.functions.algorithms.registry import ALGORITHMS
from marless.page.run_settings import command, settings


@pytest.mark.parametrize("name", [spec.name for spec in ALGORITHMS.ours()])
def test_the_command_names_what_differs_for_every_algorithm(name):
    """One that imitates has no defaults without a dataset, and one whose agents speak has tasks of its own."""
    needed = {"bc": ["offline.dataset=data"], "grpo": ["task.name=text/relay"]}
    given = [f"algorithm.name={name}", "seed=7", *needed.get(name, [])]
    config = load(None, given)
    words = command(config).split()
    assert words[:2] == ["marless", "train"] and load(None, words[2:]) == config
    assert {*words[2:]} == {*given} and command(load_with_origins(None, ["seed=7"])[0]) == "marless train seed=7"
    assert {each.key for each in settings(config) if each.differs} == {word.split("=")[0] for word in words[2:]}
