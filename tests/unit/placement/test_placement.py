import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.placement.rules import LEARNER_PLACEMENTS, Work, fused, packed, packs, split, whole
from functions.algorithms.base import StageSpec
from functions.algorithms.ppo.ppo import PPO_STAGES

ORDERS = {
    "ppo": PPO_STAGES,
    "chain": (
        StageSpec("a", (), "group", (), ()),
        StageSpec("b", ("a",), "group", (), ()),
        StageSpec("c", ("a", "b"), "team", (), ()),
    ),
}


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


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rule", sorted(set(LEARNER_PLACEMENTS) - {"whole"}))
@given(groups=st.sets(st.integers(0, 20), min_size=1).map(sorted).map(tuple))
@settings(max_examples=20, deadline=None)
def test_every_placement_runs_every_stage_of_every_group_once_and_in_order(rule, order, groups):
    stages = ORDERS[order]
    after = {stage.name: stage.after for stage in stages}
    done, names = set(), []
    for wave in LEARNER_PLACEMENTS[rule](stages, groups):
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
