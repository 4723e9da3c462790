"""Observations and actions of a loaded team in the environment's own form, computed by hand, and errors for others."""

import numpy as np
import pytest
from drawn_policies import tensors_of
from exported_players import exported
from gymnasium import spaces
from random_spaces import acted, observed

from marless.coordinator.errors import UserError
from marless.exports.destination import file_names
from marless.functions.environments import native_spaces
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.environments.pettingzoo.agents import agents_of, classes_of, keys_of
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.spaces import action_space_of, gymnasium_space, observation_space_of
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.environments.spaces.agent import AgentCodec
from marless.functions.environments.spaces.space_types import (
    AgentSpaces,
    BoxSpace,
    DictSpace,
    DiscreteSpace,
    MultiBinarySpace,
    TupleSpace,
    VectorSpace,
)
from marless.functions.errors import CorruptObject
from marless.functions.messages.team import Team
from marless.reports import load_policy
from marless.reports.policy import TeamFile, TeamPolicy, export


class Named:
    """The attributes that the adapter asks of an environment to know its agents."""

    def __init__(self, names, sees, does):
        self.possible_agents, self._sees, self._does = names, sees, does

    def observation_space(self, agent):
        return self._sees

    def action_space(self, agent):
        return self._does


def header_of(sees, does, names=("a",), joint=False, last_action=False):
    agents = agents_of("x", Guard("x", Named(list(names), sees, does)), joint)
    spec = EnvSpec(tuple(agent.name for agent in agents), classes_of(agents), 5, keys=keys_of(agents))
    return TeamFile(task=EnvTask(name="pettingzoo:x:y"), spec=spec, team=Team(groups=(0,) * len(names)))


def linear(kind, rows):
    """A network without hidden layers. Its output o is the sum of observed numbers i for (i, o) in `rows`."""
    weight = np.zeros((kind.observation_size, kind.actions), np.float32)
    for seen, output in rows:
        weight[seen, output] = 1
    return {"policy/g00/w0": weight, "policy/g00/b0": np.zeros(kind.actions, np.float32)}


def team(sees, does, rows, **more):
    header = header_of(sees, does, **more)
    kind = header.spec.classes[0]
    numbers = {"policy/g00/log_std": np.zeros(kind.actions, np.float32)} if kind.continuous else {}
    return TeamPolicy(header, linear(kind, rows) | numbers)


@pytest.mark.parametrize("seen", [7, np.int64(7), np.array(7)])
def test_a_discrete_observation_counts_from_its_start(seen):
    # 7 is the third of three choices from 5, so the third number is 1, which is output 1, which is action 4.
    loaded = team(spaces.Discrete(3, start=5), spaces.Discrete(2, start=3), [(2, 1)])
    assert loaded.act({"a": seen}) == {"a": 4}


def test_an_image_is_scaled_and_has_its_shape():
    # 51 / 255 is 0.2: less than the 0.5 of the vector next to it, but 51 itself would be more.
    sees = spaces.Dict({"eye": spaces.Box(0, 255, (2, 1), np.uint8), "level": spaces.Box(0, 1, (1,))})
    loaded = team(sees, spaces.Discrete(2), [(0, 0), (2, 1)])
    assert loaded.act({"a": {"eye": np.array([[51], [0]], np.uint8), "level": [0.5]}}) == {"a": 1}
    with pytest.raises(UserError, match=r"observation of agent 'a'\['eye'\] has shape \(2,\), not \(2, 1\)"):
        loaded.act({"a": {"eye": np.array([51, 0], np.uint8), "level": [0.5]}})


def test_dictionary_keys_may_be_numbers_or_text():
    sees = spaces.Dict({(0, 1): spaces.Discrete(2), (1, 0): spaces.Discrete(2)})
    loaded = team(sees, spaces.Discrete(4), [(0, 0), (1, 1), (2, 2), (3, 3)])
    assert loaded.act({"a": {(1, 0): 1, (0, 1): 0}}) == {"a": 0}


