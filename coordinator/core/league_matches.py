"""League training: some rollouts are played against checkpoints of the run itself, one side at a time.

In such a rollout one side acts by the newest policies and learns. All other sides act by the policies of an earlier
round and do not learn.

Ratings are Elo's (Elo, "The Rating of Chessplayers, Past and Present", 1978). A rating compares a side's newest
policies with checkpoints of the same side. Both play one rollout against the newest policies of the other side. The
winner is the team that lets the other side lead by less, on average over the rollout. So an advantage by the rules of
the task changes no rating.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from marless.coordinator.config.schema import League, RunConfig
from marless.coordinator.core.opponents import scripted_team, unscripted
from marless.coordinator.core.sides import Side, sides_of
from marless.coordinator.rules.league import LEAGUE_RULES, probabilities
from marless.functions.environments.base import EnvSpec
from marless.functions.environments.scripted import script_names
from marless.functions.messages.actor import SampleReply
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.team import Team
from marless.functions.randomness import generator

FIRST_RATING = 1200.0
# Points that the ratings of two opponents are apart where one is expected to win ten times as often (Elo's scale).
TENFOLD = 400.0
# The most that a rating changes by one rollout.
_STEP = 16.0
# The weight of a rollout in the running score against a checkpoint.
_NEWEST = 0.2


class Checkpoint(Message, frozen=True, kw_only=True):
    """The policies of all sides after `round` rounds, or a scripted player of all sides, which has no policies."""

    round: int
    team: Team
    policies: tuple[Ref, ...]
    # By side: the ratings after that round, and the running mean scores of the newest policies against it.
    ratings: tuple[float, ...]
    scores: tuple[float, ...]

    @property
    def scripted(self) -> bool:
        """True for a scripted player."""
        return self.team.opponents is not None


class LeagueState(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The checkpoints, oldest first, the rounds between them, and by side the newest policies' ratings.

    A scripted player is the first of them. Unknown fields are allowed: earlier versions stored advantages of the sides.
    """

    interval: int
    checkpoints: tuple[Checkpoint, ...]
    ratings: tuple[float, ...]


def first(config: RunConfig, spec: EnvSpec, team: Team, policies: tuple[Ref, ...]) -> LeagueState | None:
    """Return the league before the first round, with the untrained policies. None outside league training."""
    if LEAGUE_RULES[config.league.rule].weights is None:
        return None
    ratings = (FIRST_RATING,) * len(sides_of(spec))
    start = Checkpoint(round=0, team=team, policies=policies, ratings=ratings, scores=(0.5,) * len(ratings))
    checkpoints: tuple[Checkpoint, ...] = (start,)
    if config.league.script is not None:
        script = script_names.reference(config.league.script, config.task.name)
        checkpoints = (replace(start, team=scripted_team(len(spec.agents), script), policies=()), start)
    return LeagueState(interval=config.league.every, checkpoints=checkpoints, ratings=ratings)


def matches(
    config: RunConfig, spec: EnvSpec, league: LeagueState | None, round_: int, rollouts: int
) -> dict[int, tuple[Side, int]]:
    """By rollout that is played against a checkpoint: the side that learns from it, and the checkpoint's position.

    The first rollout never is, so that every side learns in every round.
    """
    if league is None:
        return {}
    sides, count = sides_of(spec), min(rollouts - 1, round(config.league.share * rollouts))
    match_of = {}
    for rollout in range(rollouts - count, rollouts):
        side = sides[(round_ * count + rollout) % len(sides)]
        scores = np.array([checkpoint.scores[side.number] for checkpoint in league.checkpoints])
        chances = probabilities(LEAGUE_RULES[config.league.rule], scores)
        match_of[rollout] = side, int(generator(config.seed, "league", round_, rollout).choice(len(chances), p=chances))
    return match_of


