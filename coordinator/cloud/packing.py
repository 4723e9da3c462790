"""Builds what a deployment on AWS uploads from this program and the user's plug-ins."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.deployment import Packages
from infra.packaging import containers, plugins
from infra.packaging.archives import pack
from infra.packaging.packages import PYTHON, ROOT, Function, build

_ZIPS: tuple[Function, ...] = ("actor", "evaluator", "coordinator")
# The folders that the image's Dockerfile copies.
_CONTEXT = ("functions", "infra", "marless")


@contextmanager
def packed(chosen: Sequence[str], engine: str, say: Callable[[str], None]) -> Iterator[Packages]:
    """Archives and image with the plug-ins `chosen`, removed when the block ends.

    Raises `PackageFault` and `ContainerFault`.
    """
    with tempfile.TemporaryDirectory(prefix="marless-packages-") as temporary:
        folder = Path(temporary)
        say("building the packages of actor, evaluator and coordinator")
        if not build({name: folder / name for name in _ZIPS}, chosen):
            say(f"Python {PYTHON} is not installed, so functions are deployed without byte code and start slower")
        archives = {name: folder / f"{name}.zip" for name in _ZIPS}
        for name, archive in archives.items():
            pack(folder / name, archive)
        say(f"building the learner's image with {engine}")
        containers.build(engine, _context(folder / "image", chosen), containers.IMAGE)
        yield Packages({str(name): archive for name, archive in archives.items()}, containers.IMAGE)


def _context(folder: Path, chosen: Sequence[str]) -> Path:
    """The image's build context: only what the Dockerfile copies, so no runs and no virtual environments."""
    for name in _CONTEXT:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    plugins.stage(chosen, folder / "build" / "plugins")
    return folder
