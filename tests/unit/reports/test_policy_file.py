"""A trained team as one file: it plays like its source policies, without torch, and invalid files are refused."""

import subprocess
import sys

import numpy as np
import pytest
from drawn_policies import ALONE, SHARED, SPEC, by_agent, observation, weights

from marless.coordinator.errors import UserError
from marless.functions import codec
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.errors import CorruptObject
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.reports import load_policy
from marless.reports.policy import FILE, TeamFile, export

TASK = EnvTask(name="toy/signal", agents=3)


def saved(folder, team, tensors):
    (folder / FILE).write_bytes(export(TeamFile(task=TASK, spec=SPEC, team=team), tensors))
    return folder


@pytest.mark.parametrize("team", [ALONE, SHARED], ids=["alone", "shared with identity"])
@pytest.mark.parametrize("masked", [False, True])
def test_loaded_team_plays_as_in_training(tmp_path, team, masked):
    tensors, seen = weights(team, np.float32), observation(np.float32, 300, masked=masked)
    loaded = load_policy(saved(tmp_path, team, tensors))
    found = loaded.act(by_agent(SPEC, seen.values), by_agent(SPEC, seen.masks) if masked else None)
    expected = by_agent(SPEC, [actions.T for actions in Policy(SPEC, team, tensors).greedy(seen)])
    assert (loaded.task, loaded.agents) == (TASK, SPEC.agents)
    for agent in SPEC.agents:
        np.testing.assert_array_equal(found[agent], expected[agent])


def test_one_observation_gives_action_for_asked_agents(tmp_path):
    loaded = load_policy(saved(tmp_path, ALONE, weights(ALONE, np.float32)))
    batch = observation(np.float32, 3).values[1][:, 0]
    found = loaded.act({"b": batch[1].tolist()})
    assert found == {"b": int(loaded.act({"b": batch})["b"][1])}
    assert type(found["b"]) is int
    with pytest.raises(UserError, match=r"no policy plays agent 'nobody'; there are 'a', 'b', 'c'"):
        loaded.act({"nobody": batch})


def test_draws_follow_policy_and_are_legal(tmp_path):
    # Inputs do not matter: every weight is 0, and the biases give probabilities ¼, ¾ and (masked) 0.
    tensors = {
        f"policy/g{g:02d}/w0": np.zeros((width, n), np.float32) for g, width, n in ((0, 6, 5), (2, 6, 5), (1, 4, 3))
    }
    tensors |= {f"policy/g{g:02d}/b0": np.zeros(5, np.float32) for g in (0, 2)}
    tensors["policy/g01/b0"] = np.array([0.0, np.log(3), 50], np.float32)
    loaded = load_policy(saved(tmp_path, ALONE, tensors))
    seen, masks = {"b": np.zeros((20_000, 4))}, {"b": [True, True, False]}
    first, again = (loaded.act(seen, masks, np.random.default_rng(1))["b"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    counts = np.bincount(first, minlength=3)
    assert counts[2] == 0
    assert abs(counts[0] - 5_000) < 4 * np.sqrt(20_000 * 0.25 * 0.75)  # four standard deviations


def test_file_holds_only_policies_with_equal_bytes(tmp_path):
    tensors = weights(ALONE, np.float32)
    more = dict(reversed(tensors.items())) | {"critic/g00/w0": np.zeros((2, 2), np.float32)}
    header = TeamFile(task=TASK, spec=SPEC, team=ALONE)
    body = export(header, tensors)
    assert export(header, more) == body
    assert sorted(codec.decode(body, FILE)) == sorted(tensors)
    assert load_policy(saved(tmp_path, ALONE, tensors) / FILE).agents == SPEC.agents  # the file itself suffices


GARBAGE = {
    "nothing": b"",
    "text": b"not a policy",
    "noise": b"\xff" * 100,
    "another object": codec.encode(weights(ALONE, np.float32), TaskHeader(task="t")),
    "a torn file": export(TeamFile(task=TASK, spec=SPEC, team=ALONE), weights(ALONE, np.float32))[:-9],
    "a team without networks": export(TeamFile(task=TASK, spec=SPEC, team=ALONE), {}),
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_file_that_is_no_policy_is_refused(tmp_path, body):
    (tmp_path / FILE).write_bytes(body)
    with pytest.raises(CorruptObject, match=r"policies\.safetensors is not a policy file"):
        load_policy(tmp_path)


def test_a_folder_without_policies_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path)


def test_a_team_plays_where_torch_is_not_installed(tmp_path):
    saved(tmp_path, ALONE, weights(ALONE, np.float32))
    source = (
        "import sys; sys.modules['torch'] = sys.modules['matplotlib'] = None\n"
        "from marless.reports import load_policy\n"
        f"print(load_policy({str(tmp_path)!r}).act({{'b': [0.0, 1.0, 2.0, 3.0]}}))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("{'b': ")


def test_observations_come_as_the_environment_gives_them(tmp_path):
    """A box of two rows, a mask, and actions that the environment counts from 3."""
    kind = AgentClass("player", (0,), 6, 2, first_action=3)
    spec = EnvSpec(agents=("player",), classes=(kind,), horizon=1)
    weight = np.zeros((6, 2), np.float32)
    weight[5, 1] = 1.0  # the last number of the box favours the second action
    tensors = {"policy/g00/w0": weight, "policy/g00/b0": np.zeros(2, np.float32)}
    (tmp_path / FILE).write_bytes(export(TeamFile(task=TASK, spec=spec, team=Team(groups=(0,))), tensors))
    policy = load_policy(tmp_path)
    box = np.array([[0, 0, 0], [0, 0, 2]])
    assert policy.act({"player": box}) == {"player": 4}
    assert policy.act({"player": {"observation": box, "action_mask": np.array([1, 0])}}) == {"player": 3}
    np.testing.assert_array_equal(policy.act({"player": np.stack([box.ravel(), -box.ravel()])})["player"], [4, 3])
    with pytest.raises(UserError, match=r"the observation of agent 'player' has shape \(5,\), not \(6,\)"):
        policy.act({"player": np.zeros(5)})
