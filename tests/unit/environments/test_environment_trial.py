"""The results of a trial equal the numbers of small environments, computed by hand."""

import pytest
from msgspec.structs import replace
from relays import relay

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.testing.environment_trial import hold


def trial_of(task):
    return hold(registry.make(task, 1), lambda: registry.make(task, 1))


def broken(name):
    return EnvTask(name=f"pettingzoo:stated.promises:{name}", options={"horizon": 4})


def test_lengths_returns_and_ends_are_of_episodes():
    # Agents 0, 1 and 2 leave in steps 2, 3 and 4, with rewards of 1, 2 and 3 per step: 2 + 6 + 12.
    trial = trial_of(relay(masked=True))
    assert {*trial.lengths} == {4}
    assert {*trial.returns} == {20.0}
    assert (trial.truncated, trial.early, trial.rewarded, trial.zero_sum) == (0, True, True, False)
    assert trial.legal == [(3, 3)]
    assert (trial.fault, trial.unseeded, trial.leftover, trial.outside, trial.same_start) == ("", "", "", "", False)


def test_episodes_that_a_limit_ends_are_counted():
    trial = trial_of(broken("Kept"))
    assert len(trial.lengths) == trial.truncated == len(trial.returns) > 0
    assert {*trial.returns} == {8.0}
    assert not trial.early
    (low, high) = trial.values[0]
    assert low >= 0
    assert high == 4.0  # the last observation of an episode counts, too


def test_all_seeds_with_one_first_observation_are_told():
    assert trial_of(EnvTask(name="matrix/climbing")).same_start


@pytest.mark.parametrize(
    ("name", "field", "text"),
    [
        ("Unseeded", "unseeded", "the observation of agent 'a' in the reset"),
        ("Leftover", "leftover", "the reward of agent 'b' in step 1"),
        ("Picture", "outside", "agent 'a' observes a number outside its observation_space: number 1 of 2 is 0."),
        ("TooHigh", "outside", "number 2 of 2 is 4, and the nearest number in the space is 3 (of type float32)"),
        ("Vanishing", "fault", "agents ['b'] are gone, but neither terminated nor truncated"),
    ],
)
def test_a_broken_promise_is_named_with_its_place(name, field, text):
    assert text in getattr(trial_of(broken(name)), field)


@pytest.mark.parametrize(("copies", "max_cycles", "told"), [(1, 20_000, False), (64, 5, True)])
def test_varying_entity_numbers_are_found_over_many_episodes(copies, max_cycles, told):
    task = EnvTask(name="mpe/simple_spread", options={"entities": True, "max_cycles": max_cycles})
    environment = registry.make(task, copies)
    (kind,) = environment.spec.classes
    # The first entity is the agent itself: 1 for its kind, and 0 for a landmark.
    described = Entities.of(kind.observation_size, EntityBlock("kind", ((4,), (5,))))
    environment.spec = replace(environment.spec, classes=(replace(kind, entities=described),))
    text = "entities 'kind': column 5 is from 0 to 0, and column 4 is from 1 to 1. Equal entities have similar numbers"
    assert hold(environment, lambda: registry.make(task, copies)).apart == (text if told else "")


def test_new_environment_follows_seed_with_leaky_reset():
    assert trial_of(broken("Leftover")).unseeded == ""


def test_rewards_that_cancel_each_other_are_told():
    trial = trial_of(broken("Duel"))
    assert trial.zero_sum
    assert trial.rewarded
