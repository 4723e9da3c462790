"""Whether this user made a run, and what of its configuration is code: a run from elsewhere runs none unasked.

A run's folder holds a seal of its config.toml, made with a key that this user alone has, outside of the folder. So a
run that is copied, moved or renamed stays the user's own, and a configuration that somebody else wrote has no seal.
"""

import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from marless.coordinator.config.config_keys import is_option
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.task_names import BUILT_IN, FAMILIES, GUESTS
from marless.functions.resources.settings import Resource
from marless.reports.user_code import captured_source
from marless.runs.folder import CONFIG, RunFolder
from marless.runs.run_store import RUNS

_SEAL = ".seal"
_KEY_BYTES = 32
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.:]*")


def playable(run: str | os.PathLike[str], trust: bool) -> RunFolder:
    """The folder of a run that Python is to play; raises `UserError` where it may run code that nobody trusts."""
    folder = RUNS.find(os.fspath(run))
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
        seal(folder, folder.config())
    captured_source.use(folder.path)


def doubt_of(folder: RunFolder) -> str:
    """Why the run's configuration has to be read before the run is played; '' where it has not."""
    code = [] if _is_sealed(folder) else named_code(folder.config())
    return f"{folder.name} was not made by you on this machine, and runs {', '.join(code)}" if code else ""


def named_code(config: RunConfig) -> list[str]:
    """The settings that name code of others, or a service, which is sent a token of the user, as ``key=value``."""
    values = flatten(msgspec.to_builtins(config))
    code = [
        f"{key}={value}"
        for key, value in values.items()
        if isinstance(value, str) and _REFERENCE.fullmatch(value) and not is_option(key)
    ]
    code += [f"resources.{name}.{each}" for name, one in config.resources.items() for each in _outside(one)]
    families = tuple(start for start in (*FAMILIES.built_in, *GUESTS) if start.endswith("/"))
    task, algorithm = config.task.name, config.algorithm.name
    if task not in BUILT_IN and not task.startswith((*families, "pettingzoo:")):
        code.append(f"task.name={task}")
    return [*code, *([] if ALGORITHMS.is_ours(algorithm) else [f"algorithm.name={algorithm}"])]


def _outside(resource: Resource) -> list[str]:
    """The settings of a resource that start a program or name a service; that of a function is found by its form."""
    values = {"command": resource.command, "http": resource.http}
    return [f"{key}={value}" for key, value in values.items() if value]


def seal(folder: RunFolder, config: RunConfig) -> None:
    """Marks the run's configuration, which is `config`, as known to this user if it names code of others.

    Without a place for the key it stays unknown.
    """
    if not named_code(config):
        return
    with suppress(OSError):
        key = _key(create=True)
        if key is not None:
            (folder.path / _SEAL).write_text(_mac(key, folder), encoding="ascii")


def _is_sealed(folder: RunFolder) -> bool:
    try:
        key, text = _key(create=False), (folder.path / _SEAL).read_bytes()
        return key is not None and hmac.compare_digest(text, _mac(key, folder).encode())
    except OSError:
        return False


def _mac(key: bytes, folder: RunFolder) -> str:
    return hmac.new(key, (folder.path / CONFIG).read_bytes(), "sha256").hexdigest()


def _key(create: bool) -> bytes | None:
    """This user's key; None where there is none."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    if state.startswith("~"):  # this user has no home folder
        return None
    path = Path(state) / "marless" / "key"
    if create and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink()
    key = path.read_bytes()
    return key if len(key) == _KEY_BYTES else None
