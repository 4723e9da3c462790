"""Compiles the kernels of `marless.functions.native`, one library for each instruction set of a machine.

    python -m marless.infra.packaging.kernel_build

Installing the program does it too, through `hatch_build.py`, so this file needs the standard library alone. Without a
compiler the build is skipped, and `algorithm.engine=native` reports it.
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

from marless.functions.native.variants import (
    FLAGS,
    PROCESSOR,
    SOURCE,
    STRICT,
    VARIANTS,
    library_name,
    record_of,
    record_text,
    sources_digest,
)

_ZIG = ("zig", "ziglang")


def compiler() -> list[str]:
    """Return the command of a C compiler: the variable CC, cc, or the package ziglang. It is empty if there is none.

    Raises `ValueError` if CC cannot be split into words, for example because it ends within a quote.
    """
    variable = os.environ.get("CC", "")
    try:
        command = shlex.split(variable)
    except ValueError as error:
        raise ValueError(f"CC={variable} is no command: {error}") from error
    if command:
        return command
    if shutil.which("cc"):
        return ["cc"]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else []


def build(
    folder: Path = SOURCE.parent, machine: str = platform.machine(), command: Sequence[str] = (), source: Path = SOURCE
) -> tuple[list[Path], str]:
    """Compile the source for the machine, by the command or a compiler that is here.

    Return the files that it wrote to `folder`: each library and its record. Then return why a library is missing, in
    one line, or nothing. If the compiler lacks one instruction set, the libraries for the others are written.
    """
    try:
        command = command or compiler()
    except ValueError as error:
        return [], _one_line(str(error))
    variants, files, faults = VARIANTS.get(machine, ()), list[Path](), list[str]()
    if not command:
        return [], "there is no C compiler (cc, or pip install ziglang)"
    if not variants:
        return [], f"no kernels are known for a processor that is called {machine}"
    command_flags = [*FLAGS, *_model(command)]
    for variant in variants:
        library = folder / library_name(variant)
        try:
            _compile(command, command_flags, variant, source, library)
        except CompilerFault as error:
            faults.append(_one_line(str(error)))
        except OSError as error:
            faults.append(_one_line(f"{folder} cannot be written to: {error.strerror}"))
        else:
            files += [library, record_of(library)]
    return files, "; ".join(dict.fromkeys(faults))


class CompilerFault(Exception):
    """The compiler failed. The message has its command and its last line."""


def _compile(command: Sequence[str], flags: Sequence[str], variant: str, source: Path, library: Path) -> None:
    """Write the library and its record, each as a whole, because the library may be in use.

    Raises `CompilerFault`, and `OSError` if the folder cannot be written to.
    """
    with TemporaryDirectory(dir=library.parent) as folder:
        written, processor = Path(folder) / library.name, str(Path(folder) / "processor.o")
        # `runs_here` is called on every processor. No optimisation of the linker may change its instructions.
        oldest = _instructions(command, "x86-64" if variant.startswith("x86-64") else variant)
        _run(command, [*flags, *oldest, "-fno-lto", "-c", str(PROCESSOR), "-o", processor])
        instructions = _instructions(command, variant)
        # The hash of a library names its sources.
        hashed_source = [f"-DML_SOURCES={sources_digest(source.parent):#x}u", str(source)]
        _run(command, [*flags, "-shared", *instructions, *hashed_source, processor, "-o", str(written)])
        if not written.is_file():
            raise CompilerFault(f"{shlex.join(command)} wrote no library")
        # Packages of functions have the same bytes on every machine, and zig's folder differs.
        compiled_by = "zig" if _is_zig(command) else _one_line(shlex.join(command))
        record = record_of(written)
        record.write_text(record_text(written.read_bytes(), compiled_by), encoding="utf-8")
        written.replace(library)
        record.replace(record_of(library))


def _model(command: Sequence[str]) -> list[str]:
    # Only Intel's compiler takes this option for exact floats.
    try:
        _run(command, [STRICT, "-fsyntax-only", "-x", "c", os.devnull])
    except CompilerFault:
        return []
    return [STRICT]


def _run(command: Sequence[str], arguments: Sequence[str]) -> None:
    """Raises `CompilerFault`, and `OSError` if the command cannot be started."""
    try:
        done = subprocess.run(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CompilerFault(f"{shlex.join(command)} cannot be started: {error.strerror}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "error" in line), "".join(lines[-1:]))
        words = [word for word in arguments if word.startswith(("-march", "-mcpu"))]
        raise CompilerFault(f"{shlex.join([*command, *words])} failed: {reason}")


def _one_line(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n")


def _is_zig(command: Sequence[str]) -> bool:
    return any(Path(word).name in _ZIG for word in command)


def _instructions(command: Sequence[str], variant: str) -> list[str]:
    """Return the options for an instruction set. Zig has its own names, and needs `-s` to leave out debuggers' data,
    which is most of a library."""
    if not _is_zig(command):
        return [f"-march={variant}"]
    return [f"-mcpu={'generic' if variant == 'armv8-a' else variant.replace('-', '_')}", "-s"]


def main() -> int:
    """Build them. Returns 1 if one is missing."""
    files, fault = build()
    for file in files:
        sys.stdout.write(f"{file.name} is written\n")
    if fault:
        sys.stderr.write(f"no kernels for algorithm.engine=native: {fault}\n")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
