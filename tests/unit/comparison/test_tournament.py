"""Ratings of a tournament, by hand."""

import numpy as np
import pytest

from marless.comparison.comparison_plots import draw_scores
from marless.comparison.tournament import Tournament, ratings


def test_two_teams_differ_by_the_odds_of_their_score():
    """Three of four episodes won, with one draw in fifty beside them: 0.745 to 0.255."""
    found = ratings(np.array([[0.5, 0.25], [0.75, 0.5]]))
    assert found[0] == 1200
    assert found[1] == pytest.approx(1200 + 400 * np.log10(0.745 / 0.255), abs=0.1)


def test_teams_that_follow_the_model_have_its_ratings():
    """Scores of Elo's formula for 1200, 1300 and 1500; the draws beside them move ratings together by a few points."""
    true = np.array([1200.0, 1300.0, 1500.0])
    scores = 1 / (1 + 10 ** ((true[None] - true[:, None]) / 400))
    np.testing.assert_allclose(ratings(scores), true, atol=12)


def test_who_won_everything_has_a_finite_rating():
    found = ratings(np.array([[0.5, 0.0], [1.0, 0.5]]))
    assert found[1] == pytest.approx(1200 + 400 * np.log10(0.99 / 0.01), abs=0.1)


@pytest.mark.parametrize("count", [2, 8])
def test_the_heading_of_the_picture_is_as_wide_as_the_picture_at_most(tmp_path, count):
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
        returns={},
        ratings=(1200.0,) * count,
    )
    draw_scores(found, tmp_path / "crossplay.png")
    drawn = imread(tmp_path / "crossplay.png")
    # Ink that reaches the edge is cut off.
    assert (drawn[:60, -3:] == 1).all() and (drawn[:60] < 1).any()
