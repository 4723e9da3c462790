"""Builds the functions' packages: one folder per function with exactly its code, compiled for the runtime's Python.

Packages are built from wheels, without a container engine. Lambda's rules are in its developer guide, "Lambda quotas"
and "Working with .zip file archives for Python Lambda functions".
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from marless.functions.function_specs import COORDINATOR, FUNCTIONS
from marless.functions.native.variants import SOURCE
from marless.infra.packaging import function_kernels
from marless.infra.packaging import plugins as plug_ins
from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_sources import PUBLIC, sources
from marless.infra.packaging.plugins import PackageFault, PlugIns
from marless.infra.packaging.torch_users import TorchUsers, torch_users

Machine = Literal["aarch64", "x86_64"]

ROOT = Path(__file__).parents[3]
PINS = Path(__file__).with_name("constraints-functions.txt")
PYTHON = "3.12"
MACHINE: Machine = "aarch64"
RUNTIME, ARCHITECTURE = f"python{PYTHON}", "arm64"
"""Lambda's names of the Python and the machine that packages are built for."""
LIMIT = 262_144_000  # bytes of an unzipped package

ENTRIES = {spec.name: spec.entry for spec in FUNCTIONS if spec.deployed} | {
    COORDINATOR: "marless.coordinator.drive.handler"
}
OTHER_KIND = "marless.infra.entry.other_kind"
"""The entry of all kinds of other packages."""
RESOURCE_ENTRY = {"resource": "marless.infra.entry.resource"}
"""That of the functions of external resources, of which a deployment may have none."""
_DATA = {COORDINATOR: ("marless/coordinator/pricing/prices",)}

# Amazon Linux 2023, the system of the runtime, has glibc 2.34.
_GLIBC = range(34, 16, -1)

SERVICES = ("dynamodb", "lambda", "s3", "ssm")
"""The services that functions call: botocore's models of the others are not packaged."""

# Removed from our own dependencies, never from a plug-in's packages. Licences and metadata stay.
_PRUNED = (
    "bin",
    "aws_lambda_powertools/event_handler",
    "botocore/data/*/*/examples-1.json*",
    "numpy/**/*.a",
    "numpy/**/*.h",
    "numpy/**/*.pxd",
    "numpy/**/*.pyi",
    "numpy/**/tests",
    # These name the installing machine, and files that are pruned here.
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
)


def build(
    targets: Mapping[str, Path], plugins: Sequence[str] = (), machine: Machine = MACHINE, python: str = PYTHON
) -> bool:
    """Fill the empty or new folder of each function with its package. Returns whether the sources were compiled.

    Every package includes `plugins` and their dependencies, see `marless.infra.packaging.plugins.prepare`. Their tasks
    are found like on this machine, by entry point or name. A task named ``pettingzoo:...`` needs as plug-ins its
    package and ``pettingzoo``. If a plug-in and MARLess need the same package, pip must find a version for both.

    No package has torch: a learner that needs it is a container image, see `torch_users_among`.

    Raises `PackageFault` if pip finds no wheel for the runtime, the learner would need torch, or the package exceeds
    Lambda's size limit. It also raises it if a plug-in uses one of our names.
    """
    for target in targets.values():
        plug_ins.require_empty(target)
    compiler = interpreter(python)
    with tempfile.TemporaryDirectory() as folder:
        others, platform = Path(folder, "others"), _platform(machine, python)
        ready = plug_ins.prepare(plugins, Path(folder, "wheels"))
        users = torch_users(ready, platform)
        if users.names and "learner" in targets:
            raise PackageFault(f"{users.reason}, so the learner has to be a container image, which has no zip archive")
        _install_others(others, ready, users, platform)
        _compile(compiler, others, others)
        libraries = function_kernels.build(machine, Path(folder, "kernels"))
        for function, target in targets.items():
            shutil.copytree(others, target, dirs_exist_ok=True)
            _copy(function, target, libraries)
            _compile(compiler, target, target / PUBLIC)
            require_size(function, target)
    return compiler is not None


def size(folder: Path) -> int:
    """The total size in bytes of the files below `folder`, as Lambda counts it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def require_size(function: str, folder: Path) -> None:
    """Raises `PackageFault` with the three largest folders if the package exceeds Lambda's limit."""
    bytes_ = size(folder)
    if bytes_ <= LIMIT:
        return
    parts = sorted(((size(part), part.name) for part in folder.iterdir() if part.is_dir()), reverse=True)
    largest = ", ".join(f"{name} {_mb(part)}" for part, name in parts[:3])
    raise PackageFault(
        f"the package of {function} is {_mb(bytes_)} unzipped, Lambda takes {_mb(LIMIT)}; largest: {largest}"
    )


