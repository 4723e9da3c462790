"""Export for `marless export`: a run's policies, or episodes that they play, in a separate folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.errors import UserError
from marless.exports import dataset_files, policy_files
from marless.exports.destination import require_free, write_folder
from marless.exports.episode_recording import Episode, play_episodes
from marless.exports.replayed_rounds import ALONE, PlayAgain, replayed_rounds
from marless.exports.sampled_episodes import sampled_episodes
from marless.exports.stored_rounds import stored_rounds, stores
from marless.functions.environments.base import EnvironmentFault, Unsupported
from marless.functions.errors import BadRequest, CorruptObject, ForeignObject, NoSuchObject
from marless.functions.function_specs import KINDS
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.policy import TeamPolicy, load_policy, without_secrets
from marless.reports.section import Section
from marless.reports.text import counted
from marless.runs.folder import BEST_POLICIES, RunFolder
from marless.runs.resources.resources_of_run import resources_of
from marless.runs.run_policies import load_team
from marless.runs.stored_run import Stored, look

PEFT = "peft"
FORMATS = (*policy_files.FORMATS, *dataset_files.FORMATS, PEFT)


@dataclass(frozen=True, repr=False)
class Exported(ShownResult):
    """The files that `export` wrote, by name with their sizes in bytes, and a line about them."""

    folder: Path
    files: dict[str, int]
    line: str

    @property
    def headline(self) -> str:
        """Return the folder and the line about it."""
        return f"{self.folder}, {self.line}"

    @property
    def sections(self) -> list[Section]:
        """Return the files with their sizes."""
        return [Section("", ("file", "bytes"), tuple((name, f"{size:,}") for name, size in self.files.items()))]


@dataclass(frozen=True)
class Source:
    """Policies to export, and where they are from."""

    team: TeamPolicy
    seed: int
    origin: dict[str, Any]


def source(folder: RunFolder, best: bool, agents: int | None = None) -> Source:
    """The newest policies of a run, or the policies of its best evaluation. Raises `UserError` if there are none."""
    if not best:
        run, team = load_team(folder, agents)
        return Source(team, run.plan.config.seed, {"run": run.plan.run, "round": run.saved_state.round})
    identity, path = folder.identity(), folder.path / BEST_POLICIES
    if not path.is_file():
        raise UserError(f"{folder.name} has no {BEST_POLICIES}; it comes when the run ends, after evaluations")
    team = load_policy(path)
    team = team.of_size(agents) if agents else team
    return Source(team, folder.config().seed, {"run": identity.run, "round": "best"})


def export(
    folder: RunFolder,
    to: str,
    out: Path | None = None,
    best: bool = False,
    episodes: int | None = None,
    greedy: bool = False,
    rounds: tuple[int, int] | None = None,
    again: PlayAgain = ALONE,
    role: str | None = None,
    agents: int | None = None,
) -> Exported:
    """Writes the newest policies of a run, or the `best`, in a format of `FORMATS`. A format of episodes gets
    `episodes` that they play, or training's episodes in `rounds`, the first and the last. They are played `again` if
    the run does not store them. `role` selects the agents that speak, to write only their adapter. `agents` is the size
    of the team that plays, if it differs from training.

    Raises `UserError` for arguments that do not fit the format, and for parts that the run lacks.
    """
    if to not in FORMATS:
        raise UserError(f"there is no format {to}; known are {', '.join(FORMATS)}")
    out = out or Path("exports") / f"{folder.path.resolve().name}-{to}"
    if to not in dataset_files.FORMATS:
        if episodes is not None or greedy or rounds:
            raise UserError(f"{to} writes policies; leave episodes, greedy and rounds away")
        return _export_policies(folder, to, out, best, role, agents)
    _require_networks(folder, to, role)
    if (episodes is None) == (rounds is None):
        raise UserError(f"{to} writes episodes; say how many to play (episodes), or of which rounds (rounds)")
    if episodes is not None:
        return _export_episodes(folder, to, out, best, episodes, greedy, agents)
    assert rounds is not None
    if best or greedy or agents:
        raise UserError("rounds writes what was sampled in training; leave best, greedy and agents away")
    return _export_rounds(folder, to, out, rounds, again)


def _require_networks(folder: RunFolder, to: str, role: str | None) -> None:
    if folder.identity().inputs.language_model is not None:
        raise UserError(f"{folder.name}: agents that speak have adapters and no networks of {to}; the format is {PEFT}")
    if role is not None:
        raise UserError(f"{to} writes all agents; leave role away")


def _export_adapters(folder: RunFolder, out: Path, best: bool, role: str | None) -> Exported:
    files, roles = KINDS["language"].tool("adapter_files:adapter_files")(folder, best, role)
    write_folder(out, files)
    of = f"adapters of {', '.join(roles)}" if len(roles) > 1 else f"the adapter of {roles[0]}"
    return Exported(out, _sizes(files), f"{of}; load with peft.PeftModel.from_pretrained")


def _export_policies(
    folder: RunFolder, format_: str, out: Path, best: bool, role: str | None, agents: int | None
) -> Exported:
    require_free(out)
    if format_ == PEFT:
        return _export_adapters(folder, out, best, role)
    _require_networks(folder, format_, role)
    from_run = source(folder, best, agents)
    files = policy_files.policy_files(from_run.team, format_, from_run.origin)
    write_folder(out, files)
    of = "the best evaluation" if best else f"round {from_run.origin['round']:,}"
    count = sum(map(from_run.team.plays, range(len(from_run.team.agents))))
    policies = f"policies of {count} agents" if count > 1 else "policy of 1 agent"
    needed = " (needs onnxruntime)" if format_ == "onnx" else ""
    line = f"{policies}, of {of}; try: python {out / policy_files.PLAYER}{needed}"
    return Exported(out, _sizes(files), line)


def _export_episodes(
    folder: RunFolder, format_: str, out: Path, best: bool, episodes: int, greedy: bool, agents: int | None
) -> Exported:
    require_free(out)
    dataset_files.require_format(format_)
    from_run = source(folder, best, agents)
    team = from_run.team
    greedily = greedy or team.greedy
    try:
        with resources_of(folder):
            stream = str(from_run.origin["round"])
            episodes_played = list(play_episodes(team, episodes, greedily, from_run.seed, stream))
    except (BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(str(error)) from error
    how = "greedy" if greedily else "sampled"
    if greedily and not greedy:
        how += " (these policies have no probabilities to sample from)"
    files = dataset_files.dataset_files(episodes_played, format_, _about(team, from_run.origin | {"greedy": greedily}))
    write_folder(out, files)
    return Exported(out, _sizes(files), _counts(episodes_played, how))


def stores_rounds(folder: RunFolder, rounds: tuple[int, int]) -> bool:
    """Return True if the run stores the trajectories of these rounds, the first and the last.

    Raises `UserError` unless the run has finished them.
    """
    with look(folder) as run:
        return _stores_finished(folder, run, rounds)


def _stores_finished(folder: RunFolder, run: Stored, rounds: tuple[int, int]) -> bool:
    done, (first, last) = run.saved_state.round, rounds
    if not 1 <= first <= last <= done:
        raise UserError(
            f"{folder.name} has finished {counted(done, 'round')}; rounds {first}-{last} are not among them"
        )
    return stores(run, first, last)


def _export_rounds(folder: RunFolder, format_: str, out: Path, rounds: tuple[int, int], again: PlayAgain) -> Exported:
    require_free(out)
    dataset_files.require_format(format_)
    _, team = load_team(folder)
    with look(folder) as run:
        is_stored = _stores_finished(folder, run, rounds)  # of the state that is read: a run that trains deletes rounds
        try:
            read = stored_rounds(run, *rounds) if is_stored else replayed_rounds(folder, run, *rounds, again)
        except (CorruptObject, ForeignObject, NoSuchObject) as error:
            raise UserError(f"{folder.name}: {error}") from error
        origin = {
            "run": run.plan.run,
            "rounds": rounds,
            "origins": list(dict.fromkeys(origin for one in read for origin in one.origins.values())),
        }
    episodes = sampled_episodes(team, read)
    files = dataset_files.sampled_files(episodes, format_, _about(team, origin))
    write_folder(out, files)
    return Exported(out, _sizes(files), _counts(episodes, "as the run stored them" if is_stored else "played again"))


def _about(team: TeamPolicy, origin: dict[str, Any]) -> dict[str, Any]:
    return {**origin, "task": msgspec.to_builtins(without_secrets(team.task)), "spec": msgspec.to_builtins(team.spec)}


def _counts(episodes: Sequence[Episode], how: str) -> str:
    return f"{len(episodes):,} episodes, {sum(one.length for one in episodes):,} steps, {how}"


def _sizes(files: dict[str, bytes]) -> dict[str, int]:
    return {name: len(body) for name, body in files.items()}
