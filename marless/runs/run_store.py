"""A store of runs: it creates, finds and lists runs by name, and knows which run is the latest."""

import re
import secrets
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from marless.coordinator.errors import UserError, broken_path
from marless.functions.errors import StorageFault
from marless.program import program_name
from marless.runs.folder import IDENTITY, RunFolder

LATEST = "latest"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class NamedRun(RunFolder):
    """The folder of a run in a store."""

    def __init__(self, store: "RunStore", name: str) -> None:
        super().__init__(store.root / name)
        self._store = store

    @property
    def name(self) -> str:
        """The name in the store."""
        return self.path.name

    def become_latest(self) -> None:
        """Make it the latest run of its store."""
        self._store.set_latest(self.name)


class RunStore:
    """The runs in the folder `root`. A link in it, `latest`, points at the run that was driven last."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, name: str, where: str = "--run") -> RunFolder:
        """Return the folder that a run of this name has or would have. Raise as `require_name`."""
        require_name(name, where)
        return NamedRun(self, name)

    def create(self, name: str | None, suggestion: str) -> RunFolder:
        """Make a folder called `name`, or after `suggestion` and the time. Raise `UserError` for a bad or taken name.

        If a command was killed before it wrote plan.json, its folder is used again; see `RunFolder.begin`.
        """
        if name is not None:
            require_name(name)
        stem = name or f"{suggestion}-{datetime.now():%Y%m%d-%H%M%S}"
        self.root.mkdir(exist_ok=True)
        for serial in range(1, 1000):
            folder = NamedRun(self, stem if serial == 1 else f"{stem}-{serial}")
            try:
                folder.path.mkdir()
            except FileExistsError:
                if name is None:
                    continue
                if not folder.is_leftover():
                    raise folder.name_taken() from None
            return folder
        raise UserError(f"too many runs are called {stem}; name the run yourself")

    def find(self, text: str) -> RunFolder:
        """Return the run of this name or path, or the `latest`. Raise `UserError` if there is none."""
        if text == LATEST and not (self.root / LATEST / IDENTITY).is_file():
            raise UserError(self._without_latest())
        path = next((path for path in self._candidates(text) if path.is_dir()), None)
        if path is None:
            problem = broken_path(self._candidates(text)[0])
            raise UserError(problem or f"there is no run {text}; `{program_name()} runs` lists them")
        # A newer run must not change which folder this is, so the link is read once.
        real = path.resolve()
        is_inside = real.parent == self.root.resolve()
        folder = NamedRun(self, real.name) if is_inside else RunFolder(path)
        if not folder.begun:
            raise UserError(f"{folder.path} is not a run: it has no {IDENTITY}")
        return folder

    def holds(self, text: str) -> bool:
        """Return whether there is a run of this name or path."""
        return any((path / IDENTITY).is_file() for path in self._candidates(text))

    def _candidates(self, text: str) -> tuple[Path, Path]:
        is_name = text.strip(".") and Path(text).name == text
        return self.root / text if is_name else Path(text), Path(text)

    def folders(self) -> list[RunFolder]:
        """Return all runs by name. Raise `UserError` if the root is a broken link or a file."""
        if not self.root.is_dir() and (problem := broken_path(self.root)):
            raise UserError(problem)
        return [NamedRun(self, path.name) for path in runs_in(self.root)]

    def set_latest(self, name: str) -> None:
        """Point `latest` at the run of this name. Raise `StorageFault`."""
        link, temporary = self.root / LATEST, self.root / f".{LATEST}.{secrets.token_hex(4)}"
        try:
            temporary.symlink_to(name)
            temporary.replace(link)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StorageFault(f"cannot point {link} at the run: {error.strerror}") from error

    def repair_latest(self) -> None:
        """If the latest run is gone, point `latest` at the newest run, or remove it without a run."""
        link = self.root / LATEST
        if link.is_symlink() and not link.exists():
            if newest := self._newest():
                newest.become_latest()
            else:
                link.unlink()

    def _without_latest(self) -> str:
        newest, link = self._newest(), self.root / LATEST
        what_to_do = (
            f"the newest run is {newest.argument}: name it" if newest else f"start one with: {program_name()} train"
        )
        if link.is_symlink():
            return f"the latest run, {link.readlink().name}, was removed; {what_to_do}"
        return f"there is no latest run in {self.root} of this folder; {what_to_do}"

    def _newest(self) -> RunFolder | None:
        begun_at: list[tuple[str, str, RunFolder]] = []
        for folder in self.folders():
            with suppress(UserError):
                begun_at.append((folder.identity().created, folder.name, folder))
        return max(begun_at, key=lambda entry: entry[:2])[2] if begun_at else None


def require_name(name: str, where: str = "--run") -> None:
    """Raise `UserError` if `name` cannot be a run's name. `where` is the option or argument that has it."""
    if not _NAME.fullmatch(name) or name == LATEST:
        raise UserError(
            f"{where} {name}: a run's name has letters, digits, '.', '_' and '-' only, does not start with a dot,"
            f" has at most 100 characters and is not '{LATEST}'"
        )


def runs_in(parent: Path) -> list[Path]:
    """Return the runs of a folder, by name, without links and runs that are being removed."""
    paths = sorted(parent.iterdir()) if parent.is_dir() else []
    paths = [path for path in paths if not path.is_symlink() and not path.name.startswith(".")]
    return [path for path in paths if (path / IDENTITY).is_file()]


RUNS = RunStore(Path("runs"))
"""The runs under the current folder."""
