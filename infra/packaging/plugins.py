"""Plug-ins: the user's packages that are deployed with the functions."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from marless.infra.packaging.package_sources import PUBLIC

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


class PackageFault(Exception):
    """A function's package cannot be built, or Lambda would refuse it. The message is one line."""


@dataclass(frozen=True)
class PlugIns:
    """Prepared plug-ins: requirements for pip, and modules and package folders to copy."""

    requirements: tuple[str, ...]
    source_paths: tuple[Path, ...]


def prepare(plugins: Iterable[str], wheels: Path) -> PlugIns:
    """Sorts plug-ins by kind, and collects given and built wheels in the folder `wheels`.

    A plug-in is a pip requirement (``my-tasks==1.2``) or, if it begins with a dot or holds a slash, a path. A path may
    lead to a wheel, a project's folder (with pyproject.toml or setup.py), a package's folder, or a module (.py). Parts
    of the program that were installed separately are plug-ins, too. Raises `PackageFault`.
    """
    requirements: list[str] = []
    folders: list[Path] = []
    for plugin in plugins:
        path = Path(os.path.expanduser(plugin))  # noqa: PTH111
        if plugin.startswith("-"):
            raise PackageFault(f"plug-in {plugin} is an option of pip; set it in pip's own configuration")
        if "://" in plugin or not (plugin.startswith(".") or "/" in plugin):
            requirements.append(plugin)
        elif (
            (path / "pyproject.toml").is_file()
            or (path / "setup.py").is_file()
            or (path.suffix == ".whl" and path.is_file())
        ):
            requirements.append(_wheel(path, wheels / str(len(requirements))))
        elif (path / "__init__.py").is_file() or (path.suffix == ".py" and path.is_file()):
            folders.append(path.resolve())
        else:
            raise PackageFault(f"plug-in {plugin} is neither a wheel, a project, a package's folder nor a module")
    return PlugIns(tuple(requirements), (*folders, *_parts(wheels / "parts")))


def copy(plugins: PlugIns, target: Path) -> None:
    """Copies the modules and packages' folders into `target`."""
    if plugins.source_paths:
        target.mkdir(parents=True, exist_ok=True)
    for path in plugins.source_paths:
        if path.is_dir():
            shutil.copytree(path, target / path.name, ignore=_LEFT_OUT, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, target / path.name)


def stage(plugins: Iterable[str], folder: Path) -> None:
    """Prepares plug-ins for the learner's image: the files that its Dockerfile copies from build/plugins.

    Raises `PackageFault`.
    """
    require_empty(folder)
    ready = prepare(plugins, folder / "wheels")
    copy(ready, folder / "modules")
    # pip resolves paths in this file against its working folder, which holds the file in the image.
    marless_wheel = [own_metadata(folder)] if ready.requirements else []
    lines = [line.replace(f"{folder}/", "./", 1) for line in (*marless_wheel, *ready.requirements)]
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def own_metadata(folder: Path) -> str:
    """Return a wheel in `folder` with the name and version of this program alone. Plug-ins may require it, and its
    modules are copied."""
    about = f"{PUBLIC}-{version(PUBLIC)}"
    path = folder / f"{about}-py3-none-any.whl"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {PUBLIC}\nVersion: {version(PUBLIC)}\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(f"{about}.dist-info/{name}", text)
    return str(path)


def require_empty(folder: Path) -> None:
    """Create `folder` if it is missing. Raises `PackageFault` if it is not empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PackageFault(f"{folder} is not empty; remove it or name another folder")


def require_room(target: Path) -> None:
    """Raises `PackageFault` if a plug-in has the name of our package."""
    if (target / PUBLIC).exists() or (target / f"{PUBLIC}.py").exists():
        raise PackageFault(f"a plug-in brings a module named {PUBLIC}, which is the package of MARLess; rename it")


def pip(arguments: Sequence[str]) -> None:
    """Run this interpreter's pip. Raises `PackageFault` with its first error."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        error = next((line for line in lines if re.match(r"error: ", line, re.IGNORECASE)), (lines or ["no word"])[-1])
        raise PackageFault(f"pip {arguments[0]} failed: {error}")


def _parts(folder: Path) -> Iterator[Path]:
    """The packages of the separate parts of the program, and their metadata, written to `folder`: functions find tasks
    by entry points."""
    offers = entry_points(group="marless.task_families")
    parts = {offer.module.partition(".")[0]: offer.dist for offer in offers if offer.dist is not None}
    for package, distribution in sorted(parts.items()):
        if distribution.name.startswith(f"{PUBLIC}-"):
            spec = find_spec(package)
            if spec is None or spec.origin is None:
                raise PackageFault(f"the installation of {distribution.name} is damaged: install it again")
            yield Path(spec.origin).parent
            yield _metadata(distribution, folder)


def _metadata(distribution: Distribution, folder: Path) -> Path:
    """Write the metadata of a distribution below the folder, without the place of its installation."""
    target = folder / f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
    target.mkdir(parents=True)
    for name in ("METADATA", "entry_points.txt"):
        (target / name).write_text(distribution.read_text(name) or "", encoding="utf-8")
    return target


def _wheel(path: Path, folder: Path) -> str:
    """Return the wheel at `path`, or built from the project there, alone in `folder`, without dependencies."""
    pip(["wheel", "--no-deps", f"--wheel-dir={folder}", str(path.resolve())])
    return str(next(folder.glob("*.whl")))
