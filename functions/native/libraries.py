"""Libraries of compiled kernels, which are loaded only if they are whole and compute as IEEE 754 says."""

from ctypes import CDLL
from pathlib import Path

from functions.isolation.arithmetic import ARITHMETIC, standard_arithmetic
from functions.native.interface import open_library
from functions.native.known_answers import wrong_answers
from functions.native.variants import record_of, record_text


class LibraryFault(Exception):
    """A library is refused; the message says which and why."""


def load(path: Path, sources: int) -> CDLL | None:
    """Return the library; None if there is none, or only one for another system, processor or interface, or of other
    `sources` (0: of any).

    Raises `LibraryFault` if its bytes are not those that the compiler wrote: parts of a library that was cut short end
    the process where they are missing. Raises it too if it computes other numbers than IEEE 754 says.

    What code of a library sets when it is loaded, such as flushing numbers near zero, is put back.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    compiler = _compiler_of(path, content)
    with standard_arithmetic():
        try:
            library = open_library(path)
        except (OSError, AttributeError):
            return None
        if not library.runs_here() or sources not in (0, library.sources()):
            return None
        ARITHMETIC.write(ARITHMETIC.standard)
        wrong = wrong_answers(library)
    if wrong:
        version = library.compiler().decode(errors="replace")
        raise LibraryFault(
            f"{path.name} is refused: compiled by {compiler} ({version}), it computes {', '.join(wrong)} otherwise than"
            " IEEE 754 says, as fast floats do"
        )
    return library


def _compiler_of(path: Path, content: bytes) -> str:
    """The command in the record of a library with this content."""
    record = record_of(path)
    try:
        text = record.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    compiler = " ".join(text.split()[2:])
    if text != record_text(content, compiler):
        raise LibraryFault(
            f"{path.name} is refused: it is not the library that was compiled, whose hash is in {record.name}"
        )
    return compiler
