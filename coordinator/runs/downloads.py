"""A run's newest policies, brought to a folder where no later round of the run takes them away."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.errors import UserError
from coordinator.reports.policy import TeamPolicy
from coordinator.runs.documents import header_of
from coordinator.runs.episodes import link_objects
from coordinator.runs.folder import RunFolder
from coordinator.runs.stored import Stored, look
from functions import codec
from functions.contract import NoSuchObject
from infra.local.files import FileStorage

# While a run goes on, its older objects disappear; by then it has newer policies.
_TRIES = 5


def download(folder: RunFolder, temporary: Path) -> Stored:
    """The run as it stands, the policies of its newest state under `temporary`/objects; raises `UserError`."""
    for _ in range(_TRIES):
        with look(folder) as found:
            if not found.kept.policies:
                raise UserError(f"{folder.name} has no policies yet")
            try:
                _download_policies(folder, found, temporary / "objects")
            except (FileNotFoundError, NoSuchObject):
                continue
            return found
    raise UserError(f"{folder.name}: objects of its newest policies are missing; see marless verify {folder.name}")


@contextmanager
def temporary_download(folder: RunFolder) -> Iterator[tuple[Stored, Path]]:
    """What `download` gives, and the folder, which is there until the caller is done."""
    with TemporaryDirectory(prefix="marless-") as temporary:
        yield download(folder, Path(temporary)), Path(temporary)


def team_of(folder: RunFolder) -> tuple[Stored, TeamPolicy]:
    """The run as it stands, and its newest policies, ready to play; raises `UserError`."""
    with temporary_download(folder) as (found, temporary):
        objects, tensors, team = FileStorage(temporary / "objects"), codec.Tensors(), found.kept.team
        for ref in found.kept.policies:
            tensors |= codec.decode(codec.verified(ref, objects.get(ref.key)), ref.key)
    assert team is not None
    return found, TeamPolicy(header_of(found.plan, found.kept.env_spec, team), tensors)


def _download_policies(folder: RunFolder, found: Stored, target: Path) -> None:
    """A run in the cloud is played here too: its policies are fetched."""
    if found.identity.deployment_ref is None:
        link_objects(folder.path / "objects", target, found.kept.policies)
        return
    objects = FileStorage(target)
    for ref in found.kept.policies:
        objects.put(ref.key, codec.verified(ref, found.storage.get(ref.key)))
