"""Looks at what `sam build` made: ``python -m scripts.audit_packages FOLDER``, a folder with one package a function.

Prints sizes and import times. Fails when a package is missing, is larger than it may be, or cannot do its work with
nothing else of this machine in sight; for that it is built once more, for this machine.
"""

import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import cast

from infra.archives import pack
from infra.interpreters import interpreter
from infra.packages import ENTRIES, PYTHON, Function, Machine, build, size
from scripts.functions_at_work import Functions, account, work

MOST = 100_000_000  # bytes unzipped: what a function's start costs grows with them
START_S = 0.6  # the bar for the import of the actor's entry
_ROUNDS = 7


def main() -> int:
    faults = [fault for function in ("actor", "evaluator", "coordinator") for fault in _built(function)]
    with tempfile.TemporaryDirectory() as folder:
        _at_work(Path(folder))
    print("\n".join(faults), file=sys.stderr)
    return len(faults)


def _built(function: str) -> list[str]:
    """Prints the size of a package that sam built; returns what is wrong with it."""
    folder = Path(sys.argv[1], function.capitalize())
    if not folder.is_dir():
        return [f"audit: sam built no {function}; its Metadata in the template must say BuildMethod: makefile"]
    digest = pack(folder, folder.with_suffix(".zip"))
    unzipped, zipped = size(folder), folder.with_suffix(".zip").stat().st_size
    print(f"{function}: {unzipped / 1e6:.1f} MB, zipped {zipped / 1e6:.1f} MB, {digest[:12]}")
    return [f"audit: {function} has {unzipped / 1e6:.0f} MB, more than {MOST / 1e6:.0f}"] if unzipped > MOST else []


def _at_work(folder: Path) -> None:
    """Builds all functions for this machine, lets them work, and prints the import times."""
    python = interpreter(PYTHON) or sys.executable
    version = PYTHON if interpreter(PYTHON) else f"{sys.version_info.major}.{sys.version_info.minor}"
    packages: dict[Function, Path] = {function: folder / function for function in ENTRIES}
    build(packages, machine=cast(Machine, platform.machine()), python=version)
    with account() as environment:
        functions = Functions(python, packages, environment)
        work(functions)
        print(f"every function works from its package alone (Python {version})")
        for function in ("actor", "coordinator"):
            _times(functions, function, packages[function], folder / "plain")


def _times(functions: Functions, function: Function, package: Path, plain: Path) -> None:
    """Prints the median import times with and without byte code, taken in turns."""
    shutil.copytree(package, plain, ignore=shutil.ignore_patterns("__pycache__"))
    taken = [(*functions.imported(function), *functions.imported(function, plain)) for _ in range(_ROUNDS)]
    shutil.rmtree(plain)
    wall, processor, bare, bare_processor = (statistics.median(column) for column in zip(*taken, strict=True))
    bar = f", bar {START_S} s" if function == "actor" else ""
    print(
        f"{function}: import {wall:.2f} s ({processor:.2f} s of processor time{bar}), without byte code {bare:.2f} s"
        f" ({bare_processor:.2f} s), medians of {_ROUNDS}"
    )


if __name__ == "__main__":
    sys.exit(main())
