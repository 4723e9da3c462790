"""Fixed opponents of learning agents: their actions, and the independence of both."""

import numpy as np
import pytest
from drawn_policies import NUMBERS, SPEC, observed, seen_at, tensors_of
from simulated import MemoryStorage
from task_fields import changed, make_task

from marless.coordinator.config.loading import load
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.core.opponents import evaluated_side
from marless.functions import codec
from marless.functions.actor.handler import play
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest
from marless.functions.evaluator.handler import evaluate
from marless.functions.learner.handler import learn
from marless.functions.messages.actor import Behaviour, SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Origin, TaskHeader
from marless.functions.messages.learner import LearnTask
from marless.functions.messages.team import Opponents, Team
from marless.functions.nn.batched_acting import single_agent_policy
from marless.functions.policies import Policy, draws
from marless.reports.crossplay import totals
from marless.reports.policy import TeamFile, TeamPolicy

TAG = EnvTask(name="mpe/simple_tag")
EPSILON = Behaviour(kind="epsilon", amount=0.3)
ORDER = {"id": "r/000000/x", "run": "r", "round": 0, "output": "x", "timeout_s": 9.0, "seed": 1}


def team(acting=None, agents=(2,), groups=(0, 1, 2), identity=False):
    return Team(groups=groups, identity=identity, opponents=Opponents(agents=agents, acting=acting) if acting else None)


def acted(spec, who, tensors, behaviour, noisy=True, num_envs=64, masks=None):
    """The actions of agents `who` in two steps from the start."""
    policy, values = Policy(spec, who, tensors), observed(spec, 2, num_envs)
    noise, hidden, choices = draws(spec, 2, num_envs, np.random.default_rng(4)), None, []
    for t in range(2):
        now = tuple(part[t] for part in noise) if noisy else None
        choice, hidden = policy.act(seen_at(values, t, masks), now, hidden, behaviour, chance=now)
        choices.append(choice)
    return choices


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("spec", [SPEC, NUMBERS], ids=["choices", "numbers"])
@pytest.mark.parametrize("agents", [(2,), (1,), (0, 1)])
def test_drawing_opponents_act_bit_equal_to_learners(spec, recurrent, agents):
    tensors = tensors_of(spec, team(), (8,), recurrent)
    together = acted(spec, team(), tensors, Behaviour())
    for own, other in zip(acted(spec, team("drawn", agents), tensors, Behaviour()), together, strict=True):
        for field in ("actions", "log_probability", "env_actions"):
            for part, expected in zip(getattr(own, field), getattr(other, field), strict=True):
                np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("acting", ["drawn", "greedy", "random"])
def test_learners_act_the_same_whoever_plays_against_them(acting):
    """Agent 2 belongs to agent 0's class, and its network has another shape."""
    tensors, other = tensors_of(SPEC, team(), (8,)), tensors_of(SPEC, team(), (5, 7), recurrent=False)
    wider = {**{name: array for name, array in tensors.items() if "g02" not in name}}
    wider |= {name: array for name, array in other.items() if "g02" in name}
    pairs = zip(acted(SPEC, team(acting), wider, Behaviour()), acted(SPEC, team(), tensors, Behaviour()), strict=True)
    for own, undivided in pairs:
        np.testing.assert_array_equal(own.actions[0][0], undivided.actions[0][0])
        np.testing.assert_array_equal(own.actions[1], undivided.actions[1])
        np.testing.assert_array_equal(own.log_probability[0][0], undivided.log_probability[0][0])
        probable = own.log_probability[0][1]
        if acting == "random":
            np.testing.assert_allclose(probable, np.log(1 / 5), rtol=1e-6)
        assert (probable == 0).all() == (acting == "greedy")


def test_greedy_opponent_of_exploring_learners_does_not_explore():
    tensors = tensors_of(SPEC, team(), (8,), recurrent=False)
    explored, best = acted(SPEC, team("greedy"), tensors, EPSILON), acted(SPEC, team(), tensors, EPSILON, noisy=False)
    for own, greedy in zip(explored, best, strict=True):
        assert own.log_probability is None
        np.testing.assert_array_equal(own.actions[0][1], greedy.actions[0][1])
        assert (own.actions[0][0] != greedy.actions[0][0]).any()


def test_in_evaluations_opponents_with_policies_are_greedy():
    tensors = tensors_of(SPEC, team(), (8,))
    own, undivided = (acted(SPEC, who, tensors, Behaviour(), noisy=False) for who in (team("drawn"), team()))
    np.testing.assert_array_equal(own[1].actions[0], undivided[1].actions[0])