def rate(league: LeagueState, match_of: dict[int, tuple[Side, int]], samples: Sequence[SampleReply]) -> LeagueState:
    """Return the league with the ratings and scores after a round. `samples` holds one reply for each rollout.

    A scripted player changes no rating: ratings are about rounds of the run. Scores stay until there are two
    checkpoints to draw from.
    """
    ratings, checkpoints = list(league.ratings), list(league.checkpoints)
    alone = sum(not checkpoint.scripted for checkpoint in checkpoints) < 2
    for rollout, (side, position) in match_of.items():
        reply, opponent = samples[rollout], checkpoints[position]
        if reply.score is None:
            continue
        if not opponent.scripted and samples[0].returns:
            win = (1 + np.sign(_lead(reply, side) - _lead(samples[0], side))) / 2
            for number in (number for number in range(len(ratings)) if number != side.number):
                ratings[number] += float(_STEP * (win - expected_score(ratings[number], opponent.ratings[number])))
        if not alone:
            scores = list(opponent.scores)
            scores[side.number] += _NEWEST * (reply.score - scores[side.number])
            checkpoints[position] = replace(opponent, scores=tuple(scores))
    return replace(league, ratings=tuple(ratings), checkpoints=tuple(checkpoints))


def _lead(reply: SampleReply, side: Side) -> float:
    """The mean over the rollout's episodes of the side's return minus the return of all other agents."""
    (totals,) = reply.agent_returns
    return (2 * sum(totals[agent] for agent in side.agents) - sum(totals)) / len(reply.returns)


def expected_score(rating: float, opponent_rating: float) -> float:
    """The score that Elo's ratings predict, between 0 and 1."""
    return float(1 / (1 + 10 ** ((opponent_rating - rating) / TENFOLD)))


def add_checkpoint(
    settings: League, league: LeagueState, finished_rounds: int, team: Team, policies: tuple[Ref, ...]
) -> LeagueState:
    """With the policies after `finished_rounds` rounds, if their turn has come.

    A league of more than `settings.size` checkpoints keeps every second checkpoint. It then adds half as many, so
    checkpoints always spread over the whole run. A scripted player stays.
    """
    if finished_rounds % league.interval:
        return league
    scores = (0.5,) * len(league.ratings)
    new = Checkpoint(round=finished_rounds, team=team, policies=policies, ratings=league.ratings, scores=scores)
    league = replace(league, checkpoints=(*league.checkpoints, new))
    most = settings.size + (settings.script is not None)
    while len(league.checkpoints) > most:
        interval = 2 * league.interval
        # A scripted player counts as one of round 0.
        remaining = tuple(entry for entry in league.checkpoints if entry.round % interval == 0)
        league = replace(league, interval=interval, checkpoints=remaining)
    return league


def metrics(spec: EnvSpec, league: LeagueState | None) -> dict[str, float]:
    """The ratings of the newest policies by side, and their mean scores against all checkpoints and against a scripted
    player."""
    if league is None:
        return {}
    checkpoints = [entry for entry in league.checkpoints if not entry.scripted]
    values = {"league/checkpoints": float(len(checkpoints))}
    for side in sides_of(spec):
        values[f"league/elo/{side.name}"] = league.ratings[side.number]
        values[f"league/score/{side.name}"] = float(np.mean([entry.scores[side.number] for entry in checkpoints]))
        for scripted_player in league.checkpoints[: len(league.checkpoints) - len(checkpoints)]:
            values[f"league/scripted/{side.name}"] = scripted_player.scores[side.number]
    return values


def incompatibility(config: RunConfig, spec: EnvSpec) -> str:
    """Return the reason why the task cannot have the configured league, or ''."""
    rule = config.league.rule
    if LEAGUE_RULES[rule].weights is None:
        return ""
    if len(sides_of(spec)) < 2:
        return f"league.rule={rule}: all agents of the task are on one side; use none"
    text = config.league.script
    return "" if text is None else unscripted("league.script", text, config.task.name, spec)
