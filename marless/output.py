"""All output to standard output and standard error goes through this module.

A write never raises, so a run continues even if nothing reads its output any more. Secrets become their names, control
characters become visible, and characters that a stream cannot write become others. `problem` says afterwards whether
wanted output was lost.
"""

import codecs
import errno
import io
import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import msgspec

from marless.functions.encoding import to_json_text
from marless.functions.text.redaction import redact, redactor
from marless.functions.text.terminal_text import visible, visible_text

if TYPE_CHECKING:
    from rich.console import Console

# Errors of a stream without a reader: a closed pipe or descriptor, a terminal or connection that is gone.
_NOBODY_READS = (errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO, errno.ECONNRESET, errno.ESHUTDOWN)
_WORDS = {"±": "+-", "→": "->", "←": "<-", "×": "x", "·": ".", "…": "...", "–": "-", "—": "-", "−": "-"}
_WORDS |= {"≤": "<=", "≥": ">=", "≈": "~", "λ": "lambda", "ε": "epsilon", "γ": "gamma", "τ": "tau", "∞": "inf"}
_WORDS |= dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)) | dict.fromkeys("‘’", "'") | dict.fromkeys("“”", '"')
_WORDS |= dict.fromkeys("─━╌╍═", "-") | dict.fromkeys("│┃║", "|")
_BOXES = range(0x2500, 0x2580)
# The command that a line advises at its end. A program that is not on the path has its path.
_COMMAND = re.compile(r"(?<=: )(?:'[^']*/marless'|\S*\bmarless) \S.*")
_NOT_ASCII = re.compile("[^\x00-\x7e]")


