"""Rollouts shorter than an episode: the same bytes for any placement, and after kills."""

from functools import cache

import pytest
from driver import CONTROLLER, SMALL, in_flight, stores_what_it_needs
from driver import train as drive
from task_fields import make_task

from marless.functions import codec
from marless.functions.actor.handler import play
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import SampleTask

FRAGMENTS = (
    "task.options.max_cycles=20", "actors.rollout_length=7", "actors.num_envs=3", "actors.rollouts=3",
    "sharing.rule=none", "stop.rounds=7", "algorithm.hidden=[8]",
)  # fmt: skip
SAVED = "task.name=mpe/simple_spread"
PLAYED_AGAIN = "task.name=pettingzoo:mpe2.simple_spread_v3:parallel_env"
TASKS = pytest.mark.parametrize("task", [SAVED, PLAYED_AGAIN], ids=["saved", "played again"])


def outcome(run):
    assert run.state.status == "finished", run.state.reason
    return run.sha256, [(line.episodes, line.return_mean, line.metrics) for line in run.lines], run.state.final


@TASKS
def test_episodes_go_on_in_the_next_round(train, task):
    run = train(*FRAGMENTS, task)
    # Of three rollouts of three environments all episodes end in steps 20 and 40 of 49.
    assert [line.episodes for line in run.lines] == [0, 0, 9, 0, 0, 9, 0]
    assert [line.env_steps for line in run.lines] == [9 * 7 * n for n in range(1, 8)]
    assert [line.return_mean is None for line in run.lines] == [not line.episodes for line in run.lines]


def test_fragments_earn_the_same_as_whole_episodes(train):
    """With a step size near 0. The returns of episodes have a standard deviation of about 20, so the difference between
    two means of 90 has one of 3."""
    still = (SAVED, "task.options.max_cycles=20", "algorithm.lr=1e-12", "actors.num_envs=15", "actors.rollouts=3")
    still = (*still, "algorithm.hidden=[8]")
    whole = train(*still, "stop.rounds=2")
    pieces = train(*still, "actors.rollout_length=5", "stop.rounds=8")
    means = [[line.return_mean for line in run.lines if line.episodes] for run in (whole, pieces)]
    assert len(means[0]) == len(means[1]) == 2
    assert abs(sum(means[0]) - sum(means[1])) / 2 < 5 * 3


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """The outcome of a run by task, with a function for each thing that is done."""
    settings = [*SMALL, *FRAGMENTS, "placement.rule=split"]
    return cache(lambda task: outcome(drive(tmp_path_factory.mktemp("split"), [*settings, task])))


PLACEMENTS = {
    "fused": ("placement.rule=fused", "placement.pack=2"),
    "packed": ("placement.rule=packed", "placement.inline_objects=true", "checkpoint_every=3"),
    "whole": ("placement.rule=whole", "placement.chain=3"),
    "auto": ("placement.rule=auto",),
}
# Each placement with one of the tasks in the quick tests.
BOTH = [(task, name) for n, name in enumerate(PLACEMENTS) for task in (SAVED, PLAYED_AGAIN)[:: 1 - n % 2 * 2]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("task", "placement"), BOTH)
def test_the_placement_changes_nothing(train, split, task, placement):
    assert outcome(train(*FRAGMENTS, task, *PLACEMENTS[placement])) == split(task)
    assert outcome(train(*FRAGMENTS, task, *PLACEMENTS[placement], workers=2)) == split(task)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("task", "phase"), [(SAVED, "sample"), (SAVED, "learn"), (PLAYED_AGAIN, "learn"), (PLAYED_AGAIN, "sample")]
)
def test_a_killed_run_goes_on_with_its_episodes(tmp_path, task, phase):
    moment = in_flight(4, phase)
    settings = [*SMALL, *FRAGMENTS, task, "placement.rule=split", "checkpoint_every=2"]
    expected = outcome(drive(tmp_path / "undisturbed", settings))
    assert moment(drive(tmp_path / "killed", settings, leave=moment).state)
    again = drive(tmp_path / "killed", settings)
    assert outcome(again) == expected
    assert stores_what_it_needs(tmp_path / "killed", again)
    assert [one.rollouts for one in again.state.unfinished] == [(0,), (1,), (2,)]


def test_changing_rollouts_and_teams_keep_their_episodes(train):
    shorter = ("task.options.max_cycles=9", *FRAGMENTS[1:3])
    options = (*CONTROLLER, *shorter, "algorithm.hidden=[8]", "stop.rounds=12", "actors.rollouts=6")
    split = train(*options, SAVED, "placement.rule=split")
    assert {"shared", "split"} <= {line.event for line in split.lines}
    assert len({line.rollouts for line in split.lines}) > 1
    whole = train(*options, SAVED, "placement.rule=whole", "placement.inline_objects=true", workers=2)
    assert outcome(whole) == outcome(split)
    played = max(line.rollouts for line in split.lines)
    assert sorted(rollout for one in split.state.unfinished for rollout in one.rollouts) == list(range(played))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["qmix", "maddpg", "mappo"])
def test_algorithms_learn_from_fragments_in_every_placement(train, method):
    replay = () if method == "mappo" else ("algorithm.batch_size=8", "algorithm.updates_per_round=2")
    options = (*FRAGMENTS, SAVED, f"algorithm.name={method}", *replay)
    assert outcome(train(*options, "placement.rule=split")) == outcome(train(*options, "placement.rule=whole"))


@pytest.mark.parametrize(
    ("setting", "said"), [("algorithm.recurrent=true", "recurrent"), ("league.rule=uniform", "league")]
)
def test_what_needs_whole_episodes_is_refused(train, setting, said):
    task = ("task.name=mpe/simple_tag", "actors.rollout_length=7", "actors.rollouts=4", "placement.rule=fused")
    run = train(*task, "algorithm.name=ippo", setting)
    assert run.state.status == "failed"
    assert said in run.state.reason and "set at least 25" in run.state.reason


def test_no_recurrent_policy_plays_fragments_whoever_named_it(tmp_path):
    """Such as an opponent of a run that remembers nothing itself."""
    chase = [*SMALL, "task.name=mpe/simple_tag", "algorithm.name=ippo", "algorithm.recurrent=true", "stop.rounds=1"]
    state = drive(tmp_path, chase).state
    weights = {}
    for ref in state.policies:
        weights |= codec.decode((tmp_path / "objects" / ref.key).read_bytes(), ref.key)
    task = make_task(SampleTask,
        id="", run="run", round=1, output="", timeout_s=1.0, seed=1, environment=EnvTask(name="mpe/simple_tag"),
        team=state.team, policies=(), rollouts=(0,), num_envs=2, rollout_length=7, fragments=True,
    )  # fmt: skip
    with pytest.raises(BadRequest, match=r"a policy is recurrent: .* set at least 25"):
        play(task, weights, 1)
