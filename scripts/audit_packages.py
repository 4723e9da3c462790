"""Checks the packages that `sam build` made, one folder each: ``python -m scripts.audit_packages FOLDER``.

Prints sizes and import times. Fails if a package is missing, is too large, does not work isolated from this machine's
packages, or takes too long to import. For the last two, a package is built again from the same pins for this machine's
processor, because sam builds for the functions' processor.
"""

import platform
import shutil
import statistics
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import cast

from marless.infra.packaging.archives import pack
from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_build import ENTRIES, PYTHON, Machine, build, size
from marless.infra.packaging.plugins import PackageFault
from scripts.functions_at_work import Functions, account, sweep, traced, work

MOST = 100_000_000  # bytes unzipped: a function's start-up time grows with the size
YARDSTICK = "botocore.client"  # every function needs it, and a slow machine slows its import as much
MOST_IMPORTS = 4  # a function's entry may take this many times the yardstick's processor time
_ROUNDS = 7
_EM_AARCH64 = 183  # elf.h


def main() -> int:
    """Audit all packages. Returns the exit code."""
    faults = [fault for function in ENTRIES for fault in _built(function)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            faults += _at_work(Path(folder))
        except (PackageFault, RuntimeError) as fault:
            faults.append(str(fault))
    for line in faults:
        print(f"audit: {line}", file=sys.stderr)
    return 1 if faults else 0


def _built(function: str) -> list[str]:
    """Print the size of a package that sam built. Returns its defects."""
    folder = Path(sys.argv[1], function.capitalize())
    if not Path(folder, *ENTRIES[function].split(".")).with_suffix(".py").is_file():
        return [f"sam built no {function}; its Metadata in the template must say BuildMethod: makefile"]
    digest = pack(folder, folder.with_suffix(".zip"))
    unzipped, zipped = size(folder), folder.with_suffix(".zip").stat().st_size
    print(f"{function}: {unzipped / 1e6:.1f} MB, zipped {zipped / 1e6:.1f} MB, {digest[:12]}")
    faults = [f"{function}: {path.name} is for another processor" for path in folder.rglob("*.so*") if not _arm(path)]
    if unzipped > MOST:
        faults.append(f"{function} has {unzipped / 1e6:.0f} MB, more than {MOST / 1e6:.0f}")
    return faults


def _arm(library: Path) -> bool:
    """Return whether a library is for the functions' processor: e_machine of its ELF header."""
    with library.open("rb") as file:
        return int.from_bytes(file.read(20)[18:], "little") == _EM_AARCH64


def _at_work(folder: Path) -> list[str]:
    """Build all functions for this machine, run them, and print the import times. Returns the defects.

    Raises `PackageFault` and `RuntimeError`.
    """
    python = interpreter(PYTHON) or sys.executable
    version = PYTHON if interpreter(PYTHON) else f"{sys.version_info.major}.{sys.version_info.minor}"
    packages: dict[str, Path] = {function: folder / function for function in ENTRIES}
    build(packages, machine=cast(Machine, platform.machine()), python=version)
    with account() as environment:
        functions = Functions(python, packages, environment)
        work(functions, ENTRIES, environment)
        sweep(Functions(python, packages, traced(environment)))
        print(f"every function answers its sample events from its package alone (Python {version})")
        ratios = {name: _ratio(functions, name, packages[name], folder / "plain") for name in ENTRIES}
    return [
        f"the {name} takes as long as {ratio:.1f} imports of {YARDSTICK}, more than {MOST_IMPORTS}: let it import less"
        for name, ratio in ratios.items()
        if ratio > MOST_IMPORTS
    ]


def _ratio(functions: Functions, function: str, package: Path, plain: Path) -> float:
    """Print the median import times with and without byte code. Return the ratio of the least processor times.

    They are taken in turns with the yardstick's. Other work on this machine disturbs the least times least.
    """
    shutil.copytree(package, plain, ignore=shutil.ignore_patterns("__pycache__"))
    taken = [
        (
            *functions.imported(function),
            *functions.imported(function, plain),
            functions.imported(function, module=YARDSTICK)[1],
        )
        for _ in range(_ROUNDS)
    ]
    shutil.rmtree(plain)
    wall, processor, bare, bare_processor, _ = (statistics.median(column) for column in zip(*taken, strict=True))
    ratio: float = min(map(itemgetter(1), taken)) / min(map(itemgetter(4), taken))
    print(
        f"{function}: import {wall:.2f} s ({processor:.2f} s of processor time, {ratio:.1f} imports of {YARDSTICK}),"
        f" without byte code {bare:.2f} s ({bare_processor:.2f} s), medians of {_ROUNDS}"
    )
    return ratio


if __name__ == "__main__":
    sys.exit(main())
