import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.placement.placement_rules import (
    LEARNER_PLACEMENTS,
    PLACEMENTS,
    Work,
    balance,
    balanced,
    fused,
    packed,
    packs,
    packs_of_parts,
    split,
    whole,
)
from functions.algorithms.ppo.specs import PPO_STAGES
from functions.algorithms.specification import StageSpec

ORDERS = {
    "ppo": PPO_STAGES,
    "chain": (
        StageSpec("a", (), "group", (), ()),
        StageSpec("b", ("a",), "group", (), ()),
        StageSpec("c", ("a", "b"), "team", (), ()),
    ),
}


def packs_of(rule, groups, slots):
    """Packs of groups that have as much work as their number, and one."""
    return balance({group: group + 1.0 for group in groups}, slots) if PLACEMENTS[rule].balances else ()


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


def test_a_stage_waits_for_the_deepest_stage_it_reads():
    schedule = split(ORDERS["chain"], (0, 1))
    assert [[work.name for work in wave] for wave in schedule] == [
        ["learn/a/g00", "learn/a/g01"],
        ["learn/b/g00", "learn/b/g01"],
        ["learn/c"],
    ]
    assert [work.publish for wave in schedule for work in wave] == [True, True, True, True, False]


def test_fused_is_one_work_per_group_and_packed_is_one_for_all():
    names = ("postprocess", "critic", "policy")
    assert fused(PPO_STAGES, (0, 2)) == [[Work("learn/g00", names, (0,)), Work("learn/g02", names, (2,))]]
    assert packed(PPO_STAGES, (0, 2)) == [[Work("learn/all", names, (0, 2))]]


def test_whole_leaves_nothing_to_learners():
    assert whole(PPO_STAGES, (0, 2)) == []


def test_the_heaviest_group_comes_first_each_into_the_lightest_pack():
    # 6 to the first; 3, 2 and 2 to the second, which has 7; 1 to the 6, and 1 to the first of two that have 7.
    loads = {0: 6.0, 6: 3.0, 9: 2.0, 11: 2.0, 13: 1.0, 14: 1.0}
    assert balance(loads, 2) == ((0, 13, 14), (6, 9, 11))
    assert balance(loads, 1) == ((0, 6, 9, 11, 13, 14),)
    assert balance(loads, 6) == balance(loads, 1000) == ()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_packs_hold_every_group_once_and_none_has_over_four_thirds_of_the_least_possible(works, slots):
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


def test_balanced_is_one_work_per_pack_and_leaves_stages_of_the_team_alone():
    names = ("postprocess", "critic", "policy")
    two = ((0, 3), (2,))
    assert balanced(PPO_STAGES, (0, 2, 3), 1, two) == [
        [Work("learn/of2/g00", names, (0, 3)), Work("learn/of2/g02", names, (2,))]
    ]
    coupled = (StageSpec("a", (), "group", (), ()), StageSpec("b", ("a",), "team", (), (), couples=True))
    assert [[(work.name, work.groups) for work in wave] for wave in balanced(coupled, (0, 2, 3), 1, two)] == [
        [("learn/a/of2/g00", (0, 3)), ("learn/a/of2/g02", (2,))],
        [("learn/b", (0, 2, 3))],
    ]


def test_balanced_is_packed_with_one_slot_and_fused_with_one_for_each_group():
    rule = PLACEMENTS["balanced"]
    assert rule(PPO_STAGES, (0, 2), 3, balance({0: 1.0, 2: 5.0}, 1)) == packed(PPO_STAGES, (0, 2), 3)
    assert rule(PPO_STAGES, (0, 2), 3, balance({0: 1.0, 2: 5.0}, 2)) == fused(PPO_STAGES, (0, 2), 3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rule", sorted(set(LEARNER_PLACEMENTS) - {"whole"}))
@given(groups=st.sets(st.integers(0, 20), min_size=1).map(sorted).map(tuple), slots=st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_every_placement_runs_every_stage_of_every_group_once_and_in_order(rule, order, groups, slots):
    stages = ORDERS[order]
    after = {stage.name: stage.after for stage in stages}
    done, names = set(), []
    for wave in LEARNER_PLACEMENTS[rule](stages, groups, packs=packs_of(rule, groups, slots)):
        before = set(done)
        for work in wave:
            names.append(work.name)
            inside = set()
            for name in work.stages:
                needed = {(earlier, group) for earlier in after[name] for group in work.groups}
                assert needed <= before | inside
                inside |= {(name, group) for group in work.groups}
            assert not inside & done
            done |= inside
    assert done == {(stage.name, group) for stage in stages for group in groups}
    assert len(set(names)) == len(names)


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
