"""What `marless export` does: a run's policies, or episodes that they play, in a folder of their own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from coordinator.errors import UserError
from functions.contract import BadRequest
from functions.environments.base import EnvironmentFault, Unsupported
from marless.exports import dataset_files, policy_files
from marless.exports.destination import require_free, write_folder
from marless.exports.episode_recording import Episode, play_episodes
from marless.exports.stored_rounds import stored_episodes
from marless.reports.policy import TeamPolicy, load_policy, without_secrets
from marless.runs.folder import BEST_POLICIES, RunFolder
from marless.runs.run_policies import load_team
from marless.runs.stored_run import look

FORMATS = (*policy_files.FORMATS, *dataset_files.FORMATS)


@dataclass(frozen=True)
class Exported:
    """What was written: the files by name with their sizes, and a line about them."""

    folder: Path
    files: dict[str, int]
    line: str


@dataclass(frozen=True)
class Source:
    """Policies to export, and where they are from."""

    team: TeamPolicy
    seed: int
    origin: dict[str, Any]


def source(folder: RunFolder, best: bool) -> Source:
    """The newest policies of a run, or those of its best evaluation; raises `UserError` where there are none."""
    if not best:
        run, team = load_team(folder)
        return Source(team, run.plan.config.seed, {"run": run.plan.run, "round": run.saved_state.round})
    identity, path = folder.identity(), folder.path / BEST_POLICIES
    if not path.is_file():
        raise UserError(f"{folder.name} has no {BEST_POLICIES}; it comes when the run ends, after evaluations")
    return Source(load_policy(path), folder.config().seed, {"run": identity.run, "round": "best"})


def export(
    folder: RunFolder,
    to: str,
    out: Path | None = None,
    best: bool = False,
    episodes: int | None = None,
    greedy: bool = False,
    rounds: tuple[int, int] | None = None,
) -> Exported:
    """Writes the newest policies of a run, or the `best`, in a format of `FORMATS`; in one of episodes `episodes` that
    they play, or those that actors stored in `rounds`, the first and the last.

    Raises `UserError` for what does not fit the format, and what the run does not have.
    """
    if to not in FORMATS:
        raise UserError(f"there is no format {to}; known are {', '.join(FORMATS)}")
    out = out or Path("exports") / f"{folder.path.resolve().name}-{to}"
    if to in policy_files.FORMATS:
        if episodes is not None or greedy or rounds:
            raise UserError(f"--to {to} writes policies; leave --episodes, --greedy and --rounds away")
        return _export_policies(folder, to, out, best)
    if (episodes is None) == (rounds is None):
        raise UserError(f"--to {to} writes episodes; say which: --episodes N to play them, or --rounds A-B")
    if episodes is not None:
        return _export_episodes(folder, to, out, best, episodes, greedy)
    assert rounds is not None
    if best or greedy:
        raise UserError("--rounds writes what actors stored; leave --best and --greedy away")
    return _export_rounds(folder, to, out, rounds)


def _export_policies(folder: RunFolder, format_: str, out: Path, best: bool) -> Exported:
    """Writes the policies; raises `UserError`."""
    require_free(out)
    from_run = source(folder, best)
    files = policy_files.policy_files(from_run.team, format_, from_run.origin)
    write_folder(out, files)
    of = "the best evaluation" if best else f"round {from_run.origin['round']:,}"
    count = sum(map(from_run.team.plays, range(len(from_run.team.agents))))
    policies = f"policies of {count} agents" if count > 1 else "policy of 1 agent"
    line = f"{policies}, of {of}; try: python {out / policy_files.PLAYER}"
    return Exported(out, _sizes(files), line)


def _export_episodes(folder: RunFolder, format_: str, out: Path, best: bool, episodes: int, greedy: bool) -> Exported:
    """Plays episodes and writes them; raises `UserError`."""
    require_free(out)
    dataset_files.require_format(format_)
    from_run = source(folder, best)
    team = from_run.team
    greedily = greedy or team.greedy
    try:
        episodes_played = list(play_episodes(team, episodes, greedily, from_run.seed, str(from_run.origin["round"])))
    except (BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(str(error)) from error
    how = "greedy" if greedily else "sampled"
    if greedily and not greedy:
        how += " (these policies have no probabilities to sample from)"
    return _write_episodes(episodes_played, format_, out, team, from_run.origin | {"greedy": greedily}, how)


def _export_rounds(folder: RunFolder, format_: str, out: Path, rounds: tuple[int, int]) -> Exported:
    """Writes what actors stored in these rounds, the first and the last; raises `UserError` where it is not stored."""
    require_free(out)
    dataset_files.require_format(format_)
    _, team = load_team(folder)
    with look(folder) as run:
        episodes = stored_episodes(run, team, *rounds)
        origin = {"run": run.plan.run, "rounds": rounds}
    return _write_episodes(episodes, format_, out, team, origin, "as actors stored them")


def _write_episodes(
    episodes: list[Episode], format_: str, out: Path, team: TeamPolicy, origin: dict[str, Any], how: str
) -> Exported:
    about = {**origin, "task": msgspec.to_builtins(without_secrets(team.task)), "spec": msgspec.to_builtins(team.spec)}
    files = dataset_files.dataset_files(episodes, format_, about)
    write_folder(out, files)
    steps = sum(one.length for one in episodes)
    return Exported(out, _sizes(files), f"{len(episodes):,} episodes, {steps:,} steps, {how}")


def _sizes(files: dict[str, bytes]) -> dict[str, int]:
    return {name: len(body) for name, body in files.items()}
