"""In games of turns, policies that carry a state between steps choose the same as in training, or refuse."""

import msgspec
import numpy as np
import pytest
import random_turns
from challenges import Challenge, challenge
from drawn_policies import tensors_of
from exported_players import exported
from pettingzoo.classic import tictactoe_v3

from marless.coordinator.errors import UserError
from marless.environments import as_pettingzoo
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo.spaces import JOINT_LIMIT
from marless.functions.evaluator.handler import play
from marless.functions.messages.team import Opponents, Team
from marless.functions.policies import Policy
from marless.reports.policy import TeamFile, TeamPolicy, export, load_policy
from marless.testing.environments import check

SEED = 5
TICTACTOE = EnvTask(name="pettingzoo:pettingzoo.classic.tictactoe_v3:env", options={"horizon": 9})
# Rounds with expelled players. The masks of waiting players mislead.
GAMES = {
    "tictactoe": (TICTACTOE, tictactoe_v3.env),
    "leaving at once": (challenge(limit=20), lambda: Challenge(limit=20)),
    "leaving in turn": (challenge(limit=20, leaving="in turn"), lambda: Challenge(limit=20, leaving="in turn")),
    "masks beside": (challenge(limit=20, masks="info"), lambda: Challenge(limit=20, masks="info")),
}
QUICK = range(0, 200, 25)
SLOW = [number for number in range(200) if number not in QUICK]
CARRIED = {"recurrent": (True, False), "last action": (False, True), "both": (True, True)}


class Case:
    def __init__(self, game, recurrent, last_action, seed=0, opponents=None):
        task, self.make = GAMES[game] if isinstance(game, str) else game
        self.task = msgspec.structs.replace(task, last_action=last_action)
        self.environment = registry.make(self.task, 1)
        spec = self.environment.spec
        self.team = Team(groups=tuple(range(len(spec.agents))), opponents=opponents)
        self.tensors = tensors_of(spec, self.team, (8, 8), recurrent=recurrent, seed=seed)
        self.header = TeamFile(task=self.task, spec=spec, team=self.team)
        self.policy = TeamPolicy(self.header, self.tensors)

    def by_the_evaluator(self):
        """Return the actions of all agents in every turn."""
        played, step = [], self.environment.step
        self.environment.step = lambda actions: played.append(actions[0][0].tolist()) or step(actions)
        play(self.environment, Policy(self.environment.spec, self.team, self.tensors), self.rng(), True, 1)
        return played

    def by_turns(self, player, given):
        """Return the actors and actions in a game of PettingZoo itself. `given` says what the player receives."""
        game, done = self.make(), []
        # The first number that the adapter draws.
        game.reset(seed=int(self.rng().integers(2**31)))
        player.start()
        for agent in game.agent_iter():
            if game.terminations[agent] or game.truncations[agent]:
                game.step(None)
                continue
            masks = {one: info["action_mask"] for one, info in game.infos.items() if "action_mask" in info}
            living = [one for one in game.agents if not game.terminations[one]]
            action = player.act(*given(game, agent, living, masks))[agent]
            done.append((agent, action))
            game.step(action)
        return done

    def by_the_view(self, player):
        environment, done = as_pettingzoo(self.task), []
        seen, _ = environment.reset(seed=SEED)
        player.start()
        while environment.agents:
            # An agent that was thrown out sees that it was.
            chosen = player.act(seen)
            done.append({agent: chosen[agent] for agent in environment.agents})
            seen, *_ = environment.step(chosen)
        return done

    def rng(self):
        return np.random.default_rng(SEED)


def everybody(game, agent, living, masks):
    return {one: game.observe(one) for one in living}, masks, None, agent


def everybody_of_an_export(game, agent, living, masks):
    return {one: game.observe(one) for one in living}, masks, agent


def who_acts(game, agent, living, masks):
    return {agent: game.observe(agent)}, masks


def require_equal(done, played, agents):
    assert len(done) == len(played)
    for (agent, action), all_of_them in zip(done, played, strict=True):
        assert action == all_of_them[agents.index(agent)]


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED)
@pytest.mark.parametrize("game", GAMES)
def test_policies_given_every_turn_choose_as_trained(tmp_path, game, carried):
    for seed in range(3):
        case = Case(game, *carried, seed=seed)
        played, agents = case.by_the_evaluator(), case.policy.agents
        require_equal(case.by_turns(case.policy, everybody), played, agents)
        for turn, chosen in enumerate(case.by_the_view(case.policy)):
            assert chosen == {agent: played[turn][agents.index(agent)] for agent in chosen}
    path = tmp_path / "policies.safetensors"
    path.write_bytes(export(case.header, case.tensors))
    player = exported(load_policy(path), "onnx" if all(carried) else "safetensors", tmp_path / "exported")
    require_equal(case.by_turns(player, everybody_of_an_export), played, agents)


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED)
@pytest.mark.parametrize("game", GAMES)
def test_policies_that_are_given_only_who_acts_refuse(game, carried):
    case = Case(game, *carried)
    with pytest.raises(UserError, match="is missing: these policies remember every turn, also while") as refused:
        case.by_turns(case.policy, who_acts)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("game", GAMES)
