"""A round's reports of episodes, where some are unfinished at the end of a rollout: against exact expectations.

Environment e plays the e-th of all equally likely sequences of kinds of episodes. So the mean over environments is the
expectation over the plays of an environment.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from task_fields import make_task
from test_rollout import Shelf

from marless.coordinator.core.round_records import RoundReplies
from marless.functions.actor.handler import sample
from marless.functions.codec import encode, reference
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team

TEAM = Team(groups=(0, 0))
# Length, returns of the two agents, and whether the episode is won. Every kind is as likely as the others.
SHORT_AND_LONG = "1:0:0:0,4:60:40:1"
LONG_IS_BAD = "1:3:-1:1,2:-5:2:0,5:-70:1:0"
ALIKE = "3:0.1:0.7:1,3:0.2:0.3:0"


@pytest.fixture(autouse=True)
def kinds_of_episodes():
    registry.BUILT_IN["test/kinds"] = "episode_kinds"
    yield
    del registry.BUILT_IN["test/kinds"]


WEIGHTS = {"policy/g00/w0": np.zeros((1, 2), np.float32), "policy/g00/b0": np.zeros(2, np.float32)}


def sampled(kinds, steps, num_envs, rollouts=(0,), fragments=False, **options):
    body = encode(WEIGHTS, TaskHeader(task="t"))
    request = make_task(SampleTask,
        id="t", run="r", round=0, output="o", timeout_s=1, seed=1, rollouts=rollouts, num_envs=num_envs, team=TEAM,
        environment=EnvTask(name="test/kinds", options={"kinds": kinds, **options}), policies=(reference("k", body),),
        rollout_length=steps, fragments=fragments,
    )  # fmt: skip
    return sample(request, Shelf(body))[1]


def expected(kinds):
    """The exact means over the kinds: of the team's return, each agent's, and the share of episodes won."""
    rows = [[Fraction(number) for number in kind.split(":")] for kind in kinds.split(",")]
    _, one, other, won = (float(sum(column) / len(rows)) for column in zip(*rows, strict=True))
    return one + other, (one, other), won


def of_round(replies):
    return RoundReplies(tuple(replies), (), whole=True)


@pytest.mark.parametrize(
    ("kinds", "steps"), [(SHORT_AND_LONG, 4), (SHORT_AND_LONG, 7), (LONG_IS_BAD, 5), (LONG_IS_BAD, 6)]
)
def test_round_means_equal_means_over_episodes(kinds, steps):
    sequences = len(kinds.split(",")) ** steps
    found = of_round([sampled(kinds, steps, sequences, first=0)])
    team, agents, won = expected(kinds)
    assert found.return_mean == pytest.approx(team, rel=1e-12)
    assert found.agent_returns == pytest.approx(agents, rel=1e-12) == found.signals.returns
    assert found.env_metrics == {"win": pytest.approx(won, rel=1e-12)}
    # The mean over all finished episodes is different: a long episode is more often unfinished.
    assert abs(found.returns.mean() - team) > 1


def test_rollout_with_short_episodes_weighs_as_others():
    one_by_one = [sampled(SHORT_AND_LONG, 6, 4, first=first) for first in range(0, 2**6, 4)]
    assert len({len(reply.returns) for reply in one_by_one}) > 3
    found = of_round(one_by_one)
    assert found.return_mean == pytest.approx(50, rel=1e-12)
    assert found.agent_returns == pytest.approx((30, 20), rel=1e-12)
    assert found.env_metrics == {"win": pytest.approx(0.5, rel=1e-12)}


def test_assignment_of_rollouts_changes_no_bit():
    apart = of_round([sampled(LONG_IS_BAD, 7, 3, (rollout,)) for rollout in range(6)])
    packed = of_round([sampled(LONG_IS_BAD, 7, 3, (0, 1)), sampled(LONG_IS_BAD, 7, 3, (2, 3, 4, 5))])
    assert apart.agent_returns == packed.agent_returns and apart.return_mean == packed.return_mean
    assert apart.return_sd == packed.return_sd and apart.weights.tolist() == packed.weights.tolist()
    assert apart.env_metrics == pytest.approx(packed.env_metrics)


def test_equal_episode_counts_give_equal_weights_exactly():
    replies = [sampled(ALIKE, 9, 5, (rollout, rollout + 1), horizon=4) for rollout in (0, 2)]
    assert all(reply.weights == () for reply in replies)
    found, returns = of_round(replies), np.array([value for reply in replies for value in reply.returns])
    assert len(returns) == 4 * 5 * 3
    assert (found.return_mean, found.return_sd) == (float(returns.mean()), float(returns.std(ddof=1)))
    rollouts = [rollout for reply in replies for rollout in reply.agent_returns]
    assert found.agent_returns == tuple(math.fsum(sums) / 60 for sums in zip(*rollouts, strict=True))
    wins = [reply.env_metrics["win"] for reply in replies]
    assert found.env_metrics == {"win": float(np.average(wins, weights=[30, 30]))}


def test_weights_of_two_environments_equal_hand_computation():
    # The first plays a short episode and a long one (0 after step 1, 100 after step 5). The second plays a long episode
    # (100 after step 4), and leaves another unfinished.
    reply = sampled(SHORT_AND_LONG, 5, 2, first=2)
    assert reply.returns == (0.0, 100.0, 100.0) and reply.weights == ((0.75, 1.5, 0.75),)
    assert reply.agent_returns == ((0.75 * 0 + 1.5 * 60 + 0.75 * 60, 0.75 * 0 + 1.5 * 40 + 0.75 * 40),)
    found = of_round([reply])
    # (0 + 100) / 2 of the first and 100 of the second. The spread is of 0.75 * 75² + 2.25 * 25² = 5625 over the three
    # episodes less (1.5² + 2 * 0.75²) / 3.
    assert (found.return_mean, found.return_sd) == (75.0, pytest.approx(math.sqrt(5625 / 1.875)))


def test_continued_episodes_count_once_at_their_end():
    reply = sampled(SHORT_AND_LONG, 3, 8, fragments=True)
    assert reply.weights == () and set(reply.returns) == {0.0}  # a long one needs four steps
    assert RoundReplies((reply,), (), whole=False).weights.tolist() == [1.0] * len(reply.returns)


def test_episode_beyond_horizon_is_fault_of_environment():
    with pytest.raises(EnvironmentFault, match="did not finish an episode"):
        sampled("9:1:1:1", 5, 2, horizon=5)
