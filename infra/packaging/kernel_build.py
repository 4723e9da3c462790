"""Compiles the kernels of `functions.native`, one library for each instruction set of a machine.

    python -m infra.packaging.kernel_build

Installing the program does it too, through `hatch_build.py`, so this file needs the standard library alone. Without a
compiler nothing is built, and `algorithm.engine=native` says so.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from functions.native.variants import FLAGS, SOURCE, VARIANTS, library_name, sources_digest

_ZIG = ("zig", "ziglang")


def compiler() -> list[str]:
    """The command of a C compiler: that of the variable CC, cc, or the one of the package ziglang; empty if there is
    none."""
    if command := os.environ.get("CC"):
        return shlex.split(command)
    if shutil.which("cc"):
        return ["cc"]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else []


def build(
    folder: Path = SOURCE.parent, machine: str = platform.machine(), command: Sequence[str] = ()
) -> tuple[list[Path], str]:
    """Compiles the sources in `folder` for the machine, by the command or a compiler that is here; the libraries there,
    and why one is missing, or nothing."""
    command, variants = command or compiler(), VARIANTS.get(machine, ())
    if not command:
        return [], "there is no C compiler (cc, or pip install ziglang)"
    libraries = list[Path]()
    for variant in variants:
        library = folder / library_name(variant)
        if fault := _compile(command, variant, folder / SOURCE.name, library):
            return libraries, fault
        libraries.append(library)
    return libraries, "" if variants else f"no kernels are known for a processor that is called {machine}"


def _compile(command: Sequence[str], variant: str, source: Path, library: Path) -> str:
    """Writes the library as a whole, as it may be in use; returns what the compiler said when it failed."""
    with TemporaryDirectory(dir=library.parent) as folder:
        written = Path(folder) / library.name
        flags = _zig_flags(variant) if any(Path(word).name in _ZIG for word in command) else [f"-march={variant}"]
        done = subprocess.run(
            [*command, *FLAGS, *flags, *_sources(source), "-o", str(written)],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            reason = "".join(done.stderr.strip().splitlines()[-1:])
            return f"{shlex.join([*command, *flags])} failed: {reason}"
        written.replace(library)
    return ""


def _sources(source: Path) -> list[str]:
    """The source, with the hash by which a library says of which sources it is."""
    return [f"-DSOURCES={sources_digest(source.parent):#x}u", str(source)]


def _zig_flags(variant: str) -> list[str]:
    """Its own names of instruction sets; it keeps what debuggers read, which is most of a library, unless told so."""
    return [f"-mcpu={'generic' if variant == 'armv8-a' else variant.replace('x86-64-', 'x86_64_')}", "-s"]


def main() -> int:
    """Builds them; 1 if one is missing."""
    libraries, fault = build()
    for library in libraries:
        sys.stdout.write(f"{library.name} is built\n")
    if fault:
        sys.stderr.write(f"no kernels for algorithm.engine=native: {fault}\n")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
