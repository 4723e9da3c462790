"""The instruction sets of compiled kernels, the sources, and the places of the libraries."""

import hashlib
from pathlib import Path

SOURCE = Path(__file__).with_name("kernels.c")
PROCESSOR = SOURCE.with_name("processor.c")
"""The source that is compiled for the oldest processor of each kind."""

# By the machine as `platform.machine` names it: the compiler's name of each instruction set, the fastest first.
_X86 = ("x86-64-v4", "x86-64-v3")
_ARM = ("armv8-a",)
VARIANTS = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}

# Only the order of operations that the source writes down is the same everywhere: nothing is contracted. A later option
# wins, so these also end the fast floats of CC="gcc -ffast-math".
FLAGS = (
    "-O3", "-fPIC", "-fvisibility=hidden", "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno",
    "-Wno-psabi", "-DNDEBUG",
)  # fmt: skip
STRICT = "-fp-model=strict"
"""The option for exact floats of Intel's compiler. Other compilers do not know it."""


def library_name(variant: str) -> str:
    """The file of the library for an instruction set, next to the source if it was built."""
    return f"kernels-{variant}.so"


def record_of(library: Path) -> Path:
    """Return the file next to a library that has the library's hash and length."""
    return library.with_suffix(".sha256")


def record_text(content: bytes, compiler: str) -> str:
    """Return the line of a record: the SHA-256 of the library, its length in bytes, and the compiler."""
    return f"{hashlib.sha256(content).hexdigest()} {len(content)} {compiler}\n"


def sources_digest(folder: Path) -> int:
    """A hash of the sources in the folder, 64 bits, or 0 without sources (in functions' packages)."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.[ch]")):
        digest.update(file.name.encode() + file.read_bytes())
    return int.from_bytes(digest.digest()[:8]) if (folder / SOURCE.name).exists() else 0
