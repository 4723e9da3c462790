"""ablation.json: what an ablation's folder is of, so that the same command goes on and another one is refused."""

from pathlib import Path
from typing import Any

import msgspec

from coordinator.ablation.arms import Value, flat
from coordinator.config.schema import ConfigError
from coordinator.reports.files import replace
from functions.contract import StorageFault

FILE = "ablation.json"


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`settings`: the user's configuration without the seed. `arms`: settings that each arm puts over it.

    `rollouts`: the constant number of units by arm, where it was worked out from another arm's runs.
    """

    settings: dict[str, Any]
    arms: dict[str, dict[str, Value]]
    rollouts: dict[str, int] = {}


def read(folder: Path) -> Study | None:
    """What the folder is of, None for a new one; raises `ConfigError` when it cannot be told."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Study)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; give another --out") from error


def write(folder: Path, study: Study) -> None:
    """Puts it down, to survive a power loss; raises `StorageFault`."""
    try:
        replace(folder / FILE, msgspec.json.format(msgspec.json.encode(study), indent=2) + b"\n", durable=True)
    except OSError as error:
        raise StorageFault(f"cannot write {folder / FILE}: {error.strerror}; free disk space and try again") from error


def joined(folder: Path, old: Study | None, new: Study) -> Study:
    """Both together: arms may be added, none may change; raises `ConfigError` naming the first setting that differs."""
    if old is None:
        return new
    _require_equal(folder, old.settings, new.settings, "")
    for name in old.arms.keys() & new.arms.keys():
        _require_equal(folder, old.arms[name], new.arms[name], f" in the arm {name}")
    return Study(settings=old.settings, arms=old.arms | new.arms, rollouts=old.rollouts)


def _require_equal(folder: Path, old: dict[str, Any], new: dict[str, Any], where: str) -> None:
    before, now = flat(old), flat(new)
    for key in sorted(before.keys() | now.keys()):
        # Algorithms leave out what is as by default.
        held, asked = (values.get(key, "its default") for values in (before, now))
        if held != asked:
            what = f"{key} = {held}{where}, not {asked}"
            raise ConfigError(f"{folder} holds an ablation with {what}; give another folder with --out")
