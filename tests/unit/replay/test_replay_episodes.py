"""Episodes of replays: their states, their returns, and their last frames."""

from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from faulty_environments import Sound
from msgspec import structs

pytest.importorskip("PIL")

from marless.coordinator.errors import UserError
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.messages.team import Opponents, Team
from marless.functions.randomness import generator
from marless.replays.environment_picture import picture, rendering
from marless.replays.greedy_episodes import EpisodeStage, random_team
from marless.replays.teams import one_scale
from marless.reports.policy import TeamFile, TeamPolicy

SPREAD = EnvTask(name="mpe/simple_spread", options={"max_cycles": 5})
LBF = EnvTask(name="lbf/8x8-2p-3f", options={"horizon": 6})


def team(task, spec=None):
    spec = spec or registry.spec(task)
    agents = tuple(range(len(spec.agents)))
    acting = Team(groups=agents, opponents=Opponents(agents=agents, acting="random"))
    return TeamPolicy(TeamFile(task=task, spec=spec, team=acting), {})


def drawn(environment):
    return picture(rendering(environment))


def play(playing, episodes, seed):
    stage = EpisodeStage(playing, seed)
    with closing(stage):
        return [list(stage.episode(number)) for number in range(episodes)]


@pytest.mark.parametrize("task", [SPREAD, LBF], ids=lambda task: task.name)
def test_last_frame_is_final_state_with_whole_return(task):
    (episode,) = play(team(task), 1, seed=3)
    horizon = registry.spec(task).horizon
    assert [frame.step for frame in episode] == list(range(horizon + 1))
    assert episode[0].total == 0
    # The same actions in an environment with a longer horizon.
    option = "max_cycles" if task is SPREAD else "horizon"
    longer = registry.make(EnvTask(name=task.name, options={option: 99}), 1)
    player, spec = team(task).player(1), registry.spec(task)
    seen, total = longer.reset(generator(3, "replay", 0)), 0.0
    from marless.functions.policies import draws

    chance = draws(spec, spec.horizon, 1, generator(3, "replay", 0, "actions"))
    for step in range(horizon):
        assert (drawn(longer) == episode[step].picture).all()
        result = longer.step(player.act(seen, chance=tuple(part[step] for part in chance)).env_actions)
        seen, total = result.observation, total + float(result.rewards.sum())
        assert episode[step + 1].total == pytest.approx(total)
    assert (drawn(longer) == episode[-1].picture).all()
    assert (episode[-2].picture != episode[-1].picture).any()


def test_camera_stays_for_episode_and_for_all_teams():
    """Landmarks do not move and cover agents, so their pixels stay grey, however far agents go at random. Some pixels
    at the edges of agents are as grey. A camera that is n times as large shows a landmark with n² fewer pixels."""
    task = EnvTask(name="mpe/simple_tag", options={"max_cycles": 60})
    near, far = stages = [EpisodeStage(team(task), seed) for seed in (3, 11)]
    first, *later = [(frame.picture == 64).all(axis=-1) for frame in one_scale(near, [near])(0)]
    assert first.sum() > 1000
    assert all(grey[first].mean() > 0.95 for grey in later)
    larger = far.camera(0) / near.camera(0)
    assert larger > 1.1
    shared = (next(one_scale(near, stages)(0)).picture == 64).all(axis=-1)
    assert shared.sum() == pytest.approx(first.sum() / larger**2, rel=0.1)
    for stage in stages:
        stage.close()


def test_side_return_is_sum_over_its_agents():
    """Chasers get 10 for each of them when one touches the prey, which gets -10."""
    (episode,) = play(team(EnvTask(name="mpe/simple_tag")), 1, seed=1)
    chasers, prey = zip(*(frame.sides for frame in episode), strict=True)
    assert {side.name for side in chasers} == {"adversary"} and {side.name for side in prey} == {"agent"}
    assert chasers[-1].total % 30 == 0 and chasers[0].colour != prey[0].colour
    for frame in episode:
        assert frame.total == pytest.approx(sum(side.total for side in frame.sides))