def require_modules(folder: Path, serves: Mapping[str, str]) -> None:
    """Raise `PackageFault` if the package in `folder` lacks the module of an external resource. `serves` has its
    ``module:function`` by name, or '' if it is not a function of ours."""
    for name, path in serves.items():
        top = path.partition(":")[0].partition(".")[0]
        if top and not any(folder.glob(f"{top}/")) and not any(folder.glob(f"{top}.*")):
            raise PackageFault(f"resource {name}: no plug-in has the module {top}; add it, as --plugin ./{top}.py")


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def platforms(machine: Machine) -> list[str]:
    """The platform tags of wheels that the runtime can load, the newest glibc first."""
    return [*(f"manylinux_2_{minor}_{machine}" for minor in _GLIBC), f"manylinux2014_{machine}"]


def torch_users_among(plugins: Sequence[str]) -> TorchUsers:
    """Return the plug-ins that need torch, which make the learner a container image. Raises `PackageFault`."""
    with tempfile.TemporaryDirectory() as wheels:
        return torch_users(plug_ins.prepare(plugins, Path(wheels)), _platform(MACHINE, PYTHON))


def _platform(machine: Machine, python: str) -> list[str]:
    tags = [f"--platform={tag}" for tag in platforms(machine)]
    return [f"--python-version={python}", "--implementation=cp", "--only-binary=:all:", *tags]


def _install_others(target: Path, ready: PlugIns, users: TorchUsers, platform: Sequence[str]) -> None:
    install = ["install", f"--target={target}", "--no-compile", *platform]
    with tempfile.TemporaryDirectory() as pins:
        marless_wheel = [plug_ins.own_metadata(Path(pins))] if users.complete else []
        plug_ins.pip([*install, *_download_pinned(Path(pins), platform), *marless_wheel, *users.complete])
    if users.alone:
        plug_ins.pip([*install, "--no-deps", *users.alone])
    _prune(target)
    plug_ins.copy(ready, target)
    plug_ins.require_room(target)


def _download_pinned(folder: Path, platform: Sequence[str]) -> list[str]:
    """Fetch the wheels of our dependencies into `folder`, each with a hash of the pins. Returns their paths.

    pip checks all hashes of a call or ignores them, and a plug-in's requirements lack hashes.
    """
    options = ["--no-deps", "--require-hashes", f"--requirement={PINS}"]
    plug_ins.pip(["download", f"--dest={folder}", *platform, *options])
    return sorted(str(path) for path in folder.glob("*.whl"))


def _prune(target: Path) -> None:
    models = (path for path in target.glob("botocore/data/*") if path.is_dir() and path.name not in SERVICES)
    for path in [*models, *(path for pattern in _PRUNED for path in target.glob(pattern))]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _copy(function: str, target: Path, libraries: Sequence[Path]) -> None:
    """Copy our code that the function's entry module needs, and the compiled `libraries` if it calls them."""
    kernels = target / SOURCE.parent.relative_to(ROOT)
    entry = (ENTRIES | RESOURCE_ENTRY)[function]
    # The code of another package may import modules of all our functions.
    entries = {entry, *ENTRIES.values()} if entry == OTHER_KIND else {entry}
    files = {file for each in entries for file in sources(ROOT, each).files}
    for file in [*sorted(files), *_data(function)]:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, target / file)
    for library in libraries if kernels.is_dir() else ():
        shutil.copyfile(library, kernels / library.name)


def _data(function: str) -> Iterator[Path]:
    for folder in (PUBLIC, *_DATA.get(function, ())):
        yield from (path.relative_to(ROOT) for path in (ROOT / folder).iterdir() if path.is_file())


def _compile(compiler: str | None, package: Path, *folders: Path) -> None:
    """Compiles the sources in folders of a package ahead of time, because a function cannot write byte code.

    Python does not check it against the source at run time. The archive drops file times, and hashing the source would
    cost the time that byte code saves (Python's library reference, `py_compile.PycInvalidationMode`).
    """
    if compiler is None:
        return
    how: list[str | Path] = ["-qq", "--invalidation-mode=unchecked-hash", "-s", package, "-p", "/var/task"]
    # Broken files belong to plug-ins and may never be imported, so the exit status is ignored.
    subprocess.run(
        [compiler, "-m", "compileall", *how, *folders],
        env={**os.environ, "PYTHONHASHSEED": "0"},  # the order of a constant set would differ from build to build
        check=False,
    )