def test_policies_that_carry_nothing_need_only_who_acts(game):
    case = Case(game, recurrent=False, last_action=False)
    require_equal(case.by_turns(case.policy, who_acts), case.by_the_evaluator(), case.policy.agents)
    require_equal(case.by_turns(case.policy, everybody), case.by_the_evaluator(), case.policy.agents)


A, B = "player_1", "player_2"
BOARD = np.zeros((3, 3, 2), np.int8)
ALL, FIRST = np.ones(9, np.int8), np.eye(9, dtype=np.int8)[0]


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([((A, ALL), (B, ALL), None)], r"more than one agent has a choice .*: say whose turn it is, as in act\("),
        ([((A, ALL), (B, ALL), "x")], r"it is the turn of agent 'x'; there are 'player_1', 'player_2'"),
        ([((A, ALL), B)], "it is the turn of agent 'player_2', whose observation is missing"),
        ([((A, ALL), (B, 0 * ALL), None)], "mask of agent 'player_2' allows no action: say whose turn it is, as in"),
        ([((A, ALL), (B, ALL), A), ((A, ALL), A), ((A, ALL), (B, ALL), B)], "'player_2' is back after a turn without"),
    ],
)
def test_ambiguous_turn_is_refused_in_one_line(calls, message):
    policy = Case("tictactoe", recurrent=True, last_action=False).policy

    def play_all():
        for *given, turn in calls:
            policy.act({agent: BOARD for agent, _ in given}, dict(given), turn=turn)

    with pytest.raises(UserError, match=message) as refused:
        play_all()
    assert "\n" not in str(refused.value)


def test_policy_against_agents_without_policy_learns_turns():
    opponents = Opponents(agents=(1,), acting="random")
    case = Case("tictactoe", recurrent=True, last_action=False, opponents=opponents)
    for turn in (A, B, A):
        case.policy.act({A: BOARD}, turn=turn)
    case.policy.start()
    # Like a loop that leaves out the other's turns.
    case.policy.act({A: BOARD})
    with pytest.raises(UserError, match="'player_1' has a choice twice in a row, maybe without the turns between"):
        case.policy.act({A: BOARD})


def test_simultaneous_agents_have_no_turns():
    task = EnvTask(name="mpe/simple_spread")
    spec = registry.spec(task)
    team = Team(groups=(0, 1, 2))
    policy = TeamPolicy(TeamFile(task=task, spec=spec, team=team), tensors_of(spec, team, (8, 8)))
    with pytest.raises(UserError, match="it is nobody's turn, also not that of 'agent_0': agents of this task act at"):
        policy.act({"agent_0": np.zeros(18)}, turn="agent_0")


def test_turn_environment_gives_one_agent_a_choice():
    class AllAtOnce:
        def __init__(self, num_envs):
            self.inner, self.num_envs = (
                registry.make(EnvTask(name="toy/signal", options={"masked": True}), num_envs),
                num_envs,
            )
            self.spec = msgspec.structs.replace(self.inner.spec, turns=True)
            self.reset, self.step, self.close = self.inner.reset, self.inner.step, self.inner.close

    with pytest.raises(AssertionError, match="masks give two agents a choice in one step, although spec"):
        check(AllAtOnce)


def random_case(number):
    rng = np.random.default_rng([78, number])
    recurrent, last_action = list(CARRIED.values())[rng.integers(3)]
    game = random_turns.Game(number)
    few = all(np.prod(game.mask_sizes(agent)) <= JOINT_LIMIT for agent in game.possible_agents)
    options = {"number": number} | ({"joint_actions": True} if few and rng.random() < 0.3 else {})
    task = EnvTask(name="pettingzoo:random_turns:Game", options=options)
    return Case((task, lambda: random_turns.Game(number)), recurrent, last_action, seed=number)


def require_one_choice(number, folder):
    case, done = random_case(number), random_turns.DONE
    done.clear()
    case.by_the_evaluator()
    expected = repr(done)
    path = folder / "policies.safetensors"
    path.write_bytes(export(case.header, case.tensors))
    player = exported(load_policy(path), "safetensors", folder / "exported")
    for play_all in (
        lambda: case.by_turns(case.policy, everybody),
        lambda: case.by_the_view(case.policy),
        lambda: case.by_turns(player, everybody_of_an_export),
        lambda: case.by_the_view(player),
    ):
        done.clear()
        play_all()
        assert repr(done) == expected


@pytest.mark.parametrize("number", QUICK)
def test_all_players_of_turn_game_choose_same_actions(tmp_path, number):
    require_one_choice(number, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("number", SLOW)
def test_all_players_of_200_turn_games_agree(tmp_path, number):
    require_one_choice(number, tmp_path)
