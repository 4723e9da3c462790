"""The entities that a user's PettingZoo environment describes, as `marless check` and `task.order` read them."""

import numpy as np
import pytest
from commands import SMALL, Commands
from installed_plug_ins import PLUG_INS

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

WASPS, FRUITS = np.array([[6, 7], [8, 9]]), np.array([[10, 11, 12], [13, 14, 15], [16, 17, 18], [19, 20, 21]])
ALL = "2 teammates x 2, 2 wasps x 2, 4 fruits x 3; own 2"


@pytest.fixture
def marless(tmp_path, shell, capfd, no_processes):
    shell.import_from(PLUG_INS)
    shell.cd(tmp_path)
    return Commands(capfd)


def entities_of(said):
    return [line.removeprefix("entities").strip() for line in said.out if line.startswith("entities")]


def test_three_kinds_of_entities_are_counted(marless):
    said = marless("check", "orchards:make", *SMALL[1:])
    assert (said.code, said.err, entities_of(said)) == (0, [], [ALL])


def test_agents_with_other_entities_are_other_classes(marless):
    said = marless("check", "orchards:make", "task.options.by_agent=true", *SMALL[1:])
    # The third agent is in no dictionary.
    assert (said.code, entities_of(said)) == (0, [ALL, "2 teammates x 2, 4 fruits x 3; own 6", "not described"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("twice", ": column 2 is listed 2 times. A column belongs to own or to one entity"),
        ("missing", ": column 1 is missing. Add it to own or to an entity of a block"),
        ("beyond", ": column 22 does not exist. An observation has the columns 0 to 21"),
        ("origin", ": origin holds a column that own lacks"),
        ("uneven", ": block 'wasp' is empty, or its entities have different numbers of features"),
        ("position", ": block 'wasp': position holds a number outside 0 to 1"),
        ("absent", ": block 'wasp': absent has 1 numbers for 2 features"),
        ("name", ": two blocks have the same name"),
        ("unknown", ""),
        ("text", ""),
    ],
)
def test_a_wrong_description_is_one_line(marless, fault, reason):
    said = marless("check", "orchards:make", f"task.options.fault={fault}")
    assert (said.code, len(said.err)) == (2, 1)
    assert f"agent 'picker_0': entities{reason}" in said.err[0]


def test_every_kind_is_sorted_by_distance(marless):
    environment = registry.make(EnvTask(name="pettingzoo:orchards:make", order="distance"), 4)
    rng = np.random.default_rng(3)
    seen, eaten = environment.reset(rng), 0
    for _ in range(24):
        seen = environment.step((rng.integers(5, size=(4, 3)),)).observation
        rows = seen.values[0].reshape(12, 22)
        assert (np.diff(np.linalg.norm(rows[:, WASPS], axis=2)) >= 0).all()
        fruits = rows[:, FRUITS]
        ripe = fruits[..., 2] == 1
        distances = np.where(ripe, np.linalg.norm(fruits[..., :2], axis=2), 9)
        assert (np.diff(distances) >= 0).all()
        eaten += int((~ripe).sum())
    assert eaten > 0
