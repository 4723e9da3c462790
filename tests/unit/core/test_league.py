"""Leagues: the pairings, the ratings by hand, and the contents of a match's rollout."""

import msgspec
import numpy as np
import pytest
from task_fields import make_task

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError, League
from marless.coordinator.core import league_matches
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.core.league_matches import Checkpoint, LeagueState
from marless.coordinator.core.opponents import scripted_team
from marless.coordinator.core.sides import sides_of
from marless.coordinator.rules.league import LEAGUE_RULES, probabilities
from marless.functions.actor.handler import play, play_match
from marless.functions.actor.match import mean_score
from marless.functions.algorithms.ppo import mappo
from marless.functions.algorithms.ppo.specs import MappoConfig
from marless.functions.data.batch import join
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.messages.actor import Match, SampleReply, SampleTask
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team

TAG = EnvTask(name="mpe/simple_tag")
SPEC = registry.spec(TAG)
TEAM = Team(groups=(0, 0, 0, 3))
LEAGUE = ("task.name=mpe/simple_tag", "league.rule=uniform", "actors.rollouts=4")
PREDATORS, PREY = sides_of(SPEC)


def ref(round_):
    return (Ref(key=f"rounds/{round_}", sha256="", size=1),)


def checkpoint(round_, ratings=(1200.0, 1200.0), scores=(0.5, 0.5)):
    return Checkpoint(round=round_, team=TEAM, policies=ref(round_), ratings=ratings, scores=scores)


def state(*checkpoints, ratings=(1200.0, 1200.0), interval=10):
    return LeagueState(interval=interval, checkpoints=checkpoints, ratings=ratings)


def reply(catches, score=None, episodes=2):
    """A rollout with so many catches an episode: each gives 10 to each of three predators and costs the prey 10."""
    total = 10.0 * catches * episodes
    returns = (20.0 * catches,) * episodes
    return SampleReply(env_steps=1, score=score, returns=returns, agent_returns=((total, total, total, -total),))


def test_weights_of_opponents_by_hand():
    """A policy that wins all, half and none of its games: (1 - p)^2 is 0, 1/4 and 1, of 5/4 in all."""
    scores = np.array([1.0, 0.5, 0.0])
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["prioritised"], scores), [0, 0.2, 0.8])
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["uniform"], scores), [1 / 3] * 3)
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["prioritised"], np.ones(2)), [0.5, 0.5])


def test_share_of_rollouts_plays_checkpoints_after_first():
    config, checkpoints = load(None, LEAGUE), state(checkpoint(0), checkpoint(10))
    assert league_matches.matches(config, SPEC, None, 0, 4) == {}
    for round_ in range(20):
        assert sorted(league_matches.matches(config, SPEC, checkpoints, round_, 4)) == [2, 3]
    all_but_one = load(None, [*LEAGUE, "league.share=1"])
    assert sorted(league_matches.matches(all_but_one, SPEC, checkpoints, 0, 4)) == [1, 2, 3]
    assert league_matches.matches(all_but_one, SPEC, checkpoints, 0, 1) == {}


def test_sides_take_turns_and_every_checkpoint_is_met():
    config, checkpoints = load(None, [*LEAGUE, "actors.rollouts=2"]), state(checkpoint(0), checkpoint(10))
    drawn = [league_matches.matches(config, SPEC, checkpoints, round_, 2)[1] for round_ in range(200)]
    assert [side.number for side, _ in drawn] == [1, 0] * 100
    met = sum(position for _, position in drawn)
    assert 60 < met < 140  # binomial: 100 on average, standard deviation 7
    assert drawn == [league_matches.matches(config, SPEC, checkpoints, round_, 2)[1] for round_ in range(200)]


def test_ratings_by_hand():
    """The newest predators catch the checkpoint's prey 5 times and the newest prey 2 times, in as many rounds. So the
    newest prey beat the checkpoint's prey. Half a win is expected between equal ratings: a win gives 16 / 2 points."""
    league = state(checkpoint(0), checkpoint(10))
    found = league_matches.rate(league, {1: (PREDATORS, 0)}, [reply(2), reply(5, 1.0, episodes=3)])
    assert found.ratings == (1200.0, 1208.0)
    assert found.checkpoints[0].scores == (pytest.approx(0.6), 0.5)
    # The newest prey are caught once by the checkpoint's predators: the newest predators win.
    found = league_matches.rate(league, {1: (PREY, 0)}, [reply(2), reply(1, 0.0)])
    assert found.ratings == (1208.0, 1200.0) and found.checkpoints[0].scores == (0.5, pytest.approx(0.4))
    # 400 points ahead, 10 of 11 wins are expected: a draw costs 16 * (10/11 - 1/2).
    ahead = state(checkpoint(0), ratings=(1600.0, 1200.0))
    found = league_matches.rate(ahead, {1: (PREY, 0)}, [reply(2), reply(2, 0.0)])
    assert found.ratings == (pytest.approx(1600 - 16 * (10 / 11 - 0.5)), 1200.0)


