"""Wins and ratings of a tournament, by hand."""

import numpy as np
import pytest

from marless.comparison.comparison_plots import draw_scores
from marless.comparison.crossplay_tournament import Tournament, play, ratings, win_shares
from marless.functions.environments.base import EnvTask
from marless.reports import crossplay
from marless.reports.policy import scripted_policy


def test_better_paid_side_hides_no_strength():
    """The chaser gets more than the prey in every episode. In the first and third start state the strong team gets
    60 - 10 over both episodes, the weak team 10 - 60. In the second they get 30 - 40 and 40 - 30. So the strong team
    wins two of three. The variance of its wins is 1 / 3."""
    chaser = np.array([[[10.0, 10, 10], [10, 40, 10]], [[60, 30, 60], [20, 20, 20]]])  # by chaser, prey, start state
    scores, errors = win_shares(np.stack([chaser, -chaser.swapaxes(0, 1)]))
    np.testing.assert_allclose(scores, [[1 / 2, 1 / 3], [2 / 3, 1 / 2]])
    np.testing.assert_allclose(errors, [[0, 1.96 / 3], [1.96 / 3, 0]])


def test_win_share_is_mean_over_sides_without_draws():
    """A team wins 3 of 4 games as player 0 and 1 of 4 as player 1: 4 of 8."""
    first, second = np.array([1.0, 1, -1, 1]), np.array([-1.0, 1, -1, -1])
    none = np.zeros(4)
    scores, _ = win_shares(np.array([[[none, first], [-second, none]], [[none, second], [-first, none]]]))
    assert scores.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_side_returns_are_by_team_and_opponent():
    tag = EnvTask(name="mpe/simple_tag")
    teams = {"still": scripted_policy(tag, "scripted_players:first"), "random": None}
    found = play(teams, tag, 8, 1)
    for side in ("adversary", "agent"):
        expected = [[crossplay.totals(tag, i, side, j, 8, 1).mean() for j in teams.values()] for i in teams.values()]
        np.testing.assert_allclose(found.returns[side], expected)


def test_teams_differ_by_odds_of_score():
    """Three of four episodes won, and one draw in fifty: 0.745 to 0.255."""
    found = ratings(np.array([[0.5, 0.25], [0.75, 0.5]]))
    assert found[0] == 1200
    assert found[1] == pytest.approx(1200 + 400 * np.log10(0.745 / 0.255), abs=0.1)


def test_teams_that_follow_the_model_have_its_ratings():
    """Scores of Elo's formula for 1200, 1300 and 1500. The added draws move ratings together by a few points."""
    true = np.array([1200.0, 1300.0, 1500.0])
    scores = 1 / (1 + 10 ** ((true[None] - true[:, None]) / 400))
    np.testing.assert_allclose(ratings(scores), true, atol=12)


def test_who_won_everything_has_a_finite_rating():
    found = ratings(np.array([[0.5, 0.0], [1.0, 0.5]]))
    assert found[1] == pytest.approx(1200 + 400 * np.log10(0.99 / 0.01), abs=0.1)


@pytest.mark.parametrize("count", [2, 8])
def test_picture_heading_is_at_most_picture_wide(tmp_path, count):
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    halves, teams = ((0.5,) * count,) * count, tuple(f"round {100 * number}" for number in range(count))
    found = Tournament(
        task="mpe/simple_world_comm",
        teams=teams,
        episodes=1000,
        sampled=False,
        scores=halves,
        errors=halves,
        returns={"adversary": halves, "agent": halves},
        ratings=(1200.0,) * count,
    )
    draw_scores(found, tmp_path / "crossplay.png")
    drawn = imread(tmp_path / "crossplay.png")
    # Ink that reaches the edge is cut off.
    assert (drawn[:60, -3:] == 1).all() and (drawn[:60] < 1).any()
