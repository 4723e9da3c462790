"""The lower bound of a function's memory, by hand. `tests/rounds` compares it with measurements."""

from dataclasses import replace

import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.core import memory_bound, opponents
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.platform import Platform
from marless.functions.algorithms import registry
from marless.functions.environments import registry as environments
from marless.functions.environments.base import AgentClass, EnvSpec

# Three agents with 18 inputs and 5 actions, in episodes of 25 steps. With h hidden units a policy has 24 h + 5
# parameters, and a critic of one observation 20 h + 1. A parameter has 4 bytes.
SPREAD = environments.spec(load(None, []).task)
ROLLOUTS = 1000
POLICY, CRITIC = 4 * (24 * ROLLOUTS + 5), 4 * (20 * ROLLOUTS + 1)
BOTH = POLICY + CRITIC
# Three agents' observations in 1,600 steps, and again concatenated as a state.
SEEN = 1600 * 3 * 18 * 4
ROUND = 2 * SEEN


def alike(count, size=18, horizon=25, **more):
    agents = tuple(range(count))
    names = tuple(f"agent_{agent}" for agent in agents)
    return EnvSpec(names, (AgentClass("all", agents, size, 5),), horizon=horizon, **more)


def footprint_of(kind, *settings, spec=SPREAD, **platform):
    config = load(None, [f"algorithm.hidden=[{ROLLOUTS}]", *settings])
    team = opponents.initial_team(config, spec, None)
    if kind == "player":
        return memory_bound.player(config, spec, team)
    return memory_bound.learner(config, spec, team, Platform(**platform))


@pytest.mark.parametrize("rule", ["packed", "auto", "whole"])
def test_learner_of_all_groups_holds_networks_before_after(rule):
    """And, at the last policy, two more copies of it: its gradient and the scratch of its step."""
    found = footprint_of("learner", "algorithm.name=ippo", f"placement.rule={rule}")
    assert found == (3 * 3 * BOTH + 3 * 3 * BOTH + 2 * POLICY, ROUND)


def test_group_learner_holds_less_than_initialiser_of_all():
    """The function that draws them holds no moments (zeros), and one object of everything but the policies."""
    for rule in ("fused", "split"):
        found = footprint_of("learner", "algorithm.name=ippo", f"placement.rule={rule}", "actors.num_envs=1")
        assert found == (3 * (BOTH + 2 * BOTH + CRITIC), 0)


def test_group_learner_holds_its_own_networks():
    alone = alike(1)
    assert footprint_of("learner", "algorithm.name=ippo", "placement.rule=fused", spec=alone) == (
        3 * BOTH + 3 * BOTH + 2 * POLICY,
        ROUND // 3,
    )
    # One learner of the critic, one of the policy: the larger holds three copies of its networks, and five more.
    assert footprint_of("learner", "algorithm.name=ippo", "placement.rule=split", spec=alone) == (
        8 * POLICY,
        ROUND // 3,
    )


def test_half_group_learner_holds_less_with_halved_slots():
    """The half that ends in the policy reads the critic, too, and holds eight copies of its networks as before."""
    half, one = 8 * POLICY + CRITIC, 3 * BOTH + 3 * BOTH + 2 * POLICY
    alone, pair = alike(1), alike(2, horizon=1)

    def networks(spec, **platform):
        return footprint_of("learner", "algorithm.name=ippo", "actors.num_envs=1", spec=spec, **platform).networks

    assert networks(alone, concurrency=2) == half
    assert networks(alone, concurrency=1) == networks(alone, idle_slots_free=False, concurrency=1) == one
    # If two groups have a slot each, drawing both networks takes less than a learner of one.
    drawn = 2 * (BOTH + 2 * BOTH + CRITIC)
    assert networks(pair, concurrency=2) == max(drawn, half)
    assert networks(pair, idle_slots_free=False, concurrency=2) == max(drawn, one)


@pytest.mark.parametrize("is_free", [True, False])
def test_default_learner_on_one_slot_holds_every_group(is_free):
    """As `packed`: both groups' networks before and after, and two more copies of the last policy."""
    settings = ("algorithm.name=ippo", "actors.num_envs=1")
    both = footprint_of("learner", *settings, spec=alike(2, horizon=1), concurrency=1, idle_slots_free=is_free)
    assert both.networks == 2 * 3 * BOTH + 2 * 3 * BOTH + 2 * POLICY


@pytest.mark.parametrize(("slots", "groups"), [(1, 3), (3, 1)])
def test_fold_of_sums_holds_all_gradients(slots, groups):
    rounds = ("algorithm.name=ippo", "actors.rollouts=5", "algorithm.epochs=1", "algorithm.num_minibatches=1")
    at_once, summed = (footprint_of("learner", *rounds, f"pipeline.micro_batch={n}", concurrency=slots) for n in (0, 2))
    assert summed.networks - at_once.networks == 3 * groups * BOTH


