"""ablation.json: an ablation's settings, so that the same command resumes it and a different one is refused."""

from pathlib import Path
from typing import Any

import msgspec

from marless.comparison.contrasts import Contrast
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.file_reading import UnreadableFile, read_json
from marless.functions.encoding import to_json_file
from marless.runs.folder import RunFolder
from marless.studies.cells import Value

FILE = "ablation.json"


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`settings`: the user's configuration without the seed. `arms`: the settings of each arm.

    `rollouts`: the constant number of rollouts by arm, where it was computed from another arm's runs. `headlines` are
    the contrasts that were declared at first.
    """

    settings: dict[str, Any]
    arms: dict[str, dict[str, Value]]
    rollouts: dict[str, int] = {}
    headlines: tuple[Contrast, ...] = ()


def read(folder: Path) -> Declaration | None:
    """The folder's study, or None for a new folder. Raises `ConfigError` if it is unreadable."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return read_json(path, Declaration)
    except UnreadableFile as error:
        raise ConfigError(f"{error}; choose another `out`") from error


def write(folder: Path, study: Declaration) -> None:
    """Writes the study durably. Raises `StorageFault`."""
    RunFolder(folder).write(FILE, to_json_file(study), durable=True)


def merge(folder: Path, old: Declaration | None, new: Declaration) -> Declaration:
    """Merges both studies. Arms may be added, not changed, and the first command's headlines stay.

    Raises `ConfigError` naming the change.
    """
    if old is None:
        return new
    _require_equal(folder, old.settings, new.settings, "")
    for name in old.arms.keys() & new.arms.keys():
        _require_equal(folder, old.arms[name], new.arms[name], f" in the arm {name}")
    if new.headlines and new.headlines != old.headlines:
        raise ConfigError(f"{folder} holds an ablation that declared other headlines, or none; choose another `out`")
    return msgspec.structs.replace(old, arms=old.arms | new.arms)


def _require_equal(folder: Path, old: dict[str, Any], new: dict[str, Any], where: str) -> None:
    before, now = flatten(old), flatten(new)
    for key in sorted(before.keys() | now.keys()):
        # Algorithms omit settings with their default value.
        stored_value, new_value = (values.get(key, "its default") for values in (before, now))
        if stored_value != new_value:
            what = f"{key} = {stored_value}{where}, not {new_value}"
            raise ConfigError(f"{folder} holds an ablation with {what}; choose another `out`")