def test_choices_have_their_shape_start_and_type():
    does = spaces.MultiDiscrete(np.array([[2], [3]]), np.int8, start=[[0], [5]])
    found = team(spaces.Discrete(2), does, [(1, 1), (1, 4)]).act({"a": 1})["a"]
    assert (found.tolist(), found.dtype) == ([[1], [7]], np.int8)


def test_joint_actions_are_taken_apart():
    # Number 5 of 2 x 3 combinations is (1, 2), as the last choice changes fastest.
    does = spaces.MultiDiscrete([2, 3], start=[0, 5])
    loaded = team(spaces.Discrete(2), does, [(0, 5), (1, 4)], joint=True)
    assert loaded.act({"a": 0})["a"].tolist() == [1, 7]
    # The environment's mask lists the choices in order. The second choice allows only its first action. So the
    # combinations (0, 0) and (1, 0) remain. They are equal, so the first is taken.
    assert loaded.act({"a": 0}, {"a": [1, 1, 1, 0, 0]})["a"].tolist() == [0, 5]


def test_several_observations_give_several_actions():
    loaded = team(spaces.Discrete(3), spaces.Discrete(2), [(2, 1)])
    np.testing.assert_array_equal(loaded.act({"a": np.array([0, 2, 2])})["a"], [0, 1, 1])


BATCHES = {
    "number": (spaces.Box(-1, 1, (1,)), np.zeros(1, np.float32)),
    "number without axes": (spaces.Box(-1, 1, ()), np.float32(0.5)),
    "choice": (spaces.Discrete(3), np.array(1)),
    "choices of one": (spaces.MultiDiscrete([3]), np.array([1])),
    "image of one": (spaces.Box(0, 255, (1, 1, 1), np.uint8), np.zeros((1, 1, 1), np.uint8)),
    "numbers": (spaces.Box(-1, 1, (2,)), np.zeros(2, np.float32)),
}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("batch", [(), (1,), (2,), (1, 1), (3, 1)])
def test_a_batch_of_one_keeps_its_axes(kind, batch):
    space, one = BATCHES[kind]
    seen = np.broadcast_to(one, (*batch, *np.shape(one)))
    for sees, observation in ((space, seen), (spaces.Dict({"x": space, "y": space}), {"x": seen, "y": seen})):
        assert np.shape(team(sees, spaces.Discrete(2), [(0, 1)]).act({"a": observation})["a"]) == batch
        does = spaces.Box(-1, 1, (1,))
        assert team(sees, does, [(0, 0)]).act({"a": observation})["a"].shape == (*batch, 1)


@pytest.mark.parametrize("batch", [(), (1,), (4,), (1, 2)])
def test_vector_without_spaces_keeps_batch_axes(batch):
    codec = AgentCodec("a", AgentSpaces(VectorSpace((2, 3)), DiscreteSpace(2, 0)).plain())
    assert codec.encode("a", np.zeros((*batch, 2, 3))).batch == batch
    assert codec.encode("a", np.zeros((*batch, 6))).batch == batch


def test_number_with_extra_axis_is_no_batch():
    sees = spaces.Dict({"level": spaces.Discrete(3), "place": spaces.Box(-1, 1, (2,))})
    assert team(sees, spaces.Discrete(2), [(2, 1)]).act({"a": {"level": [2], "place": [0.0, 0.0]}}) == {"a": 1}


def test_agents_are_known_by_text_of_names():
    loaded = team(spaces.Discrete(2), spaces.Discrete(2), [(1, 1)], names=(0, 1))
    assert loaded.spec.keys == (0, 1)
    assert loaded.act({0: 1, np.int64(1): 0}) == {0: 1, 1: 0}
    assert loaded.act({"0": 1}) == {"0": 1}
    with pytest.raises(UserError, match="agent '0' is given twice"):
        loaded.act({0: 1, "0": 1})


