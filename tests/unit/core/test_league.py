"""Leagues: who plays whom, the ratings by hand, and what a rollout of a match holds."""

import numpy as np
import pytest
from msgspec.structs import replace
from task_fields import make_task

from coordinator.config.loading import load
from coordinator.config.schema import ConfigError, League
from coordinator.core import league_matches
from coordinator.core.compatibility import incompatibility
from coordinator.core.league_matches import Checkpoint, LeagueState
from coordinator.core.opponents import scripted_team
from coordinator.core.sides import sides_of
from coordinator.rules.league import LEAGUE_RULES, probabilities
from functions.actor.handler import play, play_match
from functions.actor.match import mean_score
from functions.algorithms.ppo import mappo
from functions.algorithms.ppo.specs import MappoConfig
from functions.data.batch import join
from functions.environments import registry
from functions.environments.base import EnvTask
from functions.messages.actor import Match, SampleReply, SampleTask
from functions.messages.message import Ref
from functions.messages.team import Team

TAG = EnvTask(name="mpe/simple_tag")
SPEC = registry.spec(TAG)
TEAM = Team(groups=(0, 0, 0, 3))
LEAGUE = ("task.name=mpe/simple_tag", "league.rule=uniform", "scaling.rollouts=4")
PREDATORS, PREY = sides_of(SPEC)


def ref(round_):
    return (Ref(key=f"rounds/{round_}", sha256="", size=1),)


def checkpoint(round_, ratings=(1200.0, 1200.0), scores=(0.5, 0.5)):
    return Checkpoint(round=round_, team=TEAM, policies=ref(round_), ratings=ratings, scores=scores)


def state(*checkpoints, advantages=(0.0, 0.0), ratings=(1200.0, 1200.0), interval=10):
    return LeagueState(interval=interval, checkpoints=checkpoints, ratings=ratings, advantages=advantages)


def replies(*scores):
    return [SampleReply(env_steps=1, score=score) for score in scores]


def test_weights_of_opponents_by_hand():
    """A policy that wins all, half and none of its games: (1 - p)^2 is 0, 1/4 and 1, of 5/4 in all."""
    scores = np.array([1.0, 0.5, 0.0])
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["prioritised"], scores), [0, 0.2, 0.8])
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["uniform"], scores), [1 / 3] * 3)
    np.testing.assert_allclose(probabilities(LEAGUE_RULES["prioritised"], np.ones(2)), [0.5, 0.5])


def test_a_share_of_the_rollouts_is_played_against_checkpoints_and_the_first_never():
    config, checkpoints = load(None, LEAGUE), state(checkpoint(0), checkpoint(10))
    assert league_matches.matches(config, SPEC, None, 0, 4) == {}
    for round_ in range(20):
        assert sorted(league_matches.matches(config, SPEC, checkpoints, round_, 4)) == [2, 3]
    all_but_one = load(None, [*LEAGUE, "league.share=1"])
    assert sorted(league_matches.matches(all_but_one, SPEC, checkpoints, 0, 4)) == [1, 2, 3]
    assert league_matches.matches(all_but_one, SPEC, checkpoints, 0, 1) == {}


def test_sides_take_turns_and_every_checkpoint_is_met():
    config, checkpoints = load(None, [*LEAGUE, "scaling.rollouts=2"]), state(checkpoint(0), checkpoint(10))
    drawn = [league_matches.matches(config, SPEC, checkpoints, round_, 2)[1] for round_ in range(200)]
    assert [side.number for side, _ in drawn] == [1, 0] * 100
    met = sum(position for _, position in drawn)
    assert 60 < met < 140  # binomial: 100 on average, standard deviation 7
    assert drawn == [league_matches.matches(config, SPEC, checkpoints, round_, 2)[1] for round_ in range(200)]


