"""Libraries of compiled kernels, which are loaded only if they are whole and compute as IEEE 754 says."""

from ctypes import CDLL
from pathlib import Path

from marless.functions.isolation.arithmetic import ARITHMETIC, standard_arithmetic
from marless.functions.native.interface import declared_layouts, layouts, open_library
from marless.functions.native.known_answers import wrong_answers
from marless.functions.native.variants import record_of, record_text


class LibraryFault(Exception):
    """A library is refused. The message names it and the reason."""


def load(path: Path, sources: int) -> CDLL | None:
    """Return the library for this processor and these `sources` (0: any), or None.

    Raises `LibraryFault` if the library is for another system, or was cut short or changed. The system kills a process
    that reads the missing part. Raises it too if its structures have another layout than here, or if it computes other
    numbers than IEEE 754 says.

    A library may change the processor's settings when it is loaded. They are put back.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    compiler = _compiler_of(path, content)
    with standard_arithmetic():
        try:
            library = open_library(path)
        except AttributeError:
            return None
        except OSError as error:
            raise LibraryFault(f"{path.name}, compiled by {compiler}, cannot be loaded: {error}") from error
        if not library.runs_here() or sources not in (0, library.sources()):
            return None
        ARITHMETIC.write(ARITHMETIC.standard)
        moved = sorted(name for name, _ in layouts(library).items() ^ declared_layouts().items())
        wrong = [] if moved else wrong_answers(library)
    if moved or wrong:
        version = library.compiler().decode(errors="replace")
        fault = (
            f"it has another {moved[0]} than Python declares"
            if moved
            else f"it computes {', '.join(wrong)} otherwise than IEEE 754 says, as fast floats do"
        )
        raise LibraryFault(f"{path.name} is refused: compiled by {compiler} ({version}), {fault}")
    return library


def _compiler_of(path: Path, content: bytes) -> str:
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
