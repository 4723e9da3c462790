"""Stages that run many times a round: their placement, order and requests, without needless waiting."""

import functools

import pytest
from driver import train
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_rollouts import well
from simulated import World, make_plan

from marless.coordinator.config.loading import load
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.state import Plan
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, Work, balance, fused, packed, split, whole
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.algorithms.ppo.specs import PPO_STAGES
from marless.functions.algorithms.specification import StageSpec
from marless.functions.algorithms.value.specs import IQL, QMIX, VDN
from marless.functions.messages.learner import InitialiseTask, LearnTask, WholeTask

# Agents 0 and 1 have utilities, the team mixes them: utility -> mix -> policy.
MIXED = QMIX.stages
GRAPHS = {
    "ppo": PPO_STAGES,
    "chain": (
        StageSpec("a", (), "group", (), ()),
        StageSpec("b", ("a",), "group", (), ()),
        StageSpec("c", ("a", "b"), "team", (), ()),
    ),
    "one stage": IQL.stages,
    "mixed": MIXED,
    # Like an actor-critic with central critics: groups share their actions, and everything else is per group.
    "coupled": (
        StageSpec("actions", (), "group", (), ()),
        StageSpec("critic", ("actions",), "group", (), (), couples=True),
        StageSpec("policy", ("critic",), "group", (), ()),
    ),
    "side by side": (
        StageSpec("first", (), "group", (), ()),
        StageSpec("left", ("first",), "group", (), ()),
        StageSpec("right", ("first",), "group", (), ()),
        StageSpec("last", ("left", "right"), "team", (), (), couples=True),
    ),
}


def in_update(update):
    name = f"learn/{update:05d}"
    return [
        [
            Work(f"{name}/utility/g00", ("utility",), (0,), publish=True, first=update),
            Work(f"{name}/utility/g02", ("utility",), (2,), publish=True, first=update),
        ],
        [Work(f"{name}/mix", ("mix",), (0, 2), publish=True, first=update)],
        [
            Work(f"{name}/policy/g00", ("policy",), (0,), first=update),
            Work(f"{name}/policy/g02", ("policy",), (2,), first=update),
        ],
    ]


def test_a_mixed_value_is_split_update_after_update():
    assert split(MIXED, (0, 2), 3) == in_update(0) + in_update(1) + in_update(2)
    assert split(VDN.stages, (0, 2), 2) == in_update(0) + in_update(1)


def test_groups_that_need_others_are_not_fused():
    assert fused(MIXED, (0, 2), 2) == split(MIXED, (0, 2), 2)


def test_a_coupling_stage_is_fused_with_later_stages():
    works = [[(work.name, work.stages) for work in wave] for wave in fused(GRAPHS["coupled"], (0, 1), 2)]
    assert works == [
        [(f"learn/{u:05d}/{'+'.join(names)}/g{g:02d}", names) for g in (0, 1)]
        for u in (0, 1)
        for names in (("actions",), ("critic", "policy"))
    ]


def test_lone_stage_runs_all_updates_in_one_invocation():
    assert split(GRAPHS["one stage"], (0, 2), 32) == [
        [Work(f"learn/g{group:02d}", ("policy",), (group,), updates=32) for group in (0, 2)]
    ]
    assert fused(GRAPHS["one stage"], (0, 2), 32) == [
        [Work(f"learn/g{group:02d}", ("policy",), (group,), updates=32) for group in (0, 2)]
    ]


def test_packed_is_one_invocation_and_whole_none():
    names = ("utility", "mix", "policy")
    assert packed(MIXED, (0, 2), 32) == [[Work("learn/all", names, (0, 2), updates=32)]]
    assert whole(MIXED, (0, 2), 32) == []


def test_independent_stages_run_in_parallel_every_update():
    schedule = [[work.name for work in wave] for wave in split(GRAPHS["side by side"], (0,), 2)]
    assert schedule == [
        [f"learn/{u:05d}/{name}" for name in names]
        for u in (0, 1)
        for names in (["first/g00"], ["left/g00", "right/g00"], ["last"])
    ]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("rule", sorted(set(LEARNER_PLACEMENTS) - {"whole"}))