class _Stream:
    """`sys.stdout` or `sys.stderr`, which notebooks, tests and daemons replace, close or leave out."""

    def __init__(self, name: str, title: str) -> None:
        self._name, self.title = name, title
        # The stream without a reader, and the reason why another stream took a text only in part.
        self._unread: object = None
        self.problem = ""

    @property
    def current(self) -> TextIO | None:
        """The stream that has the name at present."""
        stream: Any = getattr(sys, self._name, None)
        # Wrappers around the stream, such as rich's while it draws and ours, would write to us again.
        while hasattr(stream, "rich_proxied_file"):
            stream = stream.rich_proxied_file
        return cast(TextIO | None, stream)

    @property
    def unread(self) -> bool:
        """True if the stream has lost its reader."""
        return self.current is self._unread

    @property
    def encoding(self) -> str:
        encoding = getattr(self.current, "encoding", None)
        return encoding if isinstance(encoding, str) else "utf-8"

    def isatty(self) -> bool:
        """True if it is a terminal that can draw."""
        try:
            return bool(self.current is not None and self.current.isatty()) and os.environ.get("TERM") != "dumb"
        except (AttributeError, OSError, ValueError):
            return False

    def fileno(self) -> int:
        """Return the descriptor for rich, which asks for the size of the terminal. Raises `OSError` without one."""
        try:
            return -1 if self.current is None else self.current.fileno()
        except (AttributeError, ValueError) as error:
            raise OSError(errno.EBADF, "no terminal") from error

    def write(self, text: str) -> int:
        """Write as much as possible. It never raises."""
        stream = self.current
        if stream is None or self.unread:
            return len(text)
        try:
            stream.write(_encodable(text, self.encoding))
            self.flush()
        except Exception as error:  # of a stream that a notebook or a test put here, too
            self._handle_failure(stream, error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, as rich does after writing."""
        stream = self.current
        if stream is not None and not self.unread and hasattr(stream, "flush"):
            try:
                stream.flush()
            except Exception as error:
                self._handle_failure(stream, error)

    def _handle_failure(self, stream: object, error: Exception) -> None:
        """A closed stream (`ValueError`) has no reader either. A full disk may have space later."""
        if isinstance(error, ValueError) or getattr(error, "errno", None) in _NOBODY_READS:
            self._unread = stream
            self.settle()
        elif not self.problem:
            self.problem = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            if self is not ERROR:
                ERROR.write(f"marless: {self.title} cannot be written: {self.problem}\n")

    def settle(self) -> None:
        """Drop unwritten text, or the interpreter would fail on it again when the process ends."""
        stream = self.current
        if stream is None or stream is not getattr(sys, f"__{self._name}__"):
            return
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


class _PrintsOfOthers(io.TextIOBase):
    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        # By this name rich, too, finds the stream behind another.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        ERROR.write(visible_text(redact(text)))
        return len(text)

    def fileno(self) -> int:
        return OUTPUT.fileno()

    def isatty(self) -> bool:
        return OUTPUT.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # of a file, which may be given another
        return "utf-8"

    @property
    def buffer(self) -> Any:
        """The stream for bytes."""
        return getattr(ERROR.current, "buffer", None) or io.BytesIO()


@contextmanager
def alone() -> Iterator[None]:
    """Reserve standard output for the program. Anything that environments print in this process through Python goes to
    standard error."""
    before = sys.stdout
    sys.stdout = _PrintsOfOthers(before)
    try:
        yield
    finally:
        sys.stdout = before


OUTPUT, ERROR = _Stream("stdout", "standard output"), _Stream("stderr", "standard error")


def say(*lines: str) -> None:
    """Writes lines to standard output."""
    OUTPUT.write(_lines(lines))


def note(*lines: str) -> None:
    """Write lines to standard error, apart from the result."""
    ERROR.write(_lines(lines))


class _RemarkLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        note(record.getMessage())


_REMARK_LINES = _RemarkLines()


def show_remarks(unless_handled: bool = False) -> None:
    """Write the log `marless` to standard error from now on. With `unless_handled`, only if no handler takes it."""
    logger = logging.getLogger("marless")
    if not (unless_handled and logger.hasHandlers()):
        logger.setLevel(logging.INFO)
        logger.addHandler(_REMARK_LINES)


def advise(line: str) -> None:
    """Writes a line to standard error. On a narrow terminal it is broken between words. The command at its end gets a
    separate line, so that it can be copied whole."""
    note(*(_broken(line, shutil.get_terminal_size().columns) if ERROR.isatty() else [line]))


def say_text(text: str) -> None:
    """Writes a text of several lines to standard output."""
    OUTPUT.write(visible_text(redact(text)).removesuffix("\n") + "\n")


def say_json(value: Any) -> None:
    """Writes a value as one line of JSON, in ASCII, which every stream can write."""
    text = to_json_text(_plain(msgspec.to_builtins(value, builtin_types=(Decimal,), str_keys=True), redactor()))
    OUTPUT.write(f"{_NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)}\n")


def progress(text: str) -> None:
    """Replace the current line of a terminal on standard error, or clear it with ''."""
    if ERROR.isatty():
        ERROR.write(f"\r\033[K{visible_line(text)}")


def visible_line(line: str) -> str:
    """Return a foreign line in safe form, for drawing on a terminal."""
    return visible(redact(line))


def console() -> "Console":
    """Return standard output for rich's drawings. Its texts must be `visible_line`."""
    from rich.console import Console

    return Console(file=cast(IO[str], OUTPUT), highlight=False)


def notebook_display() -> Any:
    """Return IPython's `display` if this process is a notebook's kernel, which has loaded it. Otherwise None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython.display.display if ipython is not None and getattr(shell, "kernel", None) is not None else None


def can_redraw() -> bool:
    """Return whether earlier output can be replaced: on a terminal, and below a cell of a notebook."""
    return OUTPUT.isatty() or notebook_display() is not None


def ask(question: str) -> str:
    """Return the user's answer on a terminal, or ''. Raises `LookupError` without a terminal to ask on."""
    try:
        terminal = sys.stdin is not None and sys.stdin.isatty()
    except (AttributeError, OSError, ValueError):
        terminal = False
    if not terminal:
        raise LookupError("standard input is no terminal")
    OUTPUT.write(visible_line(question))
    try:
        return sys.stdin.readline().strip()
    except (OSError, ValueError):  # the terminal has gone
        return ""


def prepare() -> None:
    """For a program that begins.

    It may lack descriptors (``>&-``): a file that it opens must not become its standard output. A descriptor that does
    not wait for its reader (``O_NONBLOCK``) would lose text. Environments' output in this process must not fail on an
    unknown character.
    """
    for descriptor in range(3):
        try:
            os.set_blocking(descriptor, True)
        except OSError:
            # The lowest free number is given, and all below are taken.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # absent, or of another type


def _lines(lines: tuple[str, ...]) -> str:
    return "".join(f"{visible_line(line)}\n" for line in lines)


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    command = _COMMAND.search(line)
    text = line[: command.start()] if command else line
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [*lines, *([f"  {command[0]}"] if command else [])]


def _plain(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {_plain(key, hide): _plain(each, hide) for key, each in value.items()}
    return [_plain(each, hide) for each in value] if isinstance(value, list | tuple) else value


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, "marless").decode(encoding)
    except LookupError:  # a stream of others may name anything
        return text
    return text


def _in_other_words(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(character: str) -> str:
    box = "+" if ord(character) in _BOXES else character.encode("ascii", "backslashreplace").decode()
    return _WORDS.get(character, box)


codecs.register_error("marless", _in_other_words)
