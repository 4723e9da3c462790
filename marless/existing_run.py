"""The choices if Python trains a run of an existing name again, for example in a repeated notebook cell."""

import logging
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.functions.encoding import to_json_text
from marless.runs.folder import RunFolder
from marless.runs.run_store import RUNS
from marless.runs.train_and_resume import is_limit

Exist = Literal["error", "resume", "replace"]

_ASIDE = ".replaced"
# Earlier programs derived the sizes of evaluations from the limits and stored them. A run keeps these sizes.
_SIZED_BY_LIMITS = ("evaluation.final_episodes", "evaluation.episodes")


def find(name: str | None, exist: Exist) -> RunFolder | None:
    """Return the run of that name, or None. Raises `UserError` if there is a run and `exist` gives no choice, and for
    invalid choices."""
    if exist not in get_args(Exist):
        raise UserError(f"exist={exist!r}: it is one of {', '.join(map(repr, get_args(Exist)))}")
    if name is None:
        if exist != "error":
            raise UserError(f"exist={exist!r} needs the name of the run, such as run='first'")
        return None
    folder = RUNS.place(name, "run")
    if not folder.begun:
        return None
    if exist == "error":
        raise UserError(
            f"there is a run {name} already: pass exist='resume' to continue it, exist='replace' to train a new run in"
            " its place, or another name"
        )
    return folder


def new_limits(folder: RunFolder, config: RunConfig, explicit: Collection[str], backend: str) -> list[str]:
    """Return limits and loggers of `config` that the run lacks, as ``key=value``. Raises `UserError` if it was trained
    with other settings. Values derived from its limits are exempt, except the `explicit` keys, which the user set."""
    if (present := folder.identity().backend) != backend:
        raise UserError(f"{folder.name} is a run of the back-end {present}, not of {backend}; pick another name")
    old, new = (flatten(msgspec.to_builtins(each)) for each in (folder.config(), config))
    follow_limits = {*_SIZED_BY_LIMITS} - {*explicit}
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key) and key not in follow_limits]
    texts = [f"{key}={to_json_text(new[key])}" for key in keys if new.get(key) is not None]
    other = next((key for key in keys if new.get(key) is None or not is_limit(key)), None)
    if other is not None:
        was, is_now = (to_json_text(each.get(other)) for each in (old, new))
        raise UserError(
            f"{folder.name} was trained with {other}={was}, not {is_now}, so it cannot go on with these settings;"
            " pick another name, or delete and train it again with exist='replace'"
        )
    return texts


@contextmanager
def replaced(folder: RunFolder) -> Iterator[None]:
    """Move the run away. Afterwards it is deleted if a new run has its place, otherwise it returns.

    Raises `UserError` for a run that is being trained, for one in the cloud, and for a link to one.
    """
    if folder.path.is_symlink():
        raise UserError(f"{folder.path} is a link, which exist='replace' does not delete; pick another name")
    if folder.identity().deployment_ref is not None:
        raise UserError(
            f"{folder.name} is a run in the cloud, which exist='replace' does not delete; pick another name"
        )
    aside = folder.path.parent / _ASIDE / f"{folder.path.name}-{secrets.token_hex(4)}"
    aside.parent.mkdir(exist_ok=True)
    with folder.driving():
        folder.path.rename(aside)
    try:
        yield
    finally:
        if folder.begun:
            _delete(aside)
        else:
            shutil.rmtree(folder.path, ignore_errors=True)
            aside.rename(folder.path)
        with suppress(OSError):  # it holds another run
            aside.parent.rmdir()


def _delete(aside: Path) -> None:
    try:
        shutil.rmtree(aside)
    except OSError as error:
        line = f"the run that was replaced is still in {aside}, which cannot be deleted: {error.strerror}"
        logging.getLogger(__name__).warning(line)
