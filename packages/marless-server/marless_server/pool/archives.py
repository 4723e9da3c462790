"""Archives of runs, which are not written while the run trains."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from marless.runs.folder import RunFolder
from marless.runs.upkeep.archives import SUFFIX, pack
from marless_server.store.runs import Conflict

_PREFIX, DELETED = ".archive-", ".deleted-"


class ArchiveClaims:
    """The runs that something uses: the pool trains them, or an archive of them is being written."""

    def __init__(self) -> None:
        self._runs, self._lock = set[str](), Lock()

    def take(self, run: str) -> bool:
        """Claim a run. Return False if it has a claim."""
        with self._lock:
            is_free = run not in self._runs
            self._runs.add(run)
        return is_free

    def give(self, run: str) -> None:
        """Give up the claim on a run."""
        with self._lock:
            self._runs.discard(run)


def remove_leftovers(places: Path) -> None:
    """Remove the archives and deleted runs of a server that was killed."""
    for path in (*places.glob(f"{_PREFIX}*"), *places.glob(f"{DELETED}*")):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def archive(folder: RunFolder, claims: ArchiveClaims, places: Path) -> Iterator[Path]:
    """Write the archive of a run, which exists within the block. Raises `Conflict` while the run is in use."""
    name = folder.path.name
    if not folder.begun:
        raise Conflict("it has not begun, so there is nothing to fetch")
    if not claims.take(name):
        raise Conflict("it trains, or another archive of it is being written; fetch it when it has stopped or ended")
    with TemporaryDirectory(dir=places, prefix=_PREFIX) as place:
        path = Path(place) / f"{name}{SUFFIX}"
        try:
            pack(folder, path)
        finally:
            claims.give(name)
        yield path