def test_random_opponent_chooses_uniformly_among_legal_actions():
    num_envs = 30_000
    masks = (np.ones((num_envs, 2, 5), bool), np.ones((num_envs, 1, 3), bool))
    masks[0][:, 1, 3] = False
    choice = acted(SPEC, team("random"), tensors_of(SPEC, team(), (8,)), Behaviour(), num_envs=num_envs, masks=masks)[0]
    counts = np.bincount(choice.actions[0][1], minlength=5)
    # Four legal actions, each with a quarter: five standard deviations of a count are 375.
    assert counts[3] == 0 and np.all(abs(np.delete(counts, 3) - num_envs / 4) < 375)


def test_a_script_draws_evenly_and_changes_no_learner():
    num_envs, tensors = 30_000, tensors_of(SPEC, team(), (8,))
    masks = (np.ones((num_envs, 2, 5), bool), np.ones((num_envs, 1, 3), bool))
    masks[0][:, 1, 0] = False
    opponents = Opponents(agents=(2,), acting="scripted", script="scripted_players:first_two")
    against = Team(groups=(0, 1, 2), opponents=opponents)
    choice = acted(SPEC, against, tensors, Behaviour(), num_envs=num_envs, masks=masks)[0]
    counts = np.bincount(choice.actions[0][1], minlength=5)
    # Actions 1 and 2, each with a half: five standard deviations of a count are 433.
    assert counts[[0, 3, 4]].sum() == 0 and abs(counts[1] - num_envs / 2) < 433
    undivided = acted(SPEC, team(), tensors, Behaviour(), num_envs=num_envs, masks=masks)[0]
    np.testing.assert_array_equal(choice.actions[0][0], undivided.actions[0][0])
    np.testing.assert_array_equal(choice.log_probability[1], undivided.log_probability[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("opponents.policies=scripted",), "mpe/simple_tag has no scripted player of its own"),
        (("opponents.policies=scripted_players:first", "task.options.continuous_actions=true"), "continuous"),
        (("opponents.policies=scripted_players:first",), ""),
    ],
)
def test_unplayable_script_is_refused_once_task_is_known(settings, message):
    config = load(None, ["task.name=mpe/simple_tag", "opponents.side=0", *settings])
    found = incompatibility(config, registry.spec(config.task))
    assert message in found and bool(found) == bool(message)


def test_random_numeric_opponent_is_uniform_within_bounds():
    choice = acted(NUMBERS, team("random"), tensors_of(NUMBERS, team(), (8,)), Behaviour(), num_envs=30_000)[0]
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 8.0])
    shares = np.sort((choice.env_actions[0][:, 1] - low) / (high - low), axis=0)
    # Kolmogorov: the largest distance stays below 1.95 / sqrt(n) in 999 of 1,000 samples.
    assert np.all(np.abs(shares - np.linspace(0, 1, len(shares))[:, None]).max(axis=0) < 1.95 / len(shares) ** 0.5)


def test_only_learners_must_match_behaviour_of_run():
    policy = Policy(NUMBERS, team("drawn", (0, 1)), tensors_of(NUMBERS, team(), (8,)))
    with pytest.raises(BadRequest, match="numbers"):
        policy.require(Behaviour(kind="noise", amount=0.1))  # the last agent draws from a Gaussian
    silent = tensors_of(NUMBERS, team(), (8,), gaussian=False)
    Policy(NUMBERS, team("drawn", (1,)), silent).require(Behaviour(kind="noise", amount=0.1))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_network_extracted_from_team_acts_unchanged(recurrent, before, after):
    """In `before` agents 0 and 2 share a network, with or without one-hots."""
    shared = team(groups=(0, 1, 0), identity=before)
    tensors, apart = tensors_of(SPEC, shared, (8,), recurrent), {}
    for agent in range(3):
        apart |= single_agent_policy(tensors, SPEC, shared, agent, after)
    own = acted(SPEC, team(identity=after), apart, Behaviour())
    for step, expected in zip(own, acted(SPEC, shared, tensors, Behaviour()), strict=True):
        for part, other in zip(step.log_probability, expected.log_probability, strict=True):
            np.testing.assert_array_equal(part, other)


