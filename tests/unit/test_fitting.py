"""What a task cannot give a configuration that looks sound on its own."""

import pytest

from coordinator.config import load
from coordinator.fitting import misfit
from functions.environments import registry

NUMBERS = "task.options.continuous_actions=true"
MISFITS = {
    "stretches beyond a unit": (
        ["algorithm.name=vdn", "algorithm.stretch=4"],
        "algorithm.stretch: stretches of 4 steps",
    ),
    "stretches beyond what an actor plays": (
        ["algorithm.name=vdn", "algorithm.stretch=25", "actors.steps=30"],
        "do not fill the 30 that an actor plays",
    ),
    "nothing left to learn from": (
        ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=25"],
        "algorithm.burn_in: 25 steps leave none to learn from of the 25",
    ),
    "a side that is not there": (["evaluation.side=2"], "evaluation.side"),
    "choices compared as numbers": (["sharing.distance=w2", "sharing.rule=dynamic"], "use jsd"),
    "numbers compared as choices": (["sharing.rule=dynamic", NUMBERS], "use hellinger or w2"),
}
FITS = {
    "stretches that fill a unit": ["algorithm.name=vdn", "algorithm.stretch=5"],
    "stretches that fill what an actor plays": ["algorithm.name=vdn", "algorithm.stretch=4", "actors.steps=32"],
    "a memory of whole units": ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=24"],
    "choices compared as choices": ["sharing.rule=dynamic"],
}


def judged(settings):
    config = load(None, settings)
    return misfit(config, registry.spec(config.task))


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_one_line_with_its_key(name):
    settings, said = MISFITS[name]
    assert said in judged(settings) and "\n" not in judged(settings)


@pytest.mark.parametrize("name", FITS)
def test_what_fits_passes(name):
    assert judged(FITS[name]) == ""