def test_ratings_by_hand():
    """Equal ratings: half a win is expected, so a whole one is worth 16 * 0.5 points. 400 points ahead: 10 of 11 wins
    are expected, so that half of them cost 16 * (10/11 - 1/2)."""
    found = league_matches.rate(state(checkpoint(0)), {1: (PREY, 0)}, replies(None, 1.0))
    assert found.ratings == (1200.0, 1208.0)
    assert found.checkpoints[0].scores == (0.5, pytest.approx(0.6))
    ahead = state(checkpoint(0), ratings=(1600.0, 1200.0))
    found = league_matches.rate(ahead, {0: (PREDATORS, 0)}, replies(0.5))
    assert found.ratings == (pytest.approx(1600 - 16 * (10 / 11 - 0.5)), 1200.0)


def test_an_advantage_by_the_rules_is_no_strength():
    """Until the second checkpoint the predators win 7 of 8, the prey 1: odds of 7. Later the same changes nothing."""
    both = {0: (PREDATORS, 0), 1: (PREY, 0)}
    opening = league_matches.rate(state(checkpoint(0), advantages=()), both, replies(1.0, 0.0))
    opening = league_matches.rate(opening, both, replies(0.75, 0.25))
    assert opening.ratings == (1200.0, 1200.0) and opening.opening == ((1.75, 2), (0.25, 2))
    found = league_matches.add_checkpoint(League(rule="uniform"), opening, 10, TEAM, ref(10))
    points = 400 * np.log10(7)
    assert found.advantages == (pytest.approx(points), pytest.approx(-points)) and found.ratings == (1200.0, 1200.0)
    again = league_matches.rate(found, both, replies(7 / 8, 1 / 8))
    assert again.ratings == (pytest.approx(1200.0), pytest.approx(1200.0))
    better = league_matches.rate(found, both, replies(1.0, 0.2))
    assert min(better.ratings) > 1200


def test_what_both_sides_gained_in_the_opening_is_no_advantage():
    """Each side wins 3 of 4 against the other's untrained policies."""
    both = {0: (PREDATORS, 0), 1: (PREY, 0)}
    opening = league_matches.rate(state(checkpoint(0), advantages=()), both, replies(0.75, 0.75))
    assert league_matches.add_checkpoint(League(rule="uniform"), opening, 10, TEAM, ref(10)).advantages == (0, 0)


def test_a_side_that_won_everything_at_first_has_a_finite_advantage():
    """The other side has not played: half as far, because its strength is not known."""
    opening = league_matches.rate(state(checkpoint(0), advantages=()), {0: (PREDATORS, 0)}, replies(1.0))
    found = league_matches.add_checkpoint(League(rule="uniform"), opening, 10, TEAM, ref(10))
    assert found.advantages[0] == pytest.approx(200 * np.log10(0.98 / 0.02)) == -found.advantages[1]


def test_a_full_league_stays_spread_over_the_run():
    found, settings = state(checkpoint(0), interval=1), League(rule="uniform", every=1, size=4)
    for round_ in range(1, 33):
        found = league_matches.add_checkpoint(settings, found, round_, TEAM, ref(round_))
        assert len(found.checkpoints) <= 4
    assert [one.round for one in found.checkpoints] == [0, 16, 32] and found.interval == 16


SCRIPT = "scripted_players:first"
SCRIPTED = Checkpoint(round=0, team=scripted_team(4, SCRIPT), policies=(), ratings=(1200.0, 1200.0), scores=(0.5, 0.5))


def test_a_scripted_player_is_in_the_league_from_the_first_round_on_and_stays():
    config = load(None, [*LEAGUE, f"league.script={SCRIPT}", "league.every=1", "league.size=4"])
    found = league_matches.first(config, SPEC, TEAM, ref(0))
    assert found.checkpoints == (SCRIPTED, checkpoint(0))
    for round_ in range(1, 33):
        found = league_matches.add_checkpoint(config.league, found, round_, TEAM, ref(round_))
    assert [one.round for one in found.checkpoints] == [0, 0, 16, 32] and found.checkpoints[0] == SCRIPTED


