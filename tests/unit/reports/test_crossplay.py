"""One side against the other: returns worked out by hand, and agreement with the evaluator."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, Observation, Step
from marless.functions.evaluator.handler import play as evaluate
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.functions.randomness import generator
from marless.reports.crossplay import _Match, members, scores, sides, totals
from marless.reports.policy import TeamFile, TeamPolicy, scripted_policy

MIXED = EnvTask(name="toy/signal", options={"mixed": True})
ADVERSARY = EnvTask(name="mpe/simple_adversary", agents=3)


def play(task, team, side, opponent, episodes, seed):
    """The mean return over the agents of the side, by episode."""
    return totals(task, team, side, opponent, episodes, seed) / len(members(task, side))


def a_team(task, networks, identity=False):
    """One linear layer for every agent: `networks[i]` gives its weights ``[features, actions]``."""
    spec = registry.spec(task)
    team = Team(groups=tuple(range(len(spec.agents))), identity=identity)
    tensors = {}
    for agent, weight in enumerate(networks):
        tensors[f"policy/g{agent:02d}/w0"] = np.asarray(weight, np.float32)
        tensors[f"policy/g{agent:02d}/b0"] = np.zeros(np.shape(weight)[1], np.float32)
    return TeamPolicy(TeamFile(task=task, spec=spec, team=team), tensors), Policy(spec, team, tensors)


def random_team(task, seed):
    rng, spec = np.random.default_rng(seed), registry.spec(task)
    kinds = [spec.classes[index] for index in spec.class_of]
    return a_team(task, [rng.normal(size=(kind.observation_size, kind.actions)) for kind in kinds])


def test_the_sides_are_the_classes_of_agents():
    assert sides(ADVERSARY) == ("adversary", "agent")
    with pytest.raises(ValueError, match="no opponents to play against"):
        sides(EnvTask(name="toy/signal"))


def test_team_against_itself_equals_evaluator():
    own, policy = random_team(ADVERSARY, 1)
    environment = registry.make(ADVERSARY, 160)
    expected = evaluate(environment, policy, generator(5, "crossplay", 0, "environment"), True, 160).agent_returns()
    assert play(ADVERSARY, own, "adversary", own, 160, 5) == pytest.approx(expected[:, 0], abs=1e-9)
    assert play(ADVERSARY, own, "agent", own, 160, 5) == pytest.approx(expected[:, 1:].mean(axis=1), abs=1e-9)


def perfect(task=MIXED):
    """Agents of toy/signal that always name the sign they see."""
    return a_team(task, [np.eye(3), np.eye(4)])[0]


def test_perfect_sides_get_full_return():
    # Both answer right in all 5 steps.
    assert play(MIXED, perfect(), "signal3", perfect(), 200, 1).tolist() == [5.0] * 200


@pytest.mark.parametrize(("masked", "chance"), [(False, 1 / 4), (True, 1 / 3)])
def test_random_opponents_draw_evenly_from_what_is_legal(masked, chance):
    task = EnvTask(name="toy/signal", options={"mixed": True, "masked": masked})
    # In five steps this side is right, and the other side, with four values, by chance.
    found = play(task, perfect(task), "signal3", None, 6400, 1)
    assert found.mean() == pytest.approx(5 * (1 + chance) / 2, abs=0.03)


def test_script_plays_side_and_draws_its_choices():
    perfect_script = scripted_policy(MIXED, "scripted_players:by_sign")
    assert play(MIXED, perfect(), "signal3", perfect_script, 200, 1).tolist() == [5.0] * 200
    assert play(MIXED, perfect_script, "signal3", perfect(), 200, 1).tolist() == [5.0] * 200
    # The other side has four values. It is right in half of the cases with one of the first two values.
    two = scripted_policy(MIXED, "scripted_players:first_two")
    found = play(MIXED, perfect(), "signal3", two, 6400, 1)
    assert found.mean() == pytest.approx(5 * (1 + 1 / 4) / 2, abs=0.03)
    assert set(np.unique(found)) > {2.5, 3.0}


def test_only_other_side_decides_what_side_meets():
    spoiled = a_team(MIXED, [np.zeros((3, 3)), np.eye(4)])[0]
    assert play(MIXED, perfect(), "signal3", spoiled, 160, 1).tolist() == [5.0] * 160
    assert play(MIXED, spoiled, "signal3", perfect(), 160, 1).mean() < 4.0


def test_random_opponents_and_starts_are_same_for_everyone():
    ones = [play(ADVERSARY, random_team(ADVERSARY, 1)[0], "adversary", None, 40, 3) for _ in range(2)]
    assert np.array_equal(*ones)
    assert not np.array_equal(ones[0], play(ADVERSARY, random_team(ADVERSARY, 1)[0], "adversary", None, 40, 4))
    more = play(ADVERSARY, random_team(ADVERSARY, 1)[0], "adversary", None, 200, 3)
    assert len(more) == 200 and np.array_equal(more[:40], ones[0])


def test_scores_name_each_side_and_its_opponents():
    own, reference = random_team(ADVERSARY, 1)[0], random_team(ADVERSARY, 2)[0]
    found = scores(own, reference, 64, 9)
    assert list(found) == [
        "adversary against random",
        "adversary against reference",
        "agent against random",
        "agent against reference",
    ]
    assert found["agent against reference"] == play(ADVERSARY, own, "agent", reference, 64, 9).mean()
    assert list(scores(own, None, 64, 9)) == ["adversary against random", "agent against random"]


def test_what_cannot_be_played_is_refused():
    own, other = random_team(ADVERSARY, 1)[0], random_team(EnvTask(name="mpe/simple_adversary", agents=4), 1)[0]
    with pytest.raises(ValueError, match="there is no side team; there are adversary, agent"):
        play(ADVERSARY, own, "team", None, 4, 1)
    with pytest.raises(ValueError, match="cannot play mpe/simple_adversary with other agents"):
        play(ADVERSARY, own, "agent", other, 4, 1)


def test_policies_with_identities_get_the_acting_agent():
    # One layer, where only the identity's rows are nonzero: agent 1 always takes action 3.
    spec = registry.spec(ADVERSARY)
    kinds = [spec.classes[index] for index in spec.class_of]
    networks = [np.zeros((kind.observation_size + 3, kind.actions)) for kind in kinds]
    for agent, network in enumerate(networks):
        network[-3 + agent, agent + 2] = 1.0
    own, policy = a_team(ADVERSARY, networks, identity=True)
    environment = registry.make(ADVERSARY, 160)
    expected = evaluate(environment, policy, generator(5, "crossplay", 0, "environment"), True, 160).agent_returns()
    assert play(ADVERSARY, own, "agent", own, 160, 5) == pytest.approx(expected[:, 1:].mean(axis=1), abs=1e-9)


DUEL = EnvTask(name="toy/duel")


def test_a_side_of_several_classes_plays_as_one():
    chase = EnvTask(name="mpe/simple_world_comm")
    assert sides(chase) == ("leadadversary+adversary", "agent")
    own, policy = random_team(chase, 1)
    environment = registry.make(chase, 160)
    expected = evaluate(environment, policy, generator(5, "crossplay", 0, "environment"), True, 160).agent_returns()
    found = totals(chase, own, "leadadversary+adversary", own, 160, 5)
    assert found == pytest.approx(expected[:, :4].sum(axis=1), abs=1e-9)
    assert play(chase, own, "agent", own, 160, 5) == pytest.approx(expected[:, 4:].mean(axis=1), abs=1e-9)


SIDES = {"red": 0, "blue": 1}


class Duel:
    """Two agents of one class on different sides: each gets the number of its action."""

    def __init__(self, num_envs):
        kind = AgentClass("all", (0, 1), observation_size=3, actions=3)
        self.spec = EnvSpec(agents=("red_0", "blue_0"), classes=(kind,), horizon=1, sides=(0, 1))
        self.num_envs = num_envs

    def reset(self, rng):
        return Observation((np.ones((self.num_envs, 2, 3), np.float32),), np.ones((self.num_envs, 2), bool))

    def step(self, actions):
        seen, ended = self.reset(None), np.ones(self.num_envs, bool)
        return Step(seen, actions[0].astype(float), np.ones((self.num_envs, 2), bool), ~ended, ended, seen)

    def close(self):
        pass


def test_same_class_on_two_sides_acts_by_team():
    spec = Duel(1).spec
    always = {}
    for action in range(3):
        tensors = {f"policy/g{agent:02d}/w0": np.zeros((3, 3), np.float32) for agent in range(2)}
        tensors |= {f"policy/g{agent:02d}/b0": np.eye(3, dtype=np.float32)[action] for agent in range(2)}
        always[action] = TeamPolicy(TeamFile(task=DUEL, spec=spec, team=Team(groups=(0, 1))), tensors)
    for own, other, side, gets in ((2, 1, "red", 2), (2, 1, "blue", 2), (0, 2, "red", 0)):
        match = _Match(Duel(5), always[own], side, always[other], np.random.default_rng(0))
        assert match.play(np.random.default_rng(0), 5)[:, SIDES[side]].tolist() == [gets] * 5
    # Against random play, the other side's draws do not change the team's side.
    match = _Match(Duel(5), always[1], "blue", None, np.random.default_rng(0))
    assert match.play(np.random.default_rng(0), 5)[:, SIDES["blue"]].tolist() == [1.0] * 5
    match = _Match(Duel(3000), None, "red", always[1], np.random.default_rng(0))
    drawn = match.play(np.random.default_rng(0), 3000)[:, SIDES["red"]]
    counts = np.bincount(drawn.astype(int), minlength=3)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize("greedy", [False, True])
def test_stochastic_policies_draw_actions_on_request(greedy):
    """Red's logits give 1/6, 2/6 and 3/6. The networks of value methods have no distribution."""
    tensors = {f"policy/g{agent:02d}/w0": np.zeros((3, 3), np.float32) for agent in range(2)}
    tensors |= {f"policy/g{agent:02d}/b0": np.log([1, 2, 3]).astype(np.float32) for agent in range(2)}
    team = TeamPolicy(TeamFile(task=DUEL, spec=Duel(1).spec, team=Team(groups=(0, 1)), greedy=greedy), tensors)
    match = _Match(Duel(6000), team, "red", team, np.random.default_rng(0))
    match.draw_actions(np.random.default_rng(1))
    played = match.play(np.random.default_rng(0), 6000).astype(int)
    for side in SIDES.values():
        counts = np.bincount(played[:, side], minlength=3)
        expected = [0, 0, 6000] if greedy else [1000, 2000, 3000]
        assert np.abs(counts - expected).max() < 5 * np.sqrt(6000 / 4)
    assert greedy or 0 < (played[:, 0] == played[:, 1]).mean() < 0.5
