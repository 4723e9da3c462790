"""Installs another framework from PyPI into a temporary virtual environment."""

import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("ray[rllib]>=2.40", "torch", "mpe2>=1.0", "pettingzoo>=1.25")


def installed(folder: Path, packages: Sequence[str]) -> Path:
    """The interpreter of a new environment in the folder that has these arguments of pip."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True)
    return python