def chase(prey):
    """Networks of one linear layer: chasers move towards the prey (numbers 12 and 13 of their observation), the prey
    always takes the same action."""
    tensors = {}
    for agent, features in enumerate((16, 16, 16, 14)):
        weight, bias = np.zeros((features, 5), np.float32), np.zeros(5, np.float32)
        if agent < 3:
            weight[12, [1, 2]] = weight[13, [3, 4]] = -1, 1
        else:
            bias[prey] = 1
        tensors[f"policy/g{agent:02d}/w0"], tensors[f"policy/g{agent:02d}/b0"] = weight, bias
    return tensors


def stored(blobs, key, tensors):
    blobs[key] = codec.encode(tensors, TaskHeader(task="before", origins=(Origin(round=0),)))
    return codec.reference(key, blobs[key])


@pytest.mark.parametrize(("side", "agents", "prey"), [(0, (3,), 2), (1, (0, 1, 2), 0)])
def test_evaluations_against_chance_give_what_cross_play_gives(side, agents, prey):
    """Starts and draws differ, so the means agree only within four of their standard errors."""
    spec, blobs = registry.spec(TAG), MemoryStorage()
    tensors, who = chase(prey), Team(groups=(0, 1, 2, 3))
    against = Team(groups=who.groups, opponents=Opponents(agents=agents, acting="random"))
    refs = (stored(blobs, "policies", tensors),)
    task = make_task(
        EvaluateTask,
        **ORDER,
        environment=TAG,
        side=side,
        team=against,
        policies=refs,
        stream="s",
        part=0,
        episodes=1600,
    )
    found = np.array(evaluate(task, blobs)[1].returns)
    name = ("adversary", "agent")[side]
    expected = totals(TAG, TeamPolicy(TeamFile(task=TAG, spec=spec, team=who), tensors), name, None, 1600, 9)
    error = np.hypot(found.std(), expected.std()) / 1600**0.5
    assert abs(found.mean() - expected.mean()) < 4 * error
    undivided = evaluate(changed(task, team=who), blobs)[1].returns
    assert abs(found.mean() - np.mean(undivided)) > 4 * error  # so that the first bound is meaningful


@pytest.mark.parametrize("name", ["mappo", "ippo"])
def test_recorded_opponent_probabilities_change_no_learning(name):
    spec, blobs = registry.spec(TAG), MemoryStorage()
    config = {"algorithm": name, "hyperparameters": {"hidden": [4]}, "spec": spec}
    who = Team(groups=(0, 1, 2, 3), opponents=Opponents(agents=(0, 1, 2), acting="drawn"))
    from marless.functions.learner.handler import initialise
    from marless.functions.messages.learner import InitialiseTask

    objects, _ = initialise(make_task(InitialiseTask, **ORDER, **config, team=Team(groups=(0, 1, 2, 3))), blobs)
    state = {key: array for _, tensors, _ in objects for key, array in tensors.items()}
    sampling = make_task(
        SampleTask, **ORDER, environment=TAG, team=who, policies=(), rollouts=(0,), num_envs=4, rollout_length=25
    )
    played = play(sampling, state, 0).trajectories

    def learned(trajectory):
        task = make_task(LearnTask,
            **ORDER, **config, team=who, stages=("postprocess", "critic", "policy"), groups=who.learning, rollouts=(0,),
            trajectories=(stored(blobs, "t", trajectory),), state=(stored(blobs, "s", state),),
        )  # fmt: skip
        return {key: array for _, tensors, _ in learn(task, blobs)[0] for key, array in tensors.items()}

    index, place = spec.class_of[0], f"u00000/log_probability/{spec.class_of[0]}"
    assert spec.classes[index].agents == (0, 1, 2)
    scrambled, expected = learned({**played, place: played[place] - 3}), learned(played)
    assert scrambled.keys() == expected.keys() and {key.split("/")[1] for key in expected} == {"g03"}
    assert all(np.array_equal(scrambled[key], expected[key]) for key in expected)
    own = f"u00000/log_probability/{spec.class_of[3]}"
    moved = learned({**played, own: played[own] - 3})
    assert any(not np.array_equal(moved[key], expected[key]) for key in expected)


def test_run_is_evaluated_by_learning_side():
    spec = registry.spec(TAG)
    for settings, name in (((), "adversary"), (("opponents.side=0",), "agent"), (("opponents.side=1",), "adversary")):
        assert evaluated_side(load(None, ["task.name=mpe/simple_tag", *settings]), spec).name == name


def test_policies_that_were_not_brought_are_missed():
    config = load(None, ["task.name=mpe/simple_tag", "opponents.side=0", "opponents.policies=first"])
    assert "begun without them" in incompatibility(config, registry.spec(TAG))
