"""The stored teams. Each has three files in the folder `policies`: networks, the configuration of its training, and a
record."""

import difflib
import shlex
from pathlib import Path

import msgspec

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_json
from marless.functions.encoding import to_json_file
from marless.program import program_name
from marless.reports.atomic_files import write_for_user
from marless.reports.statistics import FinalReturn

FOLDER = Path(__file__).parent / "policies"
POLICIES, CONFIGURATION, RECORD = ".safetensors", ".toml", ".json"


class StoredTeam(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of a team.

    `settings` stood behind ``marless train`` in its training, by the program of `commit`. `sha256` is the hash of the
    file with the networks, and `size` its bytes. `weights_sha256` is the run's hash of all weights, critics and
    optimisers included. `returns` are of the run's final evaluation: greedy, undiscounted, summed over all agents or
    over the agents of `side`. On `processors` the training gave `weights_sha256`.
    """

    name: str
    task: str
    algorithm: str
    agents: int
    seed: int
    settings: tuple[str, ...]
    commit: str
    rounds: int
    env_steps: int
    sha256: str
    size: int
    weights_sha256: str
    returns: FinalReturn
    side: str = ""
    processors: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that trained it."""
        return shlex.join(["marless", "train", *self.settings])

    def configuration(self, folder: Path = FOLDER) -> RunConfig:
        """Return every setting of its training."""
        return load(folder / f"{self.name}{CONFIGURATION}")

    def write(self, folder: Path = FOLDER) -> None:
        """Replace the record in the folder. Raises `UserError` if it cannot be written."""
        write_for_user(folder / f"{self.name}{RECORD}", to_json_file(self))


def stored_teams(folder: Path = FOLDER) -> list[StoredTeam]:
    """Return all records of the folder, by name. Raises `UserError` for one that cannot be read."""
    return [read_json(path, StoredTeam) for path in sorted(folder.glob(f"*{RECORD}"))]


def stored_team(name: str, folder: Path = FOLDER) -> StoredTeam:
    """Return the record of a team. Raises `UserError`, with the nearest name, if there is none."""
    teams = {team.name: team for team in stored_teams(folder)}
    if name in teams:
        return teams[name]
    # Of a task's name, people type the last word.
    nearest = difflib.get_close_matches(name.rpartition("/")[2], teams, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]}?" if nearest else f"{program_name()} play lists all"
    raise UserError(f"the zoo has no team {name}: {hint}")
