"""One module writes to the program's streams, and no stream makes it fail."""

import ast
import contextlib
import errno
import io
import json
import os
import re
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from marless import output
from marless.functions.text.terminal_text import visible

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (*("functions", "coordinator", "infra", "marless", "scripts", "examples"), *ROOT.glob("packages/*/*_*"))
OPENING = re.compile(r"\b(open|read_text|write_text|run|Popen)\(")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


class Stream(io.TextIOWrapper):
    """A stream with an encoding, and an error at each write if there is one."""

    def __init__(self, encoding="utf-8", error=None):
        self.body, self.error = io.BytesIO(), error
        super().__init__(self.body, encoding=encoding, write_through=True)

    def write(self, text):
        if self.error:
            raise self.error
        return super().write(text)


class Bare:
    """A stand-in for a stream, as notebooks and tests use: no isatty, encoding, fileno or flush."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


@pytest.fixture
def streams():
    """Puts a stream in place of standard output and one in place of standard error."""
    with ExitStack() as stack:

        def put(out, err=None):
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))

        output.OUTPUT.problem = output.ERROR.problem = ""
        yield put
        output.OUTPUT.problem = output.ERROR.problem = ""


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        OSError(errno.EIO, "the terminal has gone"),
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("I/O operation on closed file"),
        RuntimeError("a kernel that was shut down"),
    ],
)
def test_a_write_that_fails_raises_nothing(streams, error):
    streams(Stream(error=error), Stream(error=error))
    output.say("a"), output.note("b"), output.say_json({"c": 1}), output.say_text("d"), output.progress("e")


def test_streams_may_be_absent_closed_or_bare(streams):
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed, Bare()):
        streams(stream, stream)
        output.say("a"), output.note("b"), output.progress("c")
        assert not output.OUTPUT.isatty()
        assert output.OUTPUT.encoding == "utf-8"
    assert sys.stdout.text == "a\nb\n"


def test_full_disk_is_named_once_and_may_recover(streams):
    full, err = Stream(error=OSError(errno.ENOSPC, "No space left on device")), Stream()
    streams(full, err)
    output.say("lost"), output.say("lost")
    assert err.body.getvalue() == b"marless: standard output cannot be written: No space left on device\n"
    full.error = None
    output.say("kept")
    assert full.body.getvalue() == b"kept\n"


def test_departed_reader_is_harmless_and_next_stream_used(streams):
    streams(Stream(error=BrokenPipeError(errno.EPIPE, "Broken pipe")))
    output.say("nobody reads")
    assert output.OUTPUT.unread and not output.OUTPUT.problem
    with contextlib.redirect_stdout(io.StringIO()) as there:
        output.say("somebody does")
    assert there.getvalue() == "somebody does\n"


@pytest.mark.parametrize(
    ("encoding", "said"), [("ascii", b"3.0 +- 0.1 -> \\xfc |_#+\n"), ("latin-1", b"3.0 \xb1 0.1 -> \xfc |_#+\n")]
)
def test_characters_that_a_stream_lacks_become_others(streams, encoding, said):
    stream = Stream(encoding)
    streams(stream)
    output.say("3.0 ± 0.1 → ü │▁█╭")
    assert stream.body.getvalue() == said


def test_json_is_ascii_and_the_same_value(streams):
    stream, value = Stream("ascii"), {"agent ü\x9b": "± \x1b[2J\n", "n": float("nan"), "half": "\udc80"}
    streams(stream)
    output.say_json(value)
    body = stream.body.getvalue()
    assert body.isascii() and body.count(b"\n") == 1 and not any(byte < 32 for byte in body[:-1])
    assert json.loads(body) == {"agent ü\x9b": "± \x1b[2J\n", "n": None, "half": "\\udc80"}


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("\x9b2J", "\\u009b2J"),
        ("ok\rno", "ok\\rno"),
        ("ok\nmarless: forged", "ok\\nmarless: forged"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("\u2028", "\\u2028"),
        ("\x07\x08\x7f\x00", "\\u0007\\u0008\\u007f\\u0000"),
        ("\udcff", "\\udcff"),
        ("agent\t0 ü 机器人 😀", "agent\t0 ü 机器人 😀"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(streams, told, shown):
    stream = Stream()
    streams(stream, stream)
    output.say(told), output.note(told)
    assert stream.body.getvalue().decode() == f"{shown}\n{shown}\n"
    assert visible(shown) == shown


def test_secrets_are_hidden_on_streams_and_in_json(streams, shell):
    shell.export(A_TOKEN="abcdefgh\r\nijklmnop")
    stream = Stream()
    streams(stream, stream)
    output.say("abcdefgh\r\nijklmnop"), output.note("ijklmnop"), output.say_text("x\nabcdefgh\n")
    output.say_json({"abcdefgh": ["abcdefgh\r\nijklmnop"]}), output.progress("abcdefgh")
    text = stream.body.getvalue().decode()
    assert "abcdefgh" not in text and "ijklmnop" not in text


def test_secret_of_digits_leaves_json_numbers_whole(streams, shell):
    shell.export(A_PASSWORD="12345678")
    stream = Stream()
    streams(stream)
    output.say_json({"steps": 12345678, "word": "12345678"})
    assert json.loads(stream.body.getvalue()) == {"steps": 12345678, "word": "<A_PASSWORD>"}


def test_a_program_without_descriptors_gets_them():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 9)
        for descriptor in range(3):
            os.close(descriptor)
        output.prepare()
        names = [str(Path(f"/proc/self/fd/{descriptor}").readlink()) for descriptor in range(3)]
        os.write(9, " ".join(names).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"/dev/null /dev/null /dev/null"
    os.close(reader)


@pytest.mark.skipif(sys.platform != "linux", reason="see above")
def test_rich_draws_through_the_same_stream(streams):
    from rich.panel import Panel

    stream = Stream("ascii")
    streams(stream)
    output.console().print(Panel("x"))
    assert stream.body.getvalue().isascii() and b"+" in stream.body.getvalue()


def _calls(path):
    return (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))


@pytest.mark.parametrize("program", ["marless", ".venv/bin/marless", "'/a folder/.venv/bin/marless'"])
def test_advice_breaks_between_words_but_never_commands(streams, shell, program):
    command = f"{program} resume {'long-name-' * 7}"
    line = f"marless: stopped after round 12; go on with: {command}"
    streams(Stream(), err := Stream())
    output.advise(line)
    assert err.body.getvalue().decode() == f"{line}\n"
    shell.export(COLUMNS="20")
    streams(Stream(), err := Stream())
    err.isatty = lambda: True
    output.advise(line)
    assert err.body.getvalue().decode() == f"marless: stopped\nafter round 12; go\non with:\n  {command}\n"


def test_every_file_of_text_is_utf_8():
    """`open`, `read_text`, `write_text` and a program's output name their encoding, or are bytes."""
    without = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in SOURCES
        if OPENING.search(path.read_text(encoding="utf-8"))
        for call in _calls(path)
        if _opens_text(call) and not any(word.arg == "encoding" for word in call.keywords)
    ]
    assert without == []


def _opens_text(call):
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in ("read_text", "write_text"):
        return len(call.args) < (1 if name == "read_text" else 2)
    if any(word.arg in ("text", "universal_newlines") for word in call.keywords) and name in ("run", "Popen"):
        return True
    modes = [word.value for word in call.keywords if word.arg == "mode"]
    modes += call.args[1:2] if isinstance(call.func, ast.Name) else call.args[:1]
    mode = next((each.value for each in modes if isinstance(each, ast.Constant) and isinstance(each.value, str)), "r")
    is_open = isinstance(call.func, ast.Name) and name == "open"
    is_path_open = name == "open" and all(isinstance(each, ast.Constant) for each in call.args) and mode != "r"
    return (is_open or (is_path_open and set(mode) <= set("rwax+t"))) and "b" not in mode


def test_nothing_else_writes_to_the_streams():
    """`marless.output` alone names them. A worker's own log is `marless.infra.local.worker_main`'s."""
    naming = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in ("coordinator", "marless")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
        and isinstance(node.value, ast.Name) and node.value.id == "sys"
    }  # fmt: skip
    assert naming == {"marless/output.py"}
