"""Check whether this user made a run. A run from elsewhere may run the code that it names only with permission."""

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import is_option
from marless.coordinator.config.loading import read_toml
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import DEFAULT_ALGORITHM, RunConfig
from marless.coordinator.errors import UserError
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.task_names import BUILT_IN, FAMILIES, GUESTS
from marless.reports.user_code import captured_source
from marless.runs.folder import CONFIG, RunFolder
from marless.runs.integrity import seals
from marless.runs.run_store import RUNS
from marless.user_errors import path_of

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.:]*")
# The keys of a resource that start a program or name a service.
_OUTSIDE = (".command", ".http")


def playable(run: str | os.PathLike[str], trust: bool) -> RunFolder:
    """Return the folder of a run for playing. Raises `UserError` if it may run untrusted code."""
    folder = RUNS.find(path_of(run))
    require_trust(folder, trust, "pass trust=True")
    return folder


def require_trust(folder: RunFolder, trust: bool, how: str) -> None:
    """Returns if the run is this user's own or names no code of others, or if `trust` is set, which is remembered.

    Raises `UserError` otherwise, which ends with `how` to set it.
    """
    doubt = doubt_of(folder)
    if doubt and not trust:
        raise UserError(f"{doubt}: read {folder.path / CONFIG}, then {how}")
    if doubt:
        seals.seal(folder.path)
    captured_source.use(folder.path)


def doubt_of(folder: RunFolder) -> str:
    """Return the reason to read the run's configuration before it is played, or ''."""
    code = [] if seals.is_sealed(folder.path) else _named_code(flatten(read_toml(folder.path / CONFIG)))
    return f"{folder.name} was not made by you on this machine, and runs {', '.join(code)}" if code else ""


def named_code(config: RunConfig) -> list[str]:
    """The settings that name code of others, or a service, which is sent a token of the user, as ``key=value``."""
    return _named_code(flatten(msgspec.to_builtins(config)))


def _named_code(values: Mapping[str, Any]) -> list[str]:
    texts = {key: value for key, value in values.items() if isinstance(value, str) and value and not is_option(key)}
    code = {key: value for key, value in texts.items() if _REFERENCE.fullmatch(value)}
    code |= {key: value for key, value in texts.items() if key.startswith("resources.") and key.endswith(_OUTSIDE)}
    families = tuple(start for start in (*FAMILIES.built_in, *GUESTS) if start.endswith("/"))
    task, algorithm = texts.get("task.name", ""), texts.get("algorithm.name", DEFAULT_ALGORITHM)
    if task and task not in BUILT_IN and not task.startswith((*families, "pettingzoo:")):
        code["task.name"] = task
    if not ALGORITHMS.is_ours(algorithm):
        code["algorithm.name"] = algorithm
    return [f"{key}={value}" for key, value in code.items()]


def seal(folder: RunFolder, config: RunConfig) -> None:
    """Marks the run's configuration, which is `config`, as known to this user if it names code of others."""
    if named_code(config):
        seals.seal(folder.path)
