"""Exchanging two entities in the state exchanges their features in observations."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.spec_check import fault_of

TASKS = [
    EnvTask(name="mpe/simple_adversary", agents=4),
    EnvTask(name="mpe/simple_push"),
    EnvTask(name="mpe/simple_spread", agents=4),
    EnvTask(name="mpe/simple_spread", agents=4, options={"entities": True}),
    EnvTask(name="mpe/simple_tag", options={"num_good": 3}),
    EnvTask(name="mpe/simple_world_comm", options={"num_good": 3, "num_food": 3, "num_obstacles": 2}),
]
UNSORTED = ["simple", "simple_crypto", "simple_reference", "simple_speaker_listener"]
ENVS = 40
# The numbers that the good agent of `simple_push` sees.
PUSHED = 19


def seen(environment, state):
    """The observations in a state, without the colour of the goal that an agent of `simple_push` sees.

    A state cannot exchange colours, because bodies have none.
    """
    values = environment.restore(state).values
    for kind, part in zip(environment.spec.classes, values, strict=True):
        if kind.observation_size == PUSHED:
            part[..., 4:7] = 0
    return values


def exchanged(state, agents, one, other):
    """The state with two bodies exchanged, and with them the goals."""
    bodies = np.arange(state.position.shape[1])
    bodies[[one, other]] = other, one
    moved = {"position": state.position[:, bodies]}
    if other < agents:
        moved |= {"velocity": state.velocity[:, bodies[:agents]], "said": state.said[:, bodies[:agents]]}
    else:
        moved |= {"goals": bodies[agents + state.goals] - agents}
    return dataclasses.replace(state, **moved)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name} {task.options}")
def test_exchanged_entities_exchange_their_features(task):
    environment = registry.make(task, ENVS)
    rng = np.random.default_rng(5)
    environment.reset(rng)
    for _ in range(9):
        environment.step(tuple(rng.integers(5, size=(ENVS, len(kind.agents))) for kind in environment.spec.classes))
    state, agents = environment.snapshot(), len(environment.spec.agents)
    before = seen(environment, state)
    pairs = list(combinations(range(state.position.shape[1]), 2))
    after = [seen(environment, exchanged(state, agents, *pair)) for pair in pairs]
    exchanges = 0
    for index, kind in enumerate(environment.spec.classes):
        for block in kind.entities.blocks:
            for one, other in combinations(block.columns, 2):
                if task.name == "mpe/simple_push":
                    one, other = (tuple(entity[feature] for feature in block.position) for entity in (one, other))
                expected = before[index].copy()
                expected[..., one + other] = before[index][..., other + one]
                for place in range(len(kind.agents)):
                    equal = [(new[index][:, place] == expected[:, place]).all() for new in after]
                    assert any(equal), (kind.name, block.name, one, other)
                    exchanges += 1
    assert exchanges > 0


@pytest.mark.parametrize("name", UNSORTED)
def test_entities_named_by_messages_are_not_equal(name):
    spec = registry.spec(EnvTask(name=f"mpe/{name}"))
    assert not fault_of(spec)
    assert all(len(block.columns) == 1 for kind in spec.classes for block in kind.entities.blocks)


@pytest.mark.parametrize(("name", "sight"), [("lbf/8x8-3p-3f", 8), ("lbf/2s-8x8-3p-3f", 2)])
def test_foragers_see_food_and_players_at_their_distances(name, sight):
    environment = registry.make(EnvTask(name=name), 1)
    (kind,) = environment.spec.classes
    food, players = kind.entities.blocks
    for seed in range(20):
        rows = environment.reset(np.random.default_rng(seed)).values[0][0]
        meals, foragers = (environment.arrays[name][0] for name in ("food", "players"))
        for number, (forager, row) in enumerate(zip(foragers, rows, strict=True)):
            place = [*forager[:2], 0]
            assert entities(row, food, kind.entities.origin) == near(meals[meals[:, 2] > 0] - place, sight)
            apart = np.delete(foragers, number, axis=0) - place
            # Players see further from the border of the field.
            shown = entities(row, players, kind.entities.origin)
            assert {*near(apart, sight)} <= {*shown} <= {*near(apart, 2 * sight)} and len({*shown}) == len(shown)


def near(seen, sight):
    return sorted(tuple(map(int, one)) for one in seen if max(abs(one[0]), abs(one[1])) <= sight)


def entities(row, block, origin):
    """The present entities: their positions relative to the agent, and their levels."""
    table = row[np.array(block.columns)]
    table = table[(table != block.absent).any(axis=1)]
    table[:, list(block.position)] -= row[list(origin)]
    return sorted(tuple(map(int, one)) for one in table)
