"""How programs of this environment are typed in the user's shell: the first words of every line that tells them to."""

import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """`marless` where that is on the path, else where it is: ``.venv/bin/marless`` where none is active."""
    # `pip install --user` puts it elsewhere than beside Python; then it was called by its path, or is on the path.
    script = _beside_python("marless") or _called("marless")
    return as_typed(script) if script and not shutil.which("marless") else "marless"


def pip_name() -> str:
    """The same for the pip of this environment, or `uv pip` where it has none, as those that uv makes."""
    pip = _beside_python("pip")
    if pip is None:
        return "uv pip"
    return "pip" if shutil.which("pip") == str(pip) else as_typed(pip)


def as_typed(path: Path) -> str:
    """A path as a word of a command line, from the current folder where it lies below that."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _beside_python(name: str) -> Path | None:
    script = Path(sys.executable).with_name(name)
    return script if script.is_file() else None


def _called(name: str) -> Path | None:
    script = Path(sys.argv[0])
    return script if script.name == name and script.is_file() else None