def test_last_actions_behind_observations_change_no_picture():
    plain, followed = (play(team(task), 1, 3) for task in (SPREAD, structs.replace(SPREAD, last_action=True)))
    assert all((a.picture == b.picture).all() for a, b in zip(plain[0], followed[0], strict=True))


def test_teams_begin_on_same_states_after_any_history():
    random, idle = team(LBF), play(random_team(team(LBF)), 2, seed=5)
    same = play(random, 2, seed=5)
    other = play(random, 2, seed=6)
    for number in range(2):
        assert (idle[number][0].picture == same[number][0].picture).all()
        assert (other[number][0].picture != same[number][0].picture).any()
    assert (same[0][0].picture != same[1][0].picture).any()


def test_half_played_episode_restarts_equal():
    with closing(EpisodeStage(team(LBF), seed=5)) as stage:
        whole = list(stage.episode(1))
        for frames in (2, 6):
            assert len(list(islice(stage.episode(0), frames))) == frames
            again = list(stage.episode(1))
            assert [frame.total for frame in again] == [frame.total for frame in whole]
            assert all((a.picture == b.picture).all() for a, b in zip(again, whole, strict=True))


def test_frames_follow_rate_of_environment():
    mpe2 = EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env")
    turns = EnvTask(name="pettingzoo:pettingzoo.classic.tictactoe_v3:env", options={"horizon": 9})
    rates = []
    for task in (SPREAD, mpe2, turns):
        with closing(EpisodeStage(team(task), seed=5)) as stage:
            rates.append(stage.frame_ms)
    # mpe2 plays at 10 frames a second, tic-tac-toe at one.
    assert rates == [80, 100, 1000]


class Drawn(Sound):
    """An environment that returns pictures and has no option `render_mode`."""

    def render(self):
        return np.full((2, 2, 3), self.steps, np.uint8)


class Undrawn(Sound):
    def render(self):
        return None


def test_environment_without_render_mode_shows_returned_pictures():
    (episode,) = play(team(EnvTask(name=f"pettingzoo:{__name__}:Drawn")), 1, seed=1)
    assert [frame.picture[0, 0, 0] for frame in episode] == [0, 1, 2, 3, 4, 5]


def test_environment_without_pictures_is_one_line():
    task = EnvTask(name=f"pettingzoo:{__name__}:Undrawn")
    with pytest.raises(UserError, match=r"^pettingzoo:\S+:Undrawn: render\(0\) returned None") as refused:
        play(team(task), 1, seed=1)
    assert "asked for pictures: " in str(refused.value) and "'render_mode'" in str(refused.value)
    assert "\n" not in str(refused.value)


class Still:
    """A wrapper that takes no attribute and shows how many steps were taken since the reset."""

    __slots__ = ("_environment", "_steps")

    def __init__(self, environment):
        self._environment, self._steps = environment, 0

    num_envs = 1

    @property
    def spec(self):
        return self._environment.spec

    def reset(self, rng):
        self._steps = 0
        return self._environment.reset(rng)

    def step(self, actions):
        self._steps += 1
        return self._environment.step(actions)

    def render(self, index):
        return np.full((8, 8, 3), self._steps, np.uint8)

    def close(self):
        self._environment.close()


def test_environment_with_unknown_end_repeats_last_picture(monkeypatch):
    make = registry.make
    monkeypatch.setattr(registry, "make", lambda task, num_envs: Still(make(task, num_envs)))
    (episode,) = play(team(SPREAD), 1, seed=3)
    assert [int(frame.picture[0, 0, 0]) for frame in episode] == [0, 1, 2, 3, 4, 4]
    assert episode[-1].step == 5 and episode[-1].total < episode[-2].total


@pytest.mark.parametrize("name", ["smac/8m", "smacv2/terran_5_vs_5"])
def test_starcraft_is_shown_by_its_own_replays(name):
    with pytest.raises(UserError, match="StarCraft II shows its battles itself"):
        play(team(EnvTask(name=name), registry.spec(SPREAD)), 1, seed=3)
