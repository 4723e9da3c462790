"""Exported policies act like `TeamPolicy` where nothing of this project can be imported."""

import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from task_fields import make_task

from marless.coordinator.errors import UserError
from marless.exports.destination import write_folder
from marless.exports.policy_files import policy_files
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.learner.handler import initialise
from marless.functions.messages.learner import InitialiseTask
from marless.functions.messages.team import Opponents, Team
from marless.reports.policy import TeamFile, TeamPolicy
from marless.testing.algorithms.random_tasks import TASKS

ROWS = 2_000
ROOT = Path(__file__).parents[3]
ALONE = """
import sys
sys.path = [path for path in sys.path if path.rstrip("/") != sys.argv[2]]
sys.path.insert(0, sys.argv[1])
import importlib.util, json
import numpy as np
from play import Player
assert not importlib.util.find_spec("marless"), sys.path
from pathlib import Path
given, player, found = np.load(sys.argv[1] + "/given.npz"), Player(Path(sys.argv[1])), {}
for step in range(2):
    names = {key.split("/")[1] for key in given if key.startswith(f"{step}/")}
    seen, masks = ({name: given[f"{step}/{name}/{what}"] for name in names if f"{step}/{name}/{what}" in given}
                   for what in ("seen", "mask"))
    for name, action in player.act(seen, masks).items():
        found[f"{step}/{name}"] = np.asarray(action)
np.savez(sys.argv[1] + "/found.npz", **found)
"""

BOTH = TASKS["several choices beside numbers"]
NUMBERS = TASKS["numbers"]
CHOICES = TASKS["unequal agents with masks and a state"]
FROM_THREE = EnvSpec(("a", "b"), (AgentClass("all", (0, 1), 4, 3, first_action=3),), 5)
IMAGES = EnvSpec(("a", "b"), (AgentClass("all", (0, 1), 6 * 5 * 2 + 3, 4, observation_shape=(6, 5, 2)),), 5)
ENTITIES = EnvSpec(("a", "b"), (AgentClass("all", (0, 1), 4 * 3, 4, observation_shape=(4, 3)),), 5)
FOES = Entities.of(8, EntityBlock("foe", ((2, 3), (4, 5), (6, 7)), absent=(0, 0), first_action=1))
NAMED = EnvSpec(("a", "b"), (AgentClass("all", (0, 1), 8, 4, entities=FOES),), 5)
MODULE = """
import torch

class Mixed(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.first = torch.nn.Linear(shape.width + shape.rest, shape.hidden[0])
        self.norm = torch.nn.LayerNorm(shape.hidden[0])
        self.last = torch.nn.Linear(shape.hidden[0], shape.outputs)

    def forward(self, observation, rest):
        flat = torch.cat([observation.flatten(1), rest], dim=1)
        return self.last(torch.tanh(self.norm(self.first(flat))))

make = Mixed
"""
RECURRENT, NORMS = {"recurrent": True}, {"layer_norm": True}
SEEN = {"normalise_observations": True}

CASES = {
    f"{name}{''.join(f' {key}' for key in settings)} {place}": (name, settings, spec)
    for place, (name, settings, spec) in enumerate(
        [
            ("mappo", RECURRENT | NORMS | SEEN, BOTH),
            ("qmix", RECURRENT | NORMS, FROM_THREE),
            ("masac", {}, NUMBERS),
            ("ippo", {}, CHOICES),
            ("ippo", SEEN | {"clipped": True}, NUMBERS),
            ("ippo", {"network": "cnn", "engine": "torch"}, IMAGES),
            ("mappo", {"network": "attention", "engine": "torch"}, ENTITIES),
            ("happo", RECURRENT | SEEN, NUMBERS),
            ("iql", {}, CHOICES),
            ("iql", {"network": "attention", "engine": "torch"}, NAMED),
            ("vdn", NORMS, FROM_THREE),
            ("qplex", RECURRENT, CHOICES),
            ("iddpg", NORMS, CHOICES),
            ("maddpg", {}, NUMBERS),
            ("isac", RECURRENT, CHOICES),
            ("isac", NORMS, NUMBERS),
            ("masac", {"network": "cnn", "engine": "torch"}, IMAGES),
            ("masac", {"network": "networks_of_users:make", "engine": "torch"}, NUMBERS),
            ("happo", {"network": "cnn", "engine": "torch"}, IMAGES),
        ]
    )
}


