"""The page about the API has each public name, and its examples run."""

from importlib import import_module
from pathlib import Path

import pytest

import marless
from marless.algorithms import ppo_variant
from marless.functions.algorithms.ppo.ppo import policy
from scripts.stubs import api_page as api

ROOT = Path(__file__).parents[2]
CONTEXTS = []
# Examples of the second module use the runs of the first.
PAIR = ("marless", "marless.results")
TOGETHER = [PAIR, *((name,) for name in api.MODULES if name not in PAIR)]


def kept(context, group):
    CONTEXTS.append(context)
    return policy(context, group)


def variant():
    return ppo_variant(policy=kept)


@pytest.fixture
def names(small, home, shell):
    shell.import_from(ROOT / "examples")
    (home / "my_judge.py").write_text("def grade(question):\n    return b'1'\n")
    shell.import_from(home)
    return {"__name__": "__main__"}


@pytest.mark.parametrize("module", api.MODULES)
def test_each_public_name_has_an_example(module):
    examples, place = api.examples(module), module.replace(".settings", "")
    listed = [f"{place}.{name}" for name in import_module(module).__all__]
    assert sorted(filter(None, examples)) == sorted(listed)
    assert all(1 <= len(code.splitlines()) <= 3 for name, code in examples.items() if name)


@pytest.mark.parametrize("modules", TOGETHER, ids=lambda modules: modules[0])
def test_examples_run(modules, names, small):
    if "marless.algorithms" in modules:
        marless.train({**small, "task": "toy/signal", "algorithm": variant}, quiet=True, workers=1)
        names["context"] = CONTEXTS[-1]
    for module in modules:
        path = api.EXAMPLES / f"{module.rpartition('.')[2]}.txt"
        exec(compile(path.read_text(), path, "exec"), names)
    if modules == PAIR:
        shown = {type(value).__name__: repr(value) for value in names.values()}
        assert all(len(shown[name]) <= 1_000 and shown[name].count("\n") < 10 for name in marless.results.__all__)