def test_better_paid_side_has_ordinary_ratings():
    """The predators have the higher return in every episode. Both sides get better from checkpoint to checkpoint."""
    found = state(checkpoint(0), checkpoint(10))
    for _ in range(9):
        both = {1: (PREDATORS, 0), 2: (PREY, 0)}
        found = league_matches.rate(found, both, [reply(3), reply(5, 1.0), reply(1, 0.0)])
    predators, prey = found.ratings
    assert predators == prey > 1250


def test_scores_stay_with_single_checkpoint():
    found = league_matches.rate(state(checkpoint(0)), {1: (PREY, 0)}, [reply(2), reply(1, 0.0)])
    assert found.checkpoints == (checkpoint(0),) and found.ratings == (1208.0, 1200.0)


def test_rollout_without_finished_episode_is_no_match():
    league, none = state(checkpoint(0), checkpoint(10)), SampleReply(env_steps=1)
    assert league_matches.rate(league, {1: (PREY, 0)}, [reply(2), none]) == league
    assert league_matches.rate(league, {1: (PREY, 0)}, [none, reply(2, 0.0)]).ratings == league.ratings


def test_state_of_earlier_version_is_readable():
    """Before, the league stored the advantages of the sides."""
    text = msgspec.json.encode(msgspec.to_builtins(state(checkpoint(0))) | {"advantages": [1.0, -1.0], "opening": []})
    assert msgspec.json.decode(text, type=LeagueState) == state(checkpoint(0))


def test_a_full_league_stays_spread_over_the_run():
    found, settings = state(checkpoint(0), interval=1), League(rule="uniform", every=1, size=4)
    for round_ in range(1, 33):
        found = league_matches.add_checkpoint(settings, found, round_, TEAM, ref(round_))
        assert len(found.checkpoints) <= 4
    assert [one.round for one in found.checkpoints] == [0, 16, 32] and found.interval == 16


SCRIPT = "scripted_players:first"
SCRIPTED = Checkpoint(round=0, team=scripted_team(4, SCRIPT), policies=(), ratings=(1200.0, 1200.0), scores=(0.5, 0.5))


def test_scripted_player_stays_in_league_from_start():
    config = load(None, [*LEAGUE, f"league.script={SCRIPT}", "league.every=1", "league.size=4"])
    found = league_matches.first(config, SPEC, TEAM, ref(0))
    assert found.checkpoints == (SCRIPTED, checkpoint(0))
    for round_ in range(1, 33):
        found = league_matches.add_checkpoint(config.league, found, round_, TEAM, ref(round_))
    assert [one.round for one in found.checkpoints] == [0, 0, 16, 32] and found.checkpoints[0] == SCRIPTED


def test_scripted_player_changes_score_but_no_rating():
    league = state(SCRIPTED, checkpoint(0), checkpoint(10))
    found = league_matches.rate(league, {1: (PREY, 0)}, [reply(2), reply(1, 1.0)])
    assert found.ratings == (1200.0, 1200.0) and found.checkpoints[0].scores == (0.5, pytest.approx(0.6))
    named = league_matches.metrics(SPEC, found)
    assert named["league/scripted/agent"] == pytest.approx(0.6) and named["league/score/agent"] == 0.5
    assert named["league/checkpoints"] == 2


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (("opponents.side=0",), "opponents.side"),
        (("placement.rule=whole",), "placement.rule=whole"),
        (("actors.rollouts=1",), "actors.rollouts"),
        (("league.rule=best",), "league"),
        (("league.rule=none", f"league.script={SCRIPT}"), "league.script: there is no league"),
    ],
)
def test_what_a_league_excludes_is_refused(settings, word):
    with pytest.raises(ConfigError, match=word):
        load(None, [*LEAGUE, *settings])


def test_league_without_named_player_is_refused():
    config = load(None, [*LEAGUE, "league.script=scripted"])
    assert incompatibility(config, SPEC).startswith("league.script=scripted: mpe/simple_tag has no scripted player")