@pytest.fixture(autouse=True)
def networks_of_users(tmp_path_factory, shell):
    """A module with a factory, which the programs that play do not find."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "networks_of_users.py").write_text(MODULE)
    shell.import_from(folder)
    yield
    sys.modules.pop("networks_of_users", None)


def team_of(name, settings, spec, shared, last_action=False, order="index"):
    """A team with random networks, where biases, norms and statistics matter too."""
    if last_action:
        wider = [msgspec.structs.replace(k, observation_size=k.observation_size + k.actions) for k in spec.classes]
        spec = msgspec.structs.replace(spec, classes=tuple(wider))
    firsts = tuple(kind.agents[0] for kind in (spec.classes[index] for index in spec.class_of))
    team = Team(groups=firsts if shared else tuple(range(len(spec.agents))), identity=shared)
    task = make_task(InitialiseTask,
        id="i", output="i", run="r", round=0, timeout_s=9.0, seed=1, spec=spec, algorithm=name,
        hyperparameters={"hidden": [16, 16], **settings}, team=team,
    )  # fmt: skip
    tensors = {}
    for key, array in initialise(task, None)[0][0].tensors.items():
        rng = np.random.default_rng(zlib.crc32(key.encode()))
        if key.endswith("/seen"):
            array = np.stack(
                [np.full(array.shape[1], 50.0), rng.normal(size=array.shape[1]), 50 + rng.random(array.shape[1])]
            )
        elif array.dtype.kind == "f" and array.size:
            array = (array + 0.3 * rng.standard_normal(array.shape)).astype(array.dtype)
        tensors[key] = array
    config = algorithms.configuration(algorithms.algorithm(name), task.learning.hyperparameters).resolved(spec)
    greedy = config.behaviour(0).kind != "sample"
    header = TeamFile(task=EnvTask(name="x", last_action=last_action, order=order), spec=spec, team=team, greedy=greedy)
    return TeamPolicy(header, tensors)


def shown(team, rng, last_action):
    """Random observations, masks and zeros for last actions of every agent."""
    seen, masks = {}, {}
    for agent, name in enumerate(team.agents):
        kind = team.spec.classes[team.spec.class_of[agent]]
        width = kind.observation_size - last_action * kind.actions
        seen[name] = rng.standard_normal((ROWS, width)).astype(np.float32)
        if not kind.continuous:
            masks[name] = rng.random((ROWS, kind.actions)) < 0.6
            masks[name][:, np.cumsum(kind.branches or (kind.actions,)) - 1] = True
    return seen, masks


def numbers_of(kind, action):
    if kind.continuous:
        return 2 * (action - np.array(kind.low)) / (np.array(kind.high) - np.array(kind.low)) - 1
    chosen = (action - kind.first_action).reshape(len(action), -1)
    counts = kind.branches or (kind.actions,)
    return np.concatenate([np.eye(count)[one] for count, one in zip(counts, chosen.T, strict=True)], axis=1)


def margin(kind, outputs):
    """By how much the best choice is ahead of the second, the least of several choices ``[rows]``."""
    parts = np.split(outputs, np.cumsum(kind.branches or (kind.actions,))[:-1], axis=1)
    return np.min([np.diff(np.sort(part, axis=1)[:, -2:], axis=1)[:, 0] for part in parts], axis=0)


def outputs_of(network, rows, hidden):
    """Outputs ``[rows, width]`` of one agent's network, and the next hidden state, to be given to the next call."""
    hidden = network.start(len(rows)) if hidden is None else hidden
    before = None if hidden is None else hidden.reshape(1, 1, len(rows), -1)
    outputs, after = network.outputs(rows.astype(np.float32)[None, None], before)
    return outputs[0, 0], after


class Script:
    """Two steps of the team: each agent's observation, its action, and the margin of its choice."""

    def __init__(self, team, last_action):
        self.team, self.last_action, self.rng = team, last_action, np.random.default_rng(7)
        self.given, self.expected, self.margins, self._behind, self._hidden = {}, {}, {}, {}, {}
        for step in range(2):
            seen, masks = shown(team, self.rng, last_action)
            for name, rows in seen.items():
                self._play(f"{step}/{name}", name, rows, masks.get(name))

    def kind(self, name):
        return self.team.spec.classes[self.team.spec.class_of[self.team.agents.index(name)]]

    def _play(self, key, name, rows, mask):
        kind, team = self.kind(name), self.team
        self.given |= {f"{key}/seen": rows} | ({} if mask is None else {f"{key}/mask": mask})
        action = np.asarray(team.act({name: rows}, None if mask is None else {name: mask})[name])
        order = team.order(team.agents.index(name))
        rows = rows if order is None else order.sort(rows)
        if self.last_action:
            rows = np.concatenate([rows, self._behind.get(name, np.zeros((ROWS, kind.actions)))], axis=1)
        network = team.networks(team.agents.index(name))
        outputs, self._hidden[name] = outputs_of(network, rows, self._hidden.get(name))
        if mask is not None:
            self.margins[key] = margin(kind, np.where(mask, outputs, -1e9))
        self._behind[name], self.expected[key] = numbers_of(kind, action), action


