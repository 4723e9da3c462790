"""Every supported observation and action space of PettingZoo in our arrays, and the errors for others."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten
from many_spaces import DEEDS, SIGHTS, Studio
from msgspec import to_builtins
from msgspec.structs import replace
from pettingzoo.test import parallel_api_test, parallel_seed_test

from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvTask, Unsupported
from marless.functions.environments.pettingzoo import adapter
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.parallel_view import ParallelView
from marless.functions.environments.pettingzoo.spaces import observation_space_of
from marless.functions.environments.spaces.observations import observation_codec
from marless.functions.errors import BadRequest
from marless.testing.environments import check


def studio(agents=None, **options):
    return EnvTask(name="pettingzoo:many_spaces:Studio", agents=agents, options=options)


def opened(task, num_envs=1):
    environment = adapter.make(task, num_envs)
    return environment, environment.reset(np.random.default_rng(0))


def the_class(**options):
    return registry.spec(studio(**options)).classes[0]


def done(environment):
    return list(environment._copies[0]._guard.environment.done[-1].values())


def codec_of(space):
    return observation_codec(to_builtins(observation_space_of("a: agent 'b'", space)))


def vector(space, seen):
    codec = codec_of(space)
    out = np.full(codec.size, np.nan, dtype=np.float32)
    with Guard("a, copy 0", None).space_errors("step"):
        codec.write(seen, "the observation of agent 'b'", out)
    return out


@pytest.mark.parametrize("name", [name for name in SIGHTS if name not in ("image", "named")])
def test_an_observation_is_what_gymnasium_makes_of_it(name):
    SIGHTS[name].seed(7)
    for _ in range(20):
        seen = SIGHTS[name].sample()
        np.testing.assert_array_equal(vector(SIGHTS[name], seen), flatten(SIGHTS[name], seen).astype(np.float32))


def test_numbers_are_flattened():
    assert vector(SIGHTS["numbers"], [[1, 2], [3, 4]]).tolist() == [1, 2, 3, 4]


def test_an_image_is_scaled_to_one_and_flattened():
    image = np.array([[0, 51], [102, 255]], dtype=np.uint8)
    space = spaces.Box(0, 255, (2, 2), np.uint8)
    np.testing.assert_allclose(vector(space, image), [0, 0.2, 0.4, 1], rtol=1e-7)


def test_small_counts_are_no_image():
    assert vector(SIGHTS["counts"], np.array([0, 1, 6, 7], dtype=np.uint8)).tolist() == [0, 1, 6, 7]


@pytest.mark.parametrize("seen", [0, np.int64(0), 0.0, np.array(0), np.array([0])])
def test_choice_is_one_hot_counted_from_start(seen):
    assert vector(SIGHTS["one choice"], seen).tolist() == [0, 1, 0]


def test_several_choices_are_one_hots_side_by_side():
    seen = np.array([[1, 1], [5, -2]])
    assert vector(SIGHTS["several choices"], seen).tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1]


def test_only_image_comes_first_scaled_in_its_shape():
    seen = {"seen": np.array([[0, 255], [255, 0]], dtype=np.uint8), "held": 2}
    assert vector(SIGHTS["named"], seen).tolist() == [0, 1, 1, 0, 0, 0, 1]
    assert codec_of(SIGHTS["named"]).layout == (2, 2, 1)


def test_of_two_images_neither_does():
    image = spaces.Box(0, 255, (1, 2), np.uint8)
    space, seen = spaces.Dict({"a": spaces.Discrete(2), "b": image, "c": image}), np.array([[255, 0]], np.uint8)
    assert vector(space, {"a": 1, "b": seen, "c": seen}).tolist() == [0, 1, 1, 0, 1, 0]
    assert codec_of(space).layout == ()


def test_nested_parts_are_laid_side_by_side():
    seen = (1, {"b": np.array([0, 1]), "a": (np.array([1, 0]),)})
    assert vector(SIGHTS["nested"], seen).tolist() == [0, 1, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("name", "seen", "message"),
    [
        ("one choice", 2, "the observation of agent 'b' is 2, which is outside its space"),
        ("one choice", -2, "is -2, which is outside its space"),
        ("one choice", 0.5, "is 0.5, which is outside its space"),
        ("one choice", "left", "is not numeric"),
        ("one choice", np.nan, "is not finite"),
        ("several choices", np.array([[0, 1], [6, -3]]), r"is \[\[ 0 1\] \[ 6 -3\]\], which is outside its space"),
        ("several choices", np.array([0, 1, 2, -3]), r"has shape \(4,\), not \(2, 2\)"),
        ("bits", np.zeros(4), r"has shape \(4,\), not \(2, 2\)"),
        ("named", {"seen": np.zeros((2, 2))}, r"is not a dictionary with \['seen', 'held'\]"),
        ("named", np.zeros(7), "is not a dictionary"),
        ("named", {"seen": np.zeros(4), "held": 0}, r"agent 'b'\['seen'\] has shape \(4,\), not \(2, 2\)"),
        ("nested", (1,), "is not a tuple of 2"),
        ("nested", (1, {"b": np.zeros(2), "a": (np.array([2, 0]),)}), r"agent 'b'\[1\]\['a'\]\[0\] is \[2 0\], which"),
    ],
)
def test_observation_outside_space_is_located_fault(name, seen, message):
    with pytest.raises(EnvironmentFault, match=message) as fell:
        vector(SIGHTS[name], seen)
    assert "\n" not in str(fell.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Text(5)}),
        spaces.Tuple([spaces.Tuple([spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)])])]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_observations_that_are_no_vectors_are_refused(space):
    with pytest.raises(
        Unsupported, match=r"a: agent 'b' observes .*; supported are Box, .* and Dict or Tuple of these"
    ):
        observation_space_of("a: agent 'b'", space)


def test_seeing_nothing_is_refused():
    with pytest.raises(Unsupported, match="observes nothing"):
        observation_space_of("a: agent 'b'", spaces.Box(0, 1, (0,)))


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        ("one choice", AgentClass("artist", (0, 1), 4, 4, first_action=2)),
        ("several choices", AgentClass("artist", (0, 1), 4, 5, branches=(3, 2))),
        ("table of choices", AgentClass("artist", (0, 1), 4, 9, branches=(2, 3, 2, 2))),
        ("choice in an array", AgentClass("artist", (0, 1), 4, 4)),
        ("bits", AgentClass("artist", (0, 1), 4, 4, branches=(2, 2))),
        ("numbers", AgentClass("artist", (0, 1), 4, 2, low=(-1.0, 0.0), high=(1.0, float(np.float32(0.1))))),
        ("wide numbers", AgentClass("artist", (0, 1), 4, 2, low=(-0.1, -0.1), high=(0.1, 0.1))),
    ],
)
def test_possible_actions_belong_to_agent_class(does, expected):
    # The agent sees a table of two by two.
    assert replace(the_class(does=does), spaces=None) == replace(expected, observation_shape=(2, 2))


@pytest.mark.parametrize(
    ("does", "actions", "expected"),
    [
        ("one choice", [[0, 3]], [2, 5]),
        ("several choices", [[[2, 0], [0, 1]]], [[2, 5], [0, 6]]),
        ("table of choices", [[[0, 2, 1, 0], [1, 0, 0, 1]]], [[[0, 2], [1, 0]], [[1, 0], [0, 1]]]),
        ("choice in an array", [[3, 0]], [[3], [0]]),
        ("bits", [[[0, 1], [1, 1]]], [[[0], [1]], [[1], [1]]]),
        ("numbers", [[[-1, 0], [0.5, 0.05]]], [[-1, 0], [0.5, np.float32(0.05)]]),
    ],
)
def test_the_environment_is_given_what_its_space_holds(does, actions, expected):
    environment, _ = opened(studio(does=does))
    dtype = np.float32 if "numbers" in does else np.int64
    environment.step((np.array(actions, dtype=dtype),))
    given = done(environment)
    assert [np.asarray(action).tolist() for action in given] == [np.asarray(action).tolist() for action in expected]
    assert all(np.asarray(action).dtype == DEEDS[does].dtype for action in given)


def test_numbers_at_bound_do_not_round_beyond():
    environment, _ = opened(studio(does="wide numbers"))
    assert float(np.float32(0.1)) > 0.1
    environment.step((np.full((1, 2, 2), 0.1, dtype=np.float32),))
    assert [action.tolist() for action in done(environment)] == [[[0.1, 0.1]], [[0.1, 0.1]]]


def test_given_actions_are_not_changed_by_environment():
    environment, _ = opened(studio(does="several choices"))
    actions = np.array([[[2, 0], [0, 1]]])
    environment.step((actions,))
    done(environment)[0][:] = 9
    assert actions.tolist() == [[[2, 0], [0, 1]]]


@pytest.mark.parametrize(
    ("does", "count", "number", "expected"),
    [
        ("several choices", 6, 0, [0, 5]),
        ("several choices", 6, 1, [0, 6]),
        ("several choices", 6, 5, [2, 6]),
        ("table of choices", 24, 13, [[1, 0], [0, 1]]),
        ("bits", 4, 2, [[1], [0]]),
    ],
)
def test_combinations_are_numbered_with_last_choice_fastest(does, count, number, expected):
    environment, _ = opened(studio(does=does, joint_actions=True))
    kind = environment.spec.classes[0]
    assert (kind.actions, kind.branches, kind.first_action) == (count, (), 0)
    environment.step((np.array([[number, 0]]),))
    assert done(environment)[0].tolist() == expected


@pytest.mark.parametrize("does", ["one choice", "choice in an array", "numbers"])
def test_joint_actions_change_nothing_for_one_choice(does):
    assert the_class(does=does, joint_actions=True) == the_class(does=does)


def test_masks_of_several_choices_stand_one_after_another():
    environment, seen = opened(studio(does="several choices", masked=True, forbidden="04", mask_size=5))
    assert environment.spec.masked and environment.spec.classes[0].branches == (3, 2)
    assert seen.masks[0][0, 1].tolist() == [False, True, True, True, False]


def test_combination_is_legal_if_all_choices_are():
    _, seen = opened(studio(does="several choices", masked=True, forbidden="04", mask_size=5, joint_actions=True))
    assert seen.masks[0][0, 1].tolist() == [False, False, True, False, True, False]


@pytest.mark.parametrize("joint", [False, True])
def test_choice_without_legal_action_is_fault(joint):
    task = studio(does="several choices", masked=True, forbidden="34", mask_size=5, joint_actions=joint)
    with pytest.raises(EnvironmentFault, match="the action mask of agent 'artist_0' allows no action"):
        opened(task)


def test_a_mask_of_another_size_is_a_fault():
    with pytest.raises(EnvironmentFault, match=r"the action mask of agent 'artist_0' has shape \(6,\), not \(5,\)"):
        opened(studio(does="several choices", masked=True, mask_size=6))


def test_what_is_masked_may_be_of_any_kind():
    environment, seen = opened(studio(sees="nested", masked=True, mask_size=4))
    assert environment.spec.classes[0].observation_size == 8
    assert set(np.unique(seen.values[0])) == {0.0, 1.0}


class Unbounded(Studio):
    def action_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (2,))


class Half(Studio):
    def action_space(self, agent):
        return spaces.Box(-1, np.inf, (2,), np.float16)


class Wide(Studio):
    def action_space(self, agent):
        return spaces.Box(0, 4e38, (2,), np.float64)


class Whole(Studio):
    def action_space(self, agent):
        return spaces.Box(0, 9, (2,), np.int64)


class Worded(Studio):
    def action_space(self, agent):
        return spaces.Dict({"say": spaces.Text(4), "go": spaces.Discrete(2)})


class Many(Studio):
    def action_space(self, agent):
        return spaces.MultiBinary(11)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Unbounded", r"agent 'artist_0' acts in Box\(-inf, inf, \(2,\), float32\); supported are Discrete, .* finite"),
        ("Half", r"agent 'artist_0' acts in Box\(-1.0, inf, \(2,\), float16\); supported are .* finite in float32"),
        ("Wide", r"agent 'artist_0' acts in Box\(0.0, 4e\+38, \(2,\), float64\); supported are .* finite in float32"),
        ("Whole", r"agent 'artist_0' acts in Box\(0, 9, \(2,\), int64\); supported are"),
        ("Worded", "agent 'artist_0' acts in Dict.*; supported are"),
    ],
)
def test_unsupported_actions_are_refused_by_name(kind, message):
    with pytest.raises(Unsupported, match=message) as refused:
        adapter.make(EnvTask(name=f"pettingzoo:{__name__}:{kind}"), 1)
    assert "\n" not in str(refused.value)


def test_numbers_cannot_be_masked():
    with pytest.raises(Unsupported, match="agent 'artist_0' has an action_mask, but continuous actions"):
        adapter.make(studio(does="numbers", masked=True, mask_size=2), 1)


def test_more_than_1024_combinations_are_refused():
    task = EnvTask(name=f"pettingzoo:{__name__}:Many")
    assert len(registry.spec(task).classes[0].branches) == 11
    with pytest.raises(BadRequest, match=r"agent 'artist_0' has 2,048 combinations .* at most 1,024"):
        registry.spec(EnvTask(name=task.name, options={"joint_actions": True}))


@pytest.mark.parametrize("name", ["joint_actions", "rebuild"])
def test_a_flag_is_true_or_false(name):
    with pytest.raises(BadRequest, match=f"task.options.{name} is 'yes'; it must be true or false"):
        registry.spec(studio(**{name: "yes"}))


KINDS = [{"sees": sees} for sees in SIGHTS] + [{"does": does} for does in DEEDS]
KINDS += [{"does": does, "joint_actions": True} for does in ("several choices", "bits")]
KINDS += [
    {"does": "several choices", "masked": True, "forbidden": "04", "mask_size": 5, "joint_actions": joint}
    for joint in (False, True)
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_every_kind_keeps_every_promise(options):
    check(lambda num_envs: registry.make(studio(**options), num_envs))


UNMASKED = [options for options in KINDS if not options.get("masked")]


@pytest.mark.parametrize("options", UNMASKED, ids=str)
def test_every_kind_goes_through_both_adapters(options):
    parallel_api_test(ParallelView(registry.make(studio(**options), 1), studio(**options)), num_cycles=12)


@pytest.mark.parametrize("does", ["several choices", "numbers"])
def test_every_kind_passes_the_seed_test_of_pettingzoo(does):
    parallel_seed_test(lambda: ParallelView(registry.make(studio(does=does), 1), studio(does=does)), num_cycles=12)


def test_parallel_view_has_spaces_of_its_environment():
    task = studio(does="several choices", masked=True, mask_size=5)
    several = ParallelView(registry.make(task, 1), task)
    assert several.action_space("artist_0") == DEEDS["several choices"]
    assert several.observation_space("artist_0")["action_mask"].shape == (5,)
    numbers = ParallelView(registry.make(studio(does="numbers"), 1), studio(does="numbers"))
    assert numbers.action_space("artist_1") == DEEDS["numbers"]
    numbers.reset(seed=1)
    seen, *_ = numbers.step({"artist_0": np.array([-1, 0.1]), "artist_1": np.array([0, 0])})
    assert {*seen} == {"artist_0", "artist_1"}
