"""Rounds of training as tables: the owners of rows, from hand-made rollouts."""

import numpy as np
import pytest
from drawn_policies import ALONE, SPEC, weights

from marless.exports.agent_tables import agent_table
from marless.exports.destination import file_names
from marless.exports.sampled_episodes import sampled_episodes
from marless.exports.stored_rounds import SampledRound
from marless.functions.environments.base import EnvTask
from marless.functions.messages.exchange import Origin
from marless.reports.policy import TeamFile, TeamPolicy

TEAM = TeamPolicy(
    TeamFile(task=EnvTask(name="toy/signal", agents=3), spec=SPEC, team=ALONE), weights(ALONE, np.float32)
)
STEPS, NUM_ENVS = 3, 2


def rollout(number, **more):
    """Three steps of two environments. The first ends by the rules after its first step. The rollout cuts both."""
    agents, shape = len(SPEC.agents), (STEPS, NUM_ENVS)
    here = 100 * number + 10 * np.arange(STEPS)[:, None] + np.arange(NUM_ENVS)
    ended = np.zeros(shape, bool)
    ended[0, 0] = True
    arrays = {
        "ended": ended,
        "reward": (1000 * np.arange(agents)[:, None, None] + here).astype(np.float32),
        "terminated": np.broadcast_to(ended, (agents, *shape)).copy(),
        "alive": np.ones((agents, *shape), bool),
        "cut": np.array([[2, 0], [2, 1]]),
    }
    for index, kind in enumerate(SPEC.classes):
        count, width = len(kind.agents), kind.observation_size
        arrays[f"observation/{index}"] = np.tile(here[None, :, :, None], (count, 1, 1, width)).astype(np.float32)
        arrays[f"cut_observation/{index}"] = np.full((count, 2, width), -1, np.float32)
        arrays[f"action/{index}"] = np.zeros((count, *shape), np.int32)
        arrays[f"log_probability/{index}"] = np.full((count, *shape), -0.5, np.float32)
    return {**arrays, **more}


def sampled(origin, **more):
    return SampledRound({"u00004": origin}, {"u00004": rollout(4, **more)})


def test_rows_are_ordered_by_environment_with_origin():
    episodes = sampled_episodes(TEAM, [sampled(Origin(round=6, policies="hash"))])
    table = {name: column.tolist() for name, column in agent_table(episodes, "b").items()}
    assert table["reward"] == [1400, 1410, 1420, 1401, 1411, 1421]
    assert table["environment"] == [0, 0, 0, 1, 1, 1]
    assert table["episode"] == [0, 1, 1, 2, 2, 2]
    assert table["step"] == [0, 0, 1, 0, 1, 2]
    assert table["terminated"] == [True, False, False, False, False, False]
    assert table["truncated"] == [False, False, True, False, False, True]
    assert table["log_probability"] == [-0.5] * 6
    assert [row[0] for row in table["observation"]] == [400, 410, 420, 401, 411, 421]
    constant = {"agent": "b", "version": 6, "policies": "hash", "round": 7, "rollout": 4}
    assert {name: set(table[name]) for name in constant} == {name: {value} for name, value in constant.items()}


@pytest.mark.parametrize(
    ("origin", "more", "versions"),
    [
        (
            Origin(round=6, policies="new", opponents="old"),
            {"earlier": np.array([False, True, False])},
            {"a": (6, "new"), "b": (-1, "old"), "c": (6, "new")},
        ),
        (Origin(round=6, dataset="hash"), {}, dict.fromkeys("abc", (-1, ""))),
    ],
    ids=["a match", "a dataset"],
)
def test_agents_without_round_policy_have_no_version(origin, more, versions):
    for episode in sampled_episodes(TEAM, [sampled(origin, **more)]):
        assert episode.versions == versions


def test_tables_of_agents_have_names_of_their_own():
    assert file_names(["a", "final", "b/c"], "parquet", others=("final",)) == [
        "a.parquet", "agent1.parquet", "agent2.parquet",
    ]  # fmt: skip
