"""Valid configurations that are incompatible with a task."""

import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.platform import Platform
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec

NUMBERS = "task.options.continuous_actions=true"
SMALL = "functions.actor.memory_mb=128"
SMALL_LEARNER = "functions.learner.memory_mb=128"
MISFITS = {
    "stretches beyond a rollout": (
        ["algorithm.name=vdn", "algorithm.sequence_length=4"],
        "algorithm.sequence_length: sequences of 4 steps do not fill the 25 that an actor plays; set a divisor of 25",
    ),
    "stretches beyond what an actor plays": (
        ["algorithm.name=vdn", "algorithm.sequence_length=25", "actors.rollout_length=30"],
        "do not fill the 30 that an actor plays",
    ),
    "nothing left to learn from": (
        ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=25"],
        "algorithm.burn_in: 25 steps leave none to learn from of the 25 that an actor plays; set fewer",
    ),
    "more than an actor can hold": (
        # By hand: a step is a flag, and 3 agents of 18 floats, an action, its log-probability, a reward and two flags:
        # 259 bytes. With its cut an episode of 25 has 6,707 bytes, and three times that is 1/6,670 of 128 MiB.
        ["actors.num_envs=6671", SMALL],
        "actors.num_envs: to play and store 6,671 copies of 25 steps an actor needs 128 MB, and"
        " functions.actor.memory_mb is 128; set at most 6,670",
    ),
    "more rollouts than an actor can hold": (
        ["actors.num_envs=4000", SMALL, "actors.rollouts=3", "placement.pack=2"],
        "8,000 copies of 25 steps an actor needs 154 MB, and functions.actor.memory_mb is 128; set at most 3,335",
    ),
    "episodes that no actor can hold": (
        ["actors.num_envs=8", SMALL, "task.options.max_cycles=200000"],
        "is 128; not one fits: shorten episodes (such as task.options.max_cycles), or shrink what agents see",
    ),
    # By hand: with h hidden units a policy has 24 h + 5 parameters, a critic 20 h + 1, each of 4 bytes. Drawing
    # three agents' networks takes 3 (3 policies + 4 critics).
    "networks that no learner of theirs can draw": (
        ["algorithm.name=ippo", "algorithm.hidden=[80000]", SMALL_LEARNER],
        "functions.learner.memory_mb: a learner needs over 139 MB for networks, and it is 128; set well over 140, or"
        " shrink the networks (such as algorithm.hidden) or what agents see",
    ),
    # One learner for all: 18 policies and critics, and 2 policies more; two copies of the observations, 0.7 MB.
    "more networks than a learner can hold": (
        ["algorithm.name=ippo", "algorithm.hidden=[60000]", "placement.rule=packed", SMALL_LEARNER],
        "a learner needs over 192 MB for networks and 1 for what they learn from, and it is 128; set well over 193, or",
    ),
    "networks that no function can hold": (
        ["algorithm.name=ippo", "algorithm.hidden=[6000000]"],
        "is 1,769; none can have so much: shrink the networks",
    ),
    # A step is 54 numbers of 4 bytes: the replay buffer has 640,000 steps, plus two copies of 1,600.
    "more of the past than a learner can hold": (
        ["algorithm.name=vdn", "algorithm.buffer_size=1000000", SMALL_LEARNER],
        "for networks and 132 for what they learn from, and it is 128; set well over 134, or learn from less"
        " (algorithm.buffer_size), or shrink what agents see",
    ),
    "a round that no learner can hold": (
        ["algorithm.name=ippo", "actors.num_envs=4000", "actors.rollouts=4", SMALL_LEARNER],
        "set well over 248, or learn from less (actors.num_envs), or",
    ),
    # Six policies.
    "policies that no actor can hold": (
        ["algorithm.name=ippo", "algorithm.hidden=[300000]", SMALL],
        "functions.actor.memory_mb: an actor needs over 165 MB for networks, and it is 128; set well over 165, or",
    ),
    "policies that no evaluator can hold": (
        ["algorithm.name=ippo", "algorithm.hidden=[300000]", "functions.evaluator.memory_mb=128"],
        "functions.evaluator.memory_mb: an evaluator needs over 165 MB",
    ),
    "an agent by hand that is not there": (
        ['sharing.groups=[["agent_0", "agent_3"]]'],
        "sharing.groups: there is no agent agent_3; there are agent_0, agent_1, agent_2",
    ),
    "agents by hand of two sides": (
        ["task.name=mpe/simple_adversary", 'sharing.groups=[["agent_0", "adversary_0"]]'],
        "sharing.groups: agent_0 and adversary_0 cannot share a network",
    ),
    "a side that is not there": (["evaluation.side=2"], "evaluation.side"),
    "choices compared as numbers": (["sharing.distance=w2", "sharing.rule=dynamic"], "use jsd"),
    "numbers compared as choices": (["sharing.rule=dynamic", NUMBERS], "use hellinger or w2"),
}
FITS = {
    "stretches that fill a rollout": ["algorithm.name=vdn", "algorithm.sequence_length=5"],
    "stretches that fill what an actor plays": [
        "algorithm.name=vdn",
        "algorithm.sequence_length=4",
        "actors.rollout_length=32",
    ],
    "targets that look beyond whole rollouts and see their end": ["algorithm.name=qmix", "algorithm.n_step=26"],
    "a memory of whole rollouts": ["algorithm.name=vdn", "algorithm.recurrent=true", "algorithm.burn_in=24"],
    "as much as an actor can hold": ["actors.num_envs=6670", SMALL],
    "rollouts of which an actor holds one at a time": ["actors.num_envs=4000", SMALL, "actors.rollouts=3"],
    "what no actor has to hold": ["actors.num_envs=6671", SMALL, "placement.rule=whole"],
    "networks that a learner can draw": ["algorithm.name=ippo", "algorithm.hidden=[73000]", SMALL_LEARNER],
    "networks that learners of their own can hold": ["algorithm.name=ippo", "algorithm.hidden=[60000]", SMALL_LEARNER],
    "as much of the past as a learner can hold": ["algorithm.name=vdn", "algorithm.buffer_size=600000", SMALL_LEARNER],
    "a past that the run does not come to": [
        "algorithm.name=vdn",
        "algorithm.buffer_size=1000000",
        "stop.rounds=300",
        SMALL_LEARNER,
    ],
    "policies that no actor has to hold": [
        "algorithm.name=ippo",
        "algorithm.hidden=[300000]",
        "placement.rule=whole",
        SMALL,
    ],
    "choices compared as choices": ["sharing.rule=dynamic"],
}


# One agent with discrete and one with continuous actions.
BOTH = EnvSpec(
    agents=("a", "b"),
    classes=(AgentClass("a", (0,), 3, 2), AgentClass("b", (1,), 3, 2, low=(0.0, 0.0), high=(1.0, 1.0))),
    horizon=5,
)


def problem_of(settings):
    """On a machine with a slot for each of three groups."""
    config = load(None, settings)
    return incompatibility(config, registry.spec(config.task), platform=Platform(concurrency=3))


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_one_line_with_its_key(name):
    settings, said = MISFITS[name]
    assert said in problem_of(settings) and "\n" not in problem_of(settings)


@pytest.mark.parametrize("name", FITS)
def test_what_fits_passes(name):
    assert problem_of(FITS[name]) == ""


@pytest.mark.parametrize("distance", ["jsd", "hellinger", "w2"])
def test_where_some_choose_and_some_act_in_numbers_the_distance_that_compares_both_is_named(distance):
    config = load(None, ["sharing.rule=dynamic", f"sharing.distance={distance}"])
    assert incompatibility(config, BOTH).endswith("; use kde-kl")
    assert incompatibility(load(None, ["sharing.rule=dynamic", "sharing.distance=kde-kl"]), BOTH) == ""