def check(folder, team, format_, last_action=False):
    write_folder(folder, policy_files(team, format_, {}))
    script = Script(team, last_action)
    np.savez(folder / "given.npz", **script.given)
    command = [sys.executable, "-I", "-c", ALONE, str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = np.load(folder / "found.npz")
    assert sorted(found) == sorted(script.expected)
    for key, action in script.expected.items():
        assert found[key].shape == action.shape
        if script.kind(key[2:]).continuous:
            np.testing.assert_allclose(found[key], action, rtol=0, atol=2e-5)
            continue
        same, clear = (found[key] == action).reshape(ROWS, -1).all(axis=1), script.margins[key] > 1e-5
        assert same[clear].all()
        assert clear.mean() > 0.99


@pytest.mark.slow
@pytest.mark.one_in(9)
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_onnx_acts_like_the_team(tmp_path, case, shared):
    pytest.importorskip("onnx")
    check(tmp_path, team_of(*case, shared), "onnx")


@pytest.mark.slow
@pytest.mark.one_in(19)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torch_acts_like_the_team(tmp_path, case):
    check(tmp_path, team_of(*case, True), "torch")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case[1].get("network", "attention") == "attention"]
)
def test_numpy_acts_like_the_team(tmp_path, case):
    check(tmp_path, team_of(*case, True), "safetensors")


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("spec", [BOTH, FROM_THREE], ids=["several choices and numbers", "one choice"])
@pytest.mark.parametrize("format_", ["onnx", "safetensors", "torch"])
def test_last_action_is_separate_input(tmp_path, format_, spec):
    check(tmp_path, team_of("ippo", RECURRENT, spec, True, last_action=True), format_, last_action=True)


def test_onnx_needs_the_observation_alone(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    team = team_of("mappo", RECURRENT | NORMS | SEEN, BOTH, True)
    session = onnxruntime.InferenceSession(policy_files(team, "onnx", {})["b.onnx"])
    rows = np.random.default_rng(3).standard_normal((ROWS, 3)).astype(np.float32)
    outputs, _, hidden = session.run(None, {"observation": rows})
    expected, after = outputs_of(team.networks(1), rows, None)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(hidden, after[0, 0], rtol=0, atol=1e-5)


def test_random_agent_has_no_policy_and_safe_name(tmp_path):
    spec = EnvSpec(agents=("../a", "b"), classes=(AgentClass("all", (0, 1), 2, 2),), horizon=1)
    tensors = {"policy/g00/w0": np.eye(2, dtype=np.float32), "policy/g00/b0": np.zeros(2, np.float32)}
    team = Team(groups=(0, 1), opponents=Opponents(agents=(1,), acting="random"))
    files = policy_files(TeamPolicy(TeamFile(task=EnvTask(name="x"), spec=spec, team=team), tensors), "onnx", {})
    document = msgspec.json.decode(files["policies.json"])
    assert (list(document["agents"]), document["without_policy"]) == (["../a"], ["b"])
    assert sorted(name for name in files if "/" not in name) == [
        "README.txt",
        "agent0.onnx",
        "play.py",
        "policies.json",
    ]


def test_a_factory_that_is_gone_leaves_onnx(shell):
    team = team_of("ippo", {"network": "networks_of_users:make", "engine": "torch"}, ENTITIES, True)
    shell.uninstall("networks_of_users")
    with pytest.raises(UserError, match=r"networks_of_users:make cannot be imported.*the format onnx needs no module"):
        policy_files(team, "torch", {})
    assert "a.onnx" in policy_files(team, "onnx", {})


@pytest.mark.slow
def test_a_factorys_network_is_no_list_of_layers():
    team = team_of("ippo", {"network": "cnn", "engine": "torch"}, IMAGES, False)
    with pytest.raises(UserError, match=r"a has a network of algorithm.network=cnn.*use the format onnx or torch"):
        policy_files(team, "safetensors", {})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("format_", ["onnx", "safetensors", "torch"])
@pytest.mark.parametrize("order", ["distance", "relation"])
def test_order_of_entities_is_part_of_policy(tmp_path, format_, order):
    pytest.importorskip("onnx")
    blocks = (
        EntityBlock("food", ((5, 0, 1), (6, 2, 3), (4, 7, 8)), (1, 2)),
        EntityBlock("teammate", ((9, 10), (11, 12)), (0, 1), teammates=True),
    )
    kind = AgentClass("all", (0, 1), 15, 4, entities=Entities.of(15, *blocks, origin=(13, 14)))
    team = team_of("ippo", {}, EnvSpec(("a", "b"), (kind,), 5), False, order=order)
    rows = np.random.default_rng(7).standard_normal((ROWS, 15)).astype(np.float32)
    assert (team.order(0).sort(rows) != rows).any(axis=1).mean() > 0.8
    check(tmp_path, team, format_)
