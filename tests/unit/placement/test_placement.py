import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.coordinator.placement.placement_rules import (
    PLACEMENTS,
    Work,
    balance,
    balanced,
    divide,
    fused,
    halves_of,
    packed,
    packs,
    packs_of_parts,
    split,
    whole,
)
from marless.functions.algorithms.ppo.specs import PPO_STAGES
from marless.functions.algorithms.specification import StageSpec

CHAIN = (
    StageSpec("a", (), "group", (), ()),
    StageSpec("b", ("a",), "group", (), ()),
    StageSpec("c", ("a", "b"), "team", (), ()),
)


def test_split_is_the_papers_decomposition():
    assert split(PPO_STAGES, (0, 2)) == [
        [Work("learn/postprocess", ("postprocess",), (0, 2), publish=True)],
        [
            Work("learn/critic/g00", ("critic",), (0,)),
            Work("learn/critic/g02", ("critic",), (2,)),
            Work("learn/policy/g00", ("policy",), (0,)),
            Work("learn/policy/g02", ("policy",), (2,)),
        ],
    ]


def test_stage_waits_for_deepest_stage_it_reads():
    schedule = split(CHAIN, (0, 1))
    assert [[work.name for work in wave] for wave in schedule] == [
        ["learn/a/g00", "learn/a/g01"],
        ["learn/b/g00", "learn/b/g01"],
        ["learn/c"],
    ]
    assert [work.publish for wave in schedule for work in wave] == [True, True, True, True, False]


def test_fused_is_work_per_group_and_packed_one():
    names = ("postprocess", "critic", "policy")
    assert fused(PPO_STAGES, (0, 2)) == [[Work("learn/g00", names, (0,)), Work("learn/g02", names, (2,))]]
    assert packed(PPO_STAGES, (0, 2)) == [[Work("learn/all", names, (0, 2))]]


def test_whole_leaves_nothing_to_learners():
    assert whole(PPO_STAGES, (0, 2)) == []


def test_heaviest_group_goes_first_into_lightest_pack():
    # 6 to the first. 3, 2 and 2 to the second, which has 7. 1 to the 6, and 1 to the first of two that have 7.
    loads = {0: 6.0, 6: 3.0, 9: 2.0, 11: 2.0, 13: 1.0, 14: 1.0}
    assert balance(loads, 2) == ((0, 13, 14), (6, 9, 11))
    assert balance(loads, 1) == ((0, 6, 9, 11, 13, 14),)
    assert balance(loads, 6) == balance(loads, 1000) == ()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_packs_hold_groups_once_within_four_thirds(works, slots):
    loads = {3 * number: float(work) for number, work in enumerate(works)}
    found = balance(loads, slots) or tuple((group,) for group in loads)
    assert sorted(group for pack in found for group in pack) == list(loads)
    assert found == tuple(sorted(tuple(sorted(pack)) for pack in found))
    assert len(found) <= max(slots, 1)
    assert balance(dict(reversed(loads.items())), slots) == balance(loads, slots)
    least = min(
        max(sum(work for work, place in zip(works, places, strict=True) if place == slot) for slot in range(slots))
        for places in itertools.product(range(slots), repeat=len(works))
    )
    # Graham 1969.
    assert max(sum(loads[group] for group in pack) for pack in found) <= (4 / 3 - 1 / (3 * slots)) * least + 1e-9


def test_balanced_is_work_per_pack_except_team_stages():
    names = ("postprocess", "critic", "policy")
    two = ((0, 3), (2,))
    assert balanced(PPO_STAGES, (0, 2, 3), 1, two) == [
        [Work("learn/of2/000", names, (0, 3)), Work("learn/of2/001", names, (2,))]
    ]
    coupled = (StageSpec("a", (), "group", (), ()), StageSpec("b", ("a",), "team", (), (), couples=True))
    assert [[(work.name, work.groups) for work in wave] for wave in balanced(coupled, (0, 2, 3), 1, two)] == [
        [("learn/a/of2/000", (0, 3)), ("learn/a/of2/001", (2,))],
        [("learn/b", (0, 2, 3))],
    ]


def test_a_group_in_two_packs_is_halved():
    names = ("postprocess", "critic", "policy")
    assert halves_of(PPO_STAGES, 1) == (("postprocess", "critic"), ("postprocess", "policy"))
    ((one, other),) = balanced(PPO_STAGES, (0, 1, 2), 1, ((0, 2), (1, 2)))
    assert one == Work("learn/of2/000", names, (0, 2), omissions=(("policy", 2),))
    assert other == Work("learn/of2/001", names, (1, 2), omissions=(("critic", 2),))
    assert {*one.writes(PPO_STAGES)} & {*other.writes(PPO_STAGES)} == {("normaliser", 2)}
    # One stage of three is left out, of a group that learns from 5 rows.
    assert one.size(lambda groups: 5 * len(groups)) == 10 - 5 / 3


