"""What a task cannot give a configuration that looks sound on its own."""

import pytest

from coordinator.config import load
from coordinator.fitting import misfit
from functions.environments import registry
from functions.environments.base import AgentClass, Spec

NUMBERS = "task.options.continuous_actions=true"
SMALL = "functions.actor.memory_mb=128"
MISFITS = {
    "stretches beyond a unit": (
        ["algorithm.name=vdn", "algorithm.stretch=4"],
        "algorithm.stretch: stretches of 4 steps do not fill the 25 that an actor plays; set a divisor of 25",
    ),
    "stretches beyond what an actor plays": (
        ["algorithm.name=vdn", "algorithm.stretch=25", "actors.steps=30"],
        "do not fill the 30 that an actor plays",
    ),
    "nothing left to learn from": (
        ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=25"],
        "algorithm.burn_in: 25 steps leave none to learn from of the 25 that an actor plays; set fewer",
    ),
    "targets that look beyond what burn-in leaves": (
        ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=10", "algorithm.ahead=16"],
        "algorithm.ahead: targets of 16 steps do not fit the 25 that an actor plays, 10 of them burn-in; set fewer",
    ),
    "targets that look beyond what an actor plays": (
        ["algorithm.name=qmix", "algorithm.ahead=26"],
        "algorithm.ahead: targets of 26 steps do not fit the 25 that an actor plays; set fewer",
    ),
    "more than an actor can hold": (
        # By hand: a step is a flag, and 3 agents of 18 floats, an action, its log-probability, a reward and two flags:
        # 259 bytes. With what follows an episode of 25 a copy has 6,707, and three times that is 1/6,670 of 128 MiB.
        ["actors.copies=6671", SMALL],
        "actors.copies: to play and store 6,671 copies of 25 steps an actor needs 128 MB, and functions.actor.memory_mb"
        " is 128; set at most 6,670",
    ),
    "more units than an actor can hold": (
        ["actors.copies=4000", SMALL, "scaling.units=3", "placement.units_per_invocation=2"],
        "8,000 copies of 25 steps an actor needs 154 MB, and functions.actor.memory_mb is 128; set at most 3,335",
    ),
    "episodes that no actor can hold": (
        ["actors.copies=8", SMALL, "task.options.max_cycles=200000"],
        "is 128; not one fits: shorten episodes (such as task.options.max_cycles), or shrink what agents see",
    ),
    "a side that is not there": (["evaluation.side=2"], "evaluation.side"),
    "choices compared as numbers": (["sharing.distance=w2", "sharing.rule=dynamic"], "use jsd"),
    "numbers compared as choices": (["sharing.rule=dynamic", NUMBERS], "use hellinger or w2"),
}
FITS = {
    "stretches that fill a unit": ["algorithm.name=vdn", "algorithm.stretch=5"],
    "stretches that fill what an actor plays": ["algorithm.name=vdn", "algorithm.stretch=4", "actors.steps=32"],
    "targets as far as burn-in leaves": [
        "algorithm.name=vdn",
        "algorithm.recurrent=true",
        "algorithm.burn_in=10",
        "algorithm.ahead=15",
    ],
    "a memory of whole units": ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=24"],
    "as much as an actor can hold": ["actors.copies=6670", SMALL],
    "units of which an actor holds one at a time": ["actors.copies=4000", SMALL, "scaling.units=3"],
    "what no actor has to hold": ["actors.copies=6671", SMALL, "placement.rule=whole"],
    "choices compared as choices": ["sharing.rule=dynamic"],
}


# One agent that chooses and one that acts in numbers.
BOTH = Spec(
    agents=("a", "b"),
    classes=(AgentClass("a", (0,), 3, 2), AgentClass("b", (1,), 3, 2, low=(0.0, 0.0), high=(1.0, 1.0))),
    horizon=5,
)


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


@pytest.mark.parametrize("distance", ["jsd", "hellinger", "w2"])
def test_where_some_choose_and_some_act_in_numbers_the_distance_that_compares_both_is_named(distance):
    config = load(None, ["sharing.rule=dynamic", f"sharing.distance={distance}"])
    assert misfit(config, BOTH).endswith("; use kde-kl")
    assert misfit(load(None, ["sharing.rule=dynamic", "sharing.distance=kde-kl"]), BOTH) == ""
