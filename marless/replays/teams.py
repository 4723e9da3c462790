"""The teams of a replay, on stage: a run's newest policies, and other teams for comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from marless.coordinator.config.schema import RANDOM
from marless.coordinator.errors import UserError
from marless.replays.animation import Animation, Panel
from marless.replays.greedy_episodes import EpisodeStage, ReplayFrame, random_team
from marless.reports.policy import TeamPolicy
from marless.runs.folder import RunFolder
from marless.runs.resources.resources_of_run import resources_of
from marless.runs.run_policies import find_policies, load_team
from marless.runs.run_store import RUNS, RunStore


@contextmanager
def on_stage(
    folder: RunFolder, episodes: int, beside: str | None, store: RunStore = RUNS, agents: int | None = None
) -> Iterator[Animation]:
    """Greedy episodes of the run's newest policies, which can be played while the context is open. `agents` is the size
    of the team if it differs from training.

    Beside them, on the same start states, the policies of a file or another run in the `store`, or random agents
    (`RANDOM`). Raises `UserError`.
    """
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; at least 1 is needed")
    stored_run, team = load_team(folder, agents)
    teams = {f"{stored_run.plan.run}, round {stored_run.saved_state.round:,}": team}
    if beside is not None:
        teams[beside] = random_team(team) if beside == RANDOM else find_policies(beside, team.task, "--beside", store)
    with resources_of(folder), staged(teams, stored_run.plan.config.seed, episodes) as animation:
        yield animation


@contextmanager
def staged(teams: Mapping[str, TeamPolicy], seed: int, episodes: int) -> Iterator[Animation]:
    """Greedy episodes of teams, by title, side by side on the start states of `seed`, while the context is open."""
    with ExitStack() as resources:
        stages = []
        for playing in teams.values():
            stages.append(EpisodeStage(playing, seed))
            resources.callback(stages[-1].close)
        panels = [Panel(name, one_scale(stage, stages)) for name, stage in zip(teams, stages, strict=True)]
        yield Animation(panels, episodes, stages[0].frame_ms)


def one_scale(stage: EpisodeStage, stages: Sequence[EpisodeStage]) -> Callable[[int], Iterator[ReplayFrame]]:
    """Return the function that plays a stage's episode by its number, drawn in the scale of all stages."""
    return lambda number: stage.episode(number, max(other.camera(number) for other in stages))
