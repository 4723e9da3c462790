"""League rules: how often each checkpoint of the run is drawn as the opponent of a rollout.

`uniform` is fictitious self-play (Heinrich, Lanctot and Silver, "Fictitious Self-Play in Extensive-Form Games", 2015).
`prioritised` prefers opponents that the policies lose to, with the weighting (1 - p)^2 of Vinyals et al., "Grandmaster
level in StarCraft II using multi-agent reinforcement learning", 2019.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marless.functions.plug_in_registry import Family, Rule

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeagueRule:
    """`weights` maps the policies' mean scores ``[C]`` in [0, 1] against the checkpoints to their weights
    ``[C]`` in a draw. It is None if the league plays no checkpoint."""

    weights: Callable[[Array], Array] | None


def probabilities(rule: LeagueRule, scores: Array) -> Array:
    """Return the probability of each checkpoint ``[C]``. They are equal if all weights are 0."""
    assert rule.weights is not None
    weights = rule.weights(scores)
    total = weights.sum()
    return np.full(len(scores), 1 / len(scores)) if total <= 0 else weights / total


LEAGUE_RULES: Family[LeagueRule] = Family(
    "league",
    {
        "none": Rule("all sides play with their newest policies", LeagueRule(None)),
        "uniform": Rule("every checkpoint equally often", LeagueRule(np.ones_like)),
        "prioritised": Rule(
            "with weight (1 - p)^2, p being the share of wins against it", LeagueRule(lambda scores: (1 - scores) ** 2)
        ),
    },
    LeagueRule,
)