@given(
    groups=st.sets(st.integers(0, 20), min_size=1).map(sorted).map(tuple),
    updates=st.integers(1, 5),
    slots=st.integers(1, 5),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_every_stage_runs_once_and_in_order(rule, graph, groups, updates, slots):
    """A stage needs its update's earlier stages, of all groups if it couples them, and the update before."""
    stages = {stage.name: stage for stage in GRAPHS[graph]}
    packs = balance({group: group + 1.0 for group in groups}, slots) if LEARNER_PLACEMENTS[rule].balances else ()
    done, names = set(), []
    for wave in LEARNER_PLACEMENTS[rule](GRAPHS[graph], groups, updates, packs):
        before = set(done)
        for work in wave:
            names.append(work.name)
            inside = set()
            for update in range(work.first, work.first + work.updates):
                for name in work.stages:
                    whose = groups if stages[name].couples else work.groups
                    needed = {(update, earlier, group) for earlier in stages[name].after for group in whose}
                    # The group's networks, and inputs of stages that couple groups, come from the update before.
                    own = {(update - 1, other, group) for other in stages for group in work.groups if update}
                    assert needed | own <= before | inside
                    inside |= {(update, name, group) for group in work.groups}
            assert not inside & done
            done |= inside
    assert done == {(update, name, group) for update in range(updates) for name in stages for group in groups}
    assert len(set(names)) == len(names)


# -- the requests

SETTINGS = (
    "sharing.rule=none",
    "algorithm.buffer_size=60",
    "algorithm.updates_per_round=3",
    "actors.rollouts=2",
    "stop.rounds=2",
)


@functools.cache
def asked(name, rule):
    """The requests of a run in order, of two agents without sharing."""
    world = World(make_plan(f"algorithm.name={name}", f"placement.rule={rule}", *SETTINGS))
    world.finish()
    return world.invoker.asked


def of_round(name, rule, round_):
    return [
        request for request in asked(name, rule) if isinstance(request, LearnTask) and request.address.round == round_
    ]


def made(refs, round_):
    prefix = f"rounds/{round_:06d}/"
    assert all(ref.key.startswith(prefix) for ref in refs), [ref.key for ref in refs]
    return {ref.key.removeprefix(prefix).removesuffix(".safetensors") for ref in refs}


@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_wave_reads_only_results_of_previous_wave(name):
    requests = of_round(name, "split", 1)
    assert len(requests) == 3 * (2 + 1 + 2)
    for request in requests:
        update, stage = request.first_update, request.stages[0]
        assert (request.learning.updates, len(request.stages)) == (1, 1)
        # The round's data, and the round before it.
        assert len(request.trajectories) == 2
        assert [(past.round, past.rollouts) for past in request.learning.past] == [(0, 2)]
        where = (1, f"learn/{update - 1:05d}") if update else (0, "learn/00002")
        if stage in ("utility", "policy"):
            (group,) = request.groups
            kinds = {f"{where[1]}/policy/g{group:02d}.{kind}" for kind in ("policies", "learner")}
            assert made(request.state, where[0]) == kinds
        else:
            # Parts of the mixing network and the normaliser. Only the first group of a side stores parts, but the state
            # has the keys of all groups.
            assert made(request.state, where[0]) == {f"{where[1]}/mix.learner"}
        now = f"learn/{update:05d}"
        utilities = {f"{now}/utility/g{group:02d}.tensors" for group in (0, 1)}
        expected = {"utility": set(), "mix": utilities, "policy": utilities | {f"{now}/mix.tensors"}}[stage]
        assert made(request.tensors, 1) == expected
        assert request.publish_tensors == (stage != "policy")


def test_first_round_reads_first_networks_and_no_memory():
    for request in of_round("qmix", "split", 0):
        assert request.learning.past == ()
        if request.first_update == 0:
            assert {ref.key.rsplit("/", 1)[1].split(".")[0] for ref in request.state} == {"initialise"}


@pytest.mark.parametrize(("name", "rule"), [("iql", "split"), ("iql", "fused"), ("iql", "packed"), ("qmix", "packed")])
def test_function_with_all_stages_runs_all_updates(name, rule):
    requests = of_round(name, rule, 1)
    assert {(request.first_update, request.learning.updates, request.tensors) for request in requests} == {(0, 3, ())}
    assert [request.groups for request in requests] == ([(0, 1)] if rule == "packed" else [(0,), (1,)])


def test_exploration_travels_with_task_and_falls_with_steps():
    """Epsilon from 1 to 0.5 in 80 steps. A round has 20. A task of several rounds has it for each."""
    more = ("algorithm.epsilon_steps=80", "algorithm.epsilon_end=0.5", "evaluation.every=9", "placement.chain=4")
    behaviours = {}
    for rule in ("packed", "whole"):
        settings = (f"placement.rule={rule}", *SETTINGS[:-1], "stop.rounds=6", *more)
        world = World(make_plan("algorithm.name=iql", *settings), well)
        world.finish()
        samples = [request for request in world.invoker.asked if hasattr(request, "behaviour")]
        wholes = [request for request in world.invoker.asked if isinstance(request, WholeTask)]
        behaviours[rule] = [request.behaviour for request in samples if request.sampling.rollouts == (0,)]
        behaviours[rule] += [behaviour for request in wholes for behaviour in request.behaviours]
    amounts = [behaviour.amount for behaviour in behaviours["packed"]]
    assert amounts == pytest.approx([1.0, 0.875, 0.75, 0.625, 0.5, 0.5])
    assert behaviours["whole"] == behaviours["packed"]
    assert {behaviour.kind for behaviour in behaviours["packed"]} == {"epsilon"}


def test_value_method_settings_travel_to_initialiser():
    (request,) = (request for request in asked("qmix", "split") if isinstance(request, InitialiseTask))
    assert (
        request.learning.algorithm,
        request.learning.hyperparameters["buffer_size"],
        request.learning.hyperparameters["updates_per_round"],
    ) == ("qmix", 60, 3)


# -- the planner's model of a round, against a round

COUNTED = (
    "task.name=toy/signal", "algorithm.buffer_size=10000", "algorithm.updates_per_round=3", "algorithm.batch_size=8",
    "algorithm.hidden=[4]", "actors.num_envs=2", "actors.rollouts=3", "evaluation.every=100", "evaluation.episodes=2",
    "evaluation.final_episodes=2", "checkpoint_every=100", "placement.pack=2", "sharing.rule=none",
)  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize("rule", ["split", "fused", "balanced", "packed", "whole"])
@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_planner_counts_operations_of_round(tmp_path, name, rule):
    settings = [*COUNTED, f"algorithm.name={name}", f"placement.rule={rule}", "placement.chain=1"]
    runs = {rounds: train(tmp_path / str(rounds), [*settings, f"stop.rounds={rounds}"]).state for rounds in (3, 4)}
    plan = Plan("run", load(None, settings), "code", load_prices(), Platform())
    state = runs[3]
    counted = next_placement.layout(plan, state).operations(state.placement)
    for kind in ("puts", "gets"):
        assert getattr(runs[4].meter, kind) - getattr(runs[3].meter, kind) == getattr(counted, kind), kind
    for function in ("actor", "learner"):
        before, after, round_ = (
            getattr(meter, function).invocations for meter in (runs[3].meter, runs[4].meter, counted)
        )
        assert after - before == round_
