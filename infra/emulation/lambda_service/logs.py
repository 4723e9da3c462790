"""What functions write down: one file for each log group, beside the account."""

import threading
from pathlib import Path

# A file that has grown so large makes room; the one before it is kept.
_LARGEST = 16 << 20


class LogFiles:
    """The log groups below `folder`: ``/marless/stack/actor`` is the file ``marless-stack-actor.log``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def write(self, group: str, stream: str, lines: list[str]) -> None:
        """Appends lines to the group's file, whole."""
        path = self.path(group)
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{stream[-8:]} {line}\n" for line in lines))
            if path.stat().st_size > _LARGEST:
                path.replace(path.with_suffix(".log.1"))

    def path(self, group: str) -> Path:
        """The group's file."""
        return self._folder / f"{group.strip('/').replace('/', '-')}.log"
