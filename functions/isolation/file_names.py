"""Names and hashes of the files that a user's code consists of and reads, alike on every machine."""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from marless.functions.isolation.foreign_imports import is_trusted

PACKAGE = "package "
"""The prefix of the name of an installed package, which counts as one file."""
KEPT = "kept "
"""The prefix of the name of a file that produced a kept answer."""
LOADED = "loaded "
"""The prefix of the name of a module that the process loaded before the run began."""
ABSENT = "absent"
"""The value of a missing file that code looked for."""
WRITTEN = "written"
"""The value of a file that a process of the run has written, which differs from time to time."""
_CODE = (".py", ".so", ".pyd")
# People and shells write these files next to code. If Python code reads such a file, it counts all the same.
_NOTES = (".md", ".rst", ".ipynb", ".toml", ".log", ".out", ".err")
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = os.path.dirname(os.__file__)
_PROGRAM = Path(__file__).parents[2].resolve()
# In a checkout, links of the program lead to the folders next to it.
_PARTS = (*(_PROGRAM / name for name in ("functions", "coordinator", "infra")), _PROGRAM.with_name("packages"))
_OURS = tuple(f"{path.resolve()}/" for path in (_PROGRAM, *_PARTS))
_SYSTEM = (
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/",
    "/etc/",
    "/bin/",
    "/sbin/",
    "/lib",
    "/usr/bin/",
    "/usr/lib",
    "/usr/share/",
)
_IGNORED = (*_OURS, *_SYSTEM, _LIBRARY + os.sep)
# Folders that runs write.
_OUTPUT = ("runs", "studies")
# So much data below a package's folder counts, at most: files, and bytes of each.
_MOST_DATA, _LARGEST_DATA = 1000, 16 << 20
_DIGITS = 12
# Of a larger file the size and both ends count.
_LARGE, _END = 64 << 20, 1 << 20


def is_code(name: str) -> bool:
    """Return True for a name of code, and False for data."""
    return name.startswith(PACKAGE) or name.endswith(_CODE)


def installed_package(path: str) -> str:
    """Return the name of the installed package that the file belongs to, '' for none."""
    parts = path.split(os.sep)
    place = next((place for place, part in enumerate(parts[:-1]) if part in _INSTALLED), None)
    return "" if place is None else parts[place + 1].partition(".")[0]


def file_name(path: str, folder: str) -> str:
    """Return the name of a user's file: its path below the nearest folder of `sys.path` or the current `folder`, else
    below home. It is '' for files of Python, of the system and of MARLess, for hidden and for temporary ones.

    It is also '' for the code of an installed package.
    """
    if package := installed_package(path):
        if is_trusted(package) or path.endswith((*_CODE, ".pyc", ".pth")) or "-info" + os.sep in path:
            return ""
    elif path.startswith(_IGNORED):
        return ""
    folders = [
        search_folder
        for search_folder in (*sys.path, folder)
        if search_folder and path.startswith(search_folder.rstrip(os.sep) + os.sep)
    ]
    name, home = path, os.path.expanduser("~")
    if folders:
        name = os.path.relpath(path, max(folders, key=len))
    elif path.startswith(home + os.sep):
        name = f"~{path[len(home) :]}"
    elif path.startswith(_temporary_folder() + os.sep):
        return ""
    return "" if any(part.startswith(".") or part == "__pycache__" for part in name.split(os.sep)) else name


def _temporary_folder() -> str:
    """The folder of `tempfile.gettempdir`, without its lock: the audit hook runs while others hold it."""
    variables = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return str(tempfile.tempdir or next(filter(None, variables), "/tmp")).rstrip(os.sep)


def found_file(name: str, folder: str) -> str | None:
    """Return the path of the file that has this name here, or None. Workers look in this order."""
    if name.startswith(("~", os.sep)):
        paths: Iterable[str] = [os.path.expanduser(name)]
    else:
        paths = (os.path.join(search_folder, name) for search_folder in (*sys.path, folder))
    return next((path for path in paths if os.path.isfile(path)), None)


def value_of(path: str) -> str | None:
    """Return the first digits of the SHA-256 of a file's bytes, `ABSENT` if there is no file.

    Return None for a folder, a device and an unreadable file.
    """
    digest = hashlib.sha256()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            if (size := os.fstat(file.fileno()).st_size) > _LARGE:
                digest.update(f"{size}".encode() + file.read(_END))
                file.seek(-_END, os.SEEK_END)
            for chunk in iter(lambda: file.read(_END), b""):
                digest.update(chunk)
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return None
    return digest.hexdigest()[:_DIGITS]


def package_value(name: str, places: Iterable[str]) -> str:
    """Return the version of an installed package and a hash of its sources and of the sizes of its compiled modules.

    `places` are its folders, or its one file.
    """
    from importlib.metadata import PackageNotFoundError, version

    digest = hashlib.sha256()
    for place in map(Path, places):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in _CODE:
                content = path.read_bytes() if path.suffix == ".py" else b"%d" % path.stat().st_size
                digest.update(f"{path.relative_to(place.parent)}\0".encode() + content)
    with suppress(PackageNotFoundError):
        return f"{version(name)} {digest.hexdigest()[:_DIGITS]}"
    return digest.hexdigest()[:_DIGITS]


def data_below(folder: str) -> Iterator[str]:
    """The paths of the data in a package's folder, which a library may read by itself."""
    return islice(filter(_is_small, _data_below(folder)), _MOST_DATA)


def _data_below(folder: str) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in _OUTPUT)
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((*_CODE, *_NOTES, ".pyc")):
                yield os.path.join(root, name)


def _is_small(path: str) -> bool:
    try:
        return os.path.getsize(path) <= _LARGEST_DATA
    except OSError:
        return False