def test_moments_of_base_difference_are_omitted():
    """They may be as small as its rank, so a learner needs the networks at least, and no copies of them."""
    settings = ("algorithm.name=ippo", "placement.rule=fused", "base.policies=runs/one")
    assert footprint_of("learner", *settings, spec=alike(1)) == (BOTH, ROUND // 3)


def test_second_update_adds_copy_of_current_network():
    value = 4 * ((18 + 3) * ROLLOUTS + ROLLOUTS + 5 * ROLLOUTS + 5)  # with the one-hot identity of three sharing agents
    once, often = (
        footprint_of("learner", "algorithm.name=iql", f"algorithm.updates_per_round={n}", "stop.rounds=1")
        for n in (1, 9)
    )
    assert once.networks == 4 * value + 3 * value + 2 * value
    assert often.networks == 4 * value + 3 * value + 3 * value + 2 * value
    assert once.data == often.data == ROUND + SEEN


@pytest.mark.parametrize(
    ("limits", "rounds"),
    [
        (["stop.rounds=400"], 62),  # 62 rounds of 1,600 steps are 99,200 of the buffer's 100,000
        (["stop.rounds=10"], 10),
        (["stop.rounds=10", "pipeline.lag=3"], 7),
        (["stop.env_steps=3201"], 3),
        (["stop.env_steps=3200", "stop.rounds=40"], 2),
        (["stop.rounds=400", "algorithm.buffer_size=1"], 1),  # the last round always
        (["stop.seconds=60"], 1),
        (["stop.return=1"], 1),
        ([], 62),
    ],
)
def test_window_counts_up_to_end_of_run(limits, rounds):
    assert footprint_of("learner", "algorithm.name=vdn", "algorithm.hidden=[4]", *limits).data == ROUND + rounds * SEEN


def test_joined_rollouts_are_copied_but_own_state_not():
    settings = ("algorithm.name=ippo", "placement.rule=packed", "actors.rollouts=2")
    assert footprint_of("learner", *settings).data == 2 * 3 * SEEN
    assert footprint_of("learner", *settings, spec=alike(3, state_size=10)).data == 2 * 2 * (SEEN + 1600 * 10 * 4)


def test_player_holds_policy_per_group_and_per_agent():
    assert footprint_of("player", "algorithm.name=ippo") == (3 * POLICY + 3 * POLICY, 0)
    shared = POLICY + 4 * 3 * ROLLOUTS
    assert footprint_of("player", "algorithm.name=ippo", "sharing.rule=all") == (shared + 3 * shared, 0)


def test_playing_learner_takes_most_with_shared_policy():
    # Forty agents' observations with their identities, and a bias.
    policy, critic = 4 * ((58 + 1) * ROLLOUTS + 5 * ROLLOUTS + 5), 4 * ((58 + 1) * ROLLOUTS + ROLLOUTS + 1)
    settings = ("algorithm.name=ippo", "sharing.rule=all", "placement.rule=whole")
    found = footprint_of("learner", *settings, spec=alike(40, horizon=1))
    assert found == (3 * policy + 3 * critic + 40 * policy, 0)


def test_a_side_that_does_not_learn_counts_nothing():
    tag = environments.spec(load(None, ["task.name=mpe/simple_tag"]).task)
    # Three predators observe 16 numbers each, and the one prey 14.
    for learns, sees, side in ((3, 16, 1), (1, 14, 0)):
        policy = 4 * ((sees + 1) * ROLLOUTS + 5 * ROLLOUTS + 5)
        settings = ("task.name=mpe/simple_tag", "algorithm.name=ippo", f"opponents.side={side}")
        assert footprint_of("player", *settings, spec=tag) == (2 * learns * policy, 0)


def test_three_picture_agents_are_refused_small_learner():
    """By hand: a policy of 7,684,549 parameters, a critic of 23,044,289 of all three pictures."""
    pictures = alike(3, 200 * 200 * 3)
    config = load(None, ["actors.num_envs=2", "functions.learner.memory_mb=256"])
    platform = Platform(concurrency=3)
    found = memory_bound.learner(config, pictures, opponents.initial_team(config, pictures, None), platform)
    assert found == (4 * 3 * (3 * 7_684_549 + 4 * 23_044_289), 0)
    assert incompatibility(config, pictures, platform=platform) == (
        "functions.learner.memory_mb: a learner needs over 1,319 MB for networks, and it is 256; set well over 1,319,"
        " or shrink the networks (such as algorithm.hidden) or what agents see"
    )


def test_algorithm_without_part_bytes_counts_observations(monkeypatch):
    silent = replace(registry.ALGORITHMS["ippo"], part_bytes=None)
    monkeypatch.setitem(registry.ALGORITHMS.built_in, "ippo", silent)
    assert footprint_of("learner", "algorithm.name=ippo") == (0, ROUND)
    assert footprint_of("player", "algorithm.name=ippo") == (0, 0)


def test_failing_part_bytes_name_their_algorithm(monkeypatch):
    def broken(spec, team, config, group):
        return {}[group]

    monkeypatch.setitem(registry.ALGORITHMS.built_in, "ippo", replace(registry.ALGORITHMS["ippo"], part_bytes=broken))
    assert incompatibility(load(None, ["algorithm.name=ippo"]), SPREAD) == (
        "algorithm ippo cannot compute the bytes of its state: KeyError: 0"
    )


def test_unsupported_task_is_refused_only_at_initialisation():
    numbers = EnvSpec(
        SPREAD.agents, (AgentClass("all", (0, 1, 2), 18, 2, low=(0.0, 0.0), high=(1.0, 1.0)),), horizon=25
    )
    assert footprint_of("learner", "algorithm.name=qmix", "stop.rounds=1", spec=numbers).networks == 0