def test_a_task_without_sides_has_no_league():
    spread = load(None, ["league.rule=uniform", "actors.rollouts=2"])
    assert "one side" in incompatibility(spread, registry.spec(spread.task))


def test_score_is_share_of_better_episodes():
    """The predators' sums are 3, 0 and -1, the prey's 1, 0 and 2: a win, a draw and a loss."""
    returns = [np.array([[1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0]]), np.array([[-1.0, 0, 0, 2.0]])]
    assert mean_score(Match(agents=(0, 1, 2), team=TEAM), returns) == 0.5
    assert mean_score(Match(agents=(0, 1, 2), team=TEAM), returns[:1]) == 0.75
    assert mean_score(Match(agents=(0, 1, 2), team=TEAM), [np.empty((0, 4))]) is None


def policies(seed, team=TEAM):
    config, tensors = MappoConfig(hidden=(8,)), {}
    for group in sorted({*team.groups}):
        tensors |= mappo.initialise(SPEC, team, config, seed, group)
    return {name: array for name, array in tensors.items() if name.startswith("policy/")}


def sampled(match=None, earlier=None):
    """A rollout of the policies of seed 1, in a match against the `earlier` policies."""
    task = make_task(SampleTask,
        id="r/000000/x", run="r", round=0, output="x", timeout_s=9.0, seed=1, environment=TAG, team=TEAM,
        policies=(), rollouts=(2,), num_envs=8, rollout_length=25, match=match,
    )  # fmt: skip
    return play(task, policies(1), 0) if match is None else play_match(task, match, policies(1), earlier)


@pytest.mark.parametrize("agents", [(0, 1, 2), (3,)])
def test_side_against_own_policies_plays_as_without_match(agents):
    alone, _, _ = sampled()
    found, reply, _ = sampled(Match(agents=agents, team=TEAM), policies(1))
    assert (found.pop("u00002/earlier") == [agent not in agents for agent in range(4)]).all()
    assert found.keys() == alone.keys() and 0 <= reply.score <= 1
    for name, array in alone.items():
        np.testing.assert_array_equal(found[name], array, name)


def test_a_checkpoint_may_have_other_groups_and_inputs():
    """The earlier team had separate networks without one-hots. The newest team has both."""
    team = Team(groups=(0, 1, 2, 3))
    match, earlier = Match(agents=(3,), team=team), policies(5, team)
    found, *_ = sampled(match, earlier)
    changed, *_ = sampled(match, {**earlier, "policy/g01/b1": earlier["policy/g01/b1"] + 1})
    assert any((found[name] != changed[name]).any() for name in found)
    unused, *_ = sampled(match, {**earlier, "policy/g03/b1": earlier["policy/g03/b1"] + 1})
    assert all((found[name] == unused[name]).all() for name in found)


def test_only_one_side_learns_against_script():
    found, reply, _ = sampled(Match(agents=(3,), team=SCRIPTED.team), {})
    batch, alone = join(SPEC, found, [2]), join(SPEC, sampled()[0], [2])
    assert not batch.alive[:3].any() and batch.alive[3].all() and 0 <= reply.score <= 1
    assert all((batch.of(batch.actions, agent) == 0).all() for agent in range(3))  # the first of all legal actions
    assert (batch.of(batch.observations, 3) != alone.of(alone.observations, 3)).any()


def test_rows_of_earlier_policies_reach_only_critics():
    tensors, *_ = sampled(Match(agents=(3,), team=TEAM), policies(2))
    batch = join(SPEC, tensors, [2])
    assert not batch.alive[:3].any() and batch.alive[3].all()
    assert np.abs(batch.state).sum() > np.abs(batch.of(batch.observations, 3)).sum() > 0


def test_metrics_name_the_sides():
    checkpoints = state(checkpoint(0, scores=(0.5, 0.25)), checkpoint(10, scores=(1.0, 0.75)), ratings=(1300.0, 1100.0))
    assert league_matches.metrics(SPEC, checkpoints) == {
        "league/checkpoints": 2,
        "league/elo/adversary": 1300,
        "league/score/adversary": 0.75,
        "league/elo/agent": 1100,
        "league/score/agent": 0.5,
    }
    assert league_matches.metrics(SPEC, None) == {}


def test_a_run_without_a_league_has_none():
    config = load(None, ["task.name=mpe/simple_tag"])
    assert league_matches.first(config, SPEC, TEAM, ref(0)) is None
    first = league_matches.first(load(None, LEAGUE), SPEC, TEAM, ref(0))
    assert first == state(checkpoint(0))