@pytest.mark.parametrize(
    "stages",
    [
        CHAIN,
        (StageSpec("a", (), "group", (), ()), StageSpec("b", (), "group", (), (), couples=True)),
        (StageSpec("a", (), "group", (), ()),),
    ],
    ids=["one waits for all others", "groups wait for each other", "one stage"],
)
def test_dependent_stages_are_not_halved(stages):
    assert halves_of(stages, 1) == halves_of(PPO_STAGES, 2) == ()


def test_halves_go_to_the_slots_that_would_wait():
    loads, half_loads = dict.fromkeys(range(3), 5.0), dict.fromkeys(range(3), (3.0, 3.5))
    # Groups of 5 on two slots: 10 and 5 before. With a half each 8 and 8.5.
    assert divide(balance(loads, 2), loads, half_loads, 2) == ((0, 2), (0, 1))
    # Three slots have a group each, and a half on a fourth leaves the other two as they are. Six have a half each.
    assert divide((), loads, half_loads, 3) == divide((), loads, half_loads, 4) == ()
    assert divide((), loads, half_loads, 6) == ((0,), (1,), (2,), (0,), (1,), (2,))
    # One group of 12 and one of 2: the critic of the large group joins the small group.
    assert divide((), {0: 12.0, 1: 2.0}, {0: (7.0, 6.0), 1: (1.5, 1.5)}, 2) == ((0,), (0, 1))


DURATIONS = st.tuples(*[st.integers(1, 20)] * 3)


@given(st.lists(DURATIONS, min_size=1, max_size=7), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_halved_packs_run_every_stage_without_delay(groups, slots):
    """By hand-made durations of each stage: the largest pack takes as long as its stages, repeated ones included."""
    duration = {
        (stage.name, group): float(ms)
        for group, times in enumerate(groups)
        for stage, ms in zip(PPO_STAGES, times, strict=True)
    }
    loads = {group: sum(times) * 1.0 for group, times in enumerate(groups)}
    half_loads = {
        group: [sum(duration[stage, group] for stage in half) for half in halves_of(PPO_STAGES, 1)] for group in loads
    }

    def works(packs):
        return PLACEMENTS["balanced"](PPO_STAGES, tuple(loads), 1, packs)[0]

    def longest(packs):
        return max(sum(duration[stage.name, group] for stage, group in work.runs(PPO_STAGES)) for work in works(packs))

    before = balance(loads, slots)
    after = divide(before, loads, half_loads, slots)
    assert len(works(after)) <= max(slots, len(groups))
    assert longest(after) <= longest(before)
    assert after == before or longest(after) < longest(before)
    trained = [(stage.name, group) for work in works(after) for stage, group in work.runs(PPO_STAGES)]
    assert sorted(pair for pair in trained if pair[0] != "postprocess") == sorted(
        pair for pair in duration if pair[0] != "postprocess"
    )
    for work in works(after):
        runs = {(stage.name, group) for stage, group in work.runs(PPO_STAGES)}
        assert all(("postprocess", group) in runs for _, group in runs)
        assert {group for _, group in runs} == {*work.groups}
    assert len({work.name for work in works(after)}) == len(works(after))


def test_balanced_is_packed_or_fused_by_slots():
    rule = PLACEMENTS["balanced"]
    assert rule(PPO_STAGES, (0, 2), 3, balance({0: 1.0, 2: 5.0}, 1)) == packed(PPO_STAGES, (0, 2), 3)
    assert rule(PPO_STAGES, (0, 2), 3, balance({0: 1.0, 2: 5.0}, 2)) == fused(PPO_STAGES, (0, 2), 3)


@pytest.mark.parametrize(
    "rollouts, size, expected",
    [
        (5, 1, [(0,), (1,), (2,), (3,), (4,)]),
        (5, 2, [(0, 1), (2, 3), (4,)]),
        (5, 5, [(0, 1, 2, 3, 4)]),
        (2, 9, [(0, 1)]),
    ],
)
def test_rollouts_are_packed_in_order(rollouts, size, expected):
    assert packs(rollouts, size) == expected


def test_no_pack_has_rollouts_of_two_micro_batches():
    assert packs_of_parts(8, 2, 3) == (((0, 1), (2,)), ((3, 4), (5,)), ((6, 7),))
    assert packs_of_parts(8, 5, 3) == (((0, 1, 2),), ((3, 4, 5),), ((6, 7),))
    assert packs_of_parts(3, 2, 8) == (((0, 1), (2,)),)
