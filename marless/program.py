"""The program on this machine: its name in the user's shell, which begins every advised command, and its cache
folder."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """`marless` where the shell finds this one by its name, else where it is: ``.venv/bin/marless`` where its
    environment is not active."""
    # `pip install --user` puts it in another folder than Python, and then it was called by its path or is on the path.
    script = _beside_python("marless") or _called("marless")
    return "marless" if script is None or _is_on_path(script) else as_typed(script)


def pip_name() -> str:
    """Return the same for the pip of this environment, or `uv pip` if uv made it."""
    if (pip := _beside_python("pip")) is None:
        return "uv pip"
    return "pip" if _is_on_path(pip) else as_typed(pip)


def copied_environment() -> Path | None:
    """Return the environment of the script that was called, if another environment runs it: the first is a copy of the
    other."""
    script = _called("marless")
    folder = script.resolve().parents[1] if script else Path(sys.prefix)
    return folder if (folder / "pyvenv.cfg").is_file() and not folder.samefile(sys.prefix) else None


def cache_folder() -> Path:
    """Return the folder for files that the program can make again (XDG Base Directory Specification)."""
    # Without a home folder, `~` is missing.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(cache) / "marless"


def manual() -> Path:
    """Return the first page of the manual: in the installed package, or in the source tree."""
    package = Path(__file__).resolve().parent
    page = package / "manual" / "index.md"
    return page if page.is_file() else package.parent / "docs" / "index.md"


def as_typed(path: Path) -> str:
    """A path as a word of a command line, from the current folder where it lies below that."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _is_on_path(script: Path) -> bool:
    """Return whether the shell runs this script for its name. Links to it count."""
    first = shutil.which(script.name)
    return first is not None and Path(first).samefile(script)


def _beside_python(name: str) -> Path | None:
    script = Path(sys.executable).with_name(name)
    return script if script.is_file() else None


def _called(name: str) -> Path | None:
    script = Path(sys.argv[0])
    return script if script.name == name and script.is_file() else None