def test_a_scripted_player_moves_its_score_and_no_rating():
    opening = league_matches.rate(state(SCRIPTED, checkpoint(0), advantages=()), {0: (PREY, 0)}, replies(1.0))
    assert opening.opening == ((0.0, 0), (0.0, 0))
    found = league_matches.rate(state(SCRIPTED, checkpoint(0)), {0: (PREY, 0)}, replies(1.0))
    assert found.ratings == (1200.0, 1200.0) and found.checkpoints[0].scores == (0.5, pytest.approx(0.6))
    named = league_matches.metrics(SPEC, found)
    assert named["league/scripted/agent"] == pytest.approx(0.6) and named["league/score/agent"] == 0.5
    assert named["league/checkpoints"] == 1


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (("opponents.side=0",), "opponents.side"),
        (("placement.rule=whole",), "placement.rule=whole"),
        (("scaling.rollouts=1",), "scaling.rollouts"),
        (("league.rule=best",), "league"),
        (("league.rule=none", f"league.script={SCRIPT}"), "league.script: there is no league"),
    ],
)
def test_what_a_league_excludes_is_refused(settings, word):
    with pytest.raises(ConfigError, match=word):
        load(None, [*LEAGUE, *settings])


def test_a_league_without_the_player_that_is_named_is_refused():
    config = load(None, [*LEAGUE, "league.script=scripted"])
    assert incompatibility(config, SPEC).startswith("league.script=scripted: mpe/simple_tag has no scripted player")


def test_a_task_without_sides_has_no_league():
    spread = load(None, ["league.rule=uniform", "scaling.rollouts=2"])
    assert "one side" in incompatibility(spread, registry.spec(spread.task))


def test_the_score_is_the_share_of_episodes_with_the_higher_return():
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
    """A rollout of the policies of seed 1, in a match those against the `earlier` ones."""
    task = make_task(SampleTask,
        id="r/000000/x", run="r", round=0, output="x", timeout_s=9.0, seed=1, environment=TAG, team=TEAM,
        policies=(), rollouts=(2,), num_envs=8, rollout_length=25, match=match,
    )  # fmt: skip
    return play(task, policies(1), 0) if match is None else play_match(task, match, policies(1), earlier)


@pytest.mark.parametrize("agents", [(0, 1, 2), (3,)])
def test_against_its_own_policies_a_side_plays_as_without_a_match(agents):
    alone, _, _ = sampled()
    found, reply, _ = sampled(Match(agents=agents, team=TEAM), policies(1))
    assert (found.pop("u00002/earlier") == [agent not in agents for agent in range(4)]).all()
    assert found.keys() == alone.keys() and 0 <= reply.score <= 1
    for name, array in alone.items():
        np.testing.assert_array_equal(found[name], array, name)


def test_a_checkpoint_may_have_other_groups_and_inputs():
    """The earlier team shared no networks and took no one-hots; the newest has both."""
    team = Team(groups=(0, 1, 2, 3))
    match, earlier = Match(agents=(3,), team=team), policies(5, team)
    found, *_ = sampled(match, earlier)
    changed, *_ = sampled(match, {**earlier, "policy/g01/b1": earlier["policy/g01/b1"] + 1})
    assert any((found[name] != changed[name]).any() for name in found)
    unused, *_ = sampled(match, {**earlier, "policy/g03/b1": earlier["policy/g03/b1"] + 1})
    assert all((found[name] == unused[name]).all() for name in found)


def test_in_a_match_against_a_script_one_side_learns_and_the_script_acts_for_the_others():
    found, reply, _ = sampled(Match(agents=(3,), team=SCRIPTED.team), {})
    batch, alone = join(SPEC, found, [2]), join(SPEC, sampled()[0], [2])
    assert not batch.alive[:3].any() and batch.alive[3].all() and 0 <= reply.score <= 1
    assert all((batch.of(batch.actions, agent) == 0).all() for agent in range(3))  # the first of all legal actions
    assert (batch.of(batch.observations, 3) != alone.of(alone.observations, 3)).any()


def test_nothing_is_learned_from_the_rows_of_earlier_policies_and_critics_see_them():
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
    assert first == replace(state(checkpoint(0)), advantages=())