def test_the_last_action_is_kept_until_start():
    header = header_of(spaces.Discrete(2), spaces.Discrete(2))
    kind = AgentClass("a", (0,), 4, 2, spaces=header.spec.classes[0].spaces)
    spec = EnvSpec(("a",), (kind,), 5)
    followed = TeamFile(task=EnvTask(name="x", last_action=True), spec=spec, team=header.team)
    # Numbers 2 and 3 are the last action's one-hot: the agent switches its action, and begins with 0.
    loaded = TeamPolicy(followed, linear(kind, [(2, 1), (3, 0)]))
    assert [loaded.act({"a": 0})["a"] for _ in range(4)] == [0, 1, 0, 1]
    loaded.act({"a": 0})
    loaded.start()
    assert loaded.act({"a": 0}) == {"a": 0}


def test_playing_program_refuses_other_batch_size(tmp_path):
    header = header_of(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))
    player = exported(TeamPolicy(header, tensors_of(header.spec, header.team, (4, 4))), "safetensors", tmp_path)
    assert player.act({"a": np.zeros((3, 2))})["a"].shape == (3,)
    for seen in (np.zeros(2), np.zeros((1, 2))):
        with pytest.raises(ValueError, match=r"a began with 3 environments and got 1; call start\(\)"):
            player.act({"a": seen})
    player.start()
    assert isinstance(player.act({"a": np.zeros(2)})["a"], int)


@pytest.mark.parametrize(
    ("observations", "masks", "message"),
    [
        ([3], None, "observations are a dictionary by agent, not list"),
        ({"b": 1}, None, "no policy plays agent 'b'; there are 'a'"),
        ({"a": 3}, None, "observation of agent 'a' is 3, which is outside its space"),
        ({"a": 0.5}, None, "observation of agent 'a' is 0.5, which is outside its space"),
        ({"a": float("nan")}, None, "observation of agent 'a' is not finite"),
        ({"a": {"dial": 1}}, None, "observation of agent 'a' is not numeric"),
        ({"a": None}, None, "observation of agent 'a' is None$"),
        ({"a": [None]}, None, "observation of agent 'a' is None in part$"),
        ({"a": 1}, {"a": [-1e9, 0]}, r"action mask of agent 'a' holds -1e\+09; it is 1 where an action is legal"),
        ({"a": 1}, {"a": [1, 1, 1]}, r"action mask of agent 'a' has shape \(3,\), not \(2,\)"),
        ({"a": 1}, {"b": [1, 0]}, "masks are of agent 'b'; there are 'a'"),
        ({"a": 1}, {"a": [0, 0]}, "action mask of agent 'a' allows no action"),
    ],
)
def test_invalid_observation_is_one_line_without_action(observations, masks, message):
    loaded = team(spaces.Discrete(3), spaces.Discrete(2), [(2, 1)])
    with pytest.raises(UserError, match=message) as refused:
        loaded.act(observations, masks)
    assert "\n" not in str(refused.value)


def test_file_without_spaces_warns_once_if_needed():
    spec = EnvSpec(("a",), (AgentClass("a", (0,), 2, 2, first_action=3),), 5)
    old = TeamPolicy(
        TeamFile(task=EnvTask(name="pettingzoo:x:y"), spec=spec, team=Team(groups=(0,))),
        linear(spec.classes[0], [(1, 1)]),
    )
    with pytest.warns(UserWarning, match="written before files held the spaces") as warned:
        assert [old.act({"a": [0.0, 1.0]}) for _ in range(2)] == [{"a": 4}, {"a": 4}]
    assert len(warned) == 1


def test_every_space_is_described_wholly():
    for number in range(300):
        rng = np.random.default_rng([40, number])
        sees, does = observed(rng), acted(rng)
        assert gymnasium_space(observation_space_of("a", sees)) == sees
        assert gymnasium_space(action_space_of("a", does, joint=False)) == does


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8", "bool"])
def test_widest_integers_are_shown_within_space(dtype):
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    space = spaces.Box(low, high, (2,), np.dtype(dtype))
    described = observation_space_of("a", space)
    assert gymnasium_space(described) == space
    codec = AgentCodec("a", AgentSpaces(described, DiscreteSpace(2, 0)).plain())
    shown = codec.observation.read(codec.encode("a", np.array([low, high], dtype)).rows[0])
    assert space.contains(shown)
    np.testing.assert_allclose(shown.astype(float), [float(low), float(high)])


def test_names_of_other_types_are_their_text():
    header = header_of(spaces.Discrete(2), spaces.Discrete(2), names=(True, 7))
    assert (header.spec.agents, header.spec.keys) == (("True", "7"), ("True", 7))
    native_spaces.require_fitting(header.spec, last_action=False)
    assert TeamPolicy(header, linear(header.spec.classes[0], [(1, 1)])).act({True: 1, 7: 0}) == {True: 1, 7: 0}


def test_actions_are_encoded_as_they_were_decoded():
    for number in range(300):
        rng = np.random.default_rng([41, number])
        does = acted(rng)
        for joint in (False, True):
            if joint and np.prod(getattr(does, "nvec", [1])) > 1024:
                continue
            codec = ActionCodec(
                header_of(spaces.Discrete(2), does, joint=joint).spec.classes[0].spaces.plain()["action"], joint
            )
            does.seed(number)
            taken = [does.sample() for _ in range(3)]
            chosen = np.stack([codec.encode(one, (), "it") for one in taken])
            np.testing.assert_allclose(codec.decode(chosen), np.stack(taken), rtol=1e-6)
            legal = np.ones((2, codec.actions), bool) if codec.continuous else rng.random((2, codec.mask_size)) < 0.7
            if not codec.continuous and (own := codec.legal(legal)) is not None:
                np.testing.assert_array_equal(codec.mask_of(own), legal)


@pytest.mark.parametrize("names", [(1, "1"), ("b", "a", "b"), ("(0, 1)", (0, 1))])
def test_agents_with_equal_texts_are_refused(names):
    with pytest.raises(Exception, match=r"have the same text; names must differ as text"):
        header_of(spaces.Discrete(2), spaces.Discrete(2), names=names)


def test_files_of_agents_differ_on_every_disk():
    assert file_names(["a", "A", "agent0", "../x", "ü b"], "onnx") == [
        "agent0_.onnx", "agent1.onnx", "agent0.onnx", "agent3.onnx", "agent4.onnx",
    ]  # fmt: skip


DEEP = DiscreteSpace(2, 0)
for _ in range(40):
    DEEP = TupleSpace((DEEP,))
BROKEN = {
    "of another size": AgentSpaces(DiscreteSpace(3, 0), DiscreteSpace(2, 0)),
    "with other actions": AgentSpaces(DiscreteSpace(2, 0), DiscreteSpace(3, 0)),
    "deep": AgentSpaces(DEEP, DiscreteSpace(2, 0)),
    "of negative lengths": AgentSpaces(BoxSpace((-1, -2), "float32", (None,), (None,)), DiscreteSpace(2, 0)),
    "of other bounds than numbers": AgentSpaces(BoxSpace((2,), "float32", (0.0,) * 3, (None,)), DiscreteSpace(2, 0)),
    "with a key twice": AgentSpaces(DictSpace(("a", "a"), (DiscreteSpace(1, 0),) * 2), DiscreteSpace(2, 0)),
    "with more keys than parts": AgentSpaces(DictSpace(("a", "b"), (DiscreteSpace(2, 0),)), DiscreteSpace(2, 0)),
    "of a terabyte": AgentSpaces(DiscreteSpace(2, 0), MultiBinarySpace((10**6, 10**6))),
    "with nested actions": AgentSpaces(DiscreteSpace(2, 0), TupleSpace((DiscreteSpace(2, 0),))),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_file_with_contradicting_spaces_is_no_policy(tmp_path, broken):
    kind = AgentClass("a", (0,), 2, 2, spaces=broken)
    header = TeamFile(task=EnvTask(name="x"), spec=EnvSpec(("a",), (kind,), 5), team=Team(groups=(0,)))
    (tmp_path / "policies.safetensors").write_bytes(export(header, linear(kind, [(1, 1)])))
    with pytest.raises(CorruptObject, match="is not a policy file: "):
        load_policy(tmp_path)
