"""Programs within bounds: they end with their starter, at a signal, and at their bounds of time and memory.

The module `code` of Python's own library runs the lines on its standard input.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from marless.infra.local.own_process import has_ended
from marless.signals import Interrupted, end, handle_signals
from marless_language.runs.bounded_program import ProgramLimits, TookTooLong, run

SLEEPS = "import pathlib, time; from marless.infra.local.own_process import address;"
SLEEPS += " pathlib.Path({path!r}).write_text(address()); time.sleep(600)\n"


def begun(path: Path) -> str:
    """The address of the program, once it has written it."""
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)
    return path.read_text()


def wait_for_end(address: str) -> None:
    while not has_ended(address):
        time.sleep(0.01)


def test_program_reads_input_and_returns_output_and_code():
    code, errors = run("code", b"import sys\nsys.stderr.write('two words')\nsys.exit(3)\n", ProgramLimits(60, 0))
    assert code == 3 and "two words" in errors


def test_a_program_ends_at_its_bound_of_time():
    with pytest.raises(TookTooLong):
        run("code", b"import time\ntime.sleep(600)\n", ProgramLimits(0.3, 0))


def test_program_imports_current_folder_last(tmp_path, shell):
    shell.cd(tmp_path)
    (tmp_path / "mine.py").write_text("print('mine', file=__import__('sys').stderr)\n")
    (tmp_path / "random.py").write_text("raise SystemExit(3)\n")
    code, errors = run("code", b"import random, mine\n", ProgramLimits(60, 0))
    assert (code, "mine" in errors) == (0, True)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has this bound")
def test_program_stays_within_its_memory_limit():
    _, errors = run("code", b"many = bytes(1 << 29)\n", ProgramLimits(60, 256))
    assert "MemoryError" in errors
    _, errors = run("code", b"many = bytes(1 << 29)\n", ProgramLimits(60, 1024))
    assert "MemoryError" not in errors


def test_a_program_ends_at_a_signal(tmp_path: Path):
    def send() -> None:
        begun(tmp_path / "address")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    with handle_signals(end), pytest.raises(Interrupted):
        run("code", SLEEPS.format(path=str(tmp_path / "address")).encode(), ProgramLimits(60, 0))
    wait_for_end(begun(tmp_path / "address"))


def test_program_ends_when_its_starter_is_killed(tmp_path: Path):
    body = SLEEPS.format(path=str(tmp_path / "address")).encode()
    program = "from marless_language.runs.bounded_program import ProgramLimits, run;"
    program += f" run('code', {body!r}, ProgramLimits(600, 0))"
    starter = subprocess.Popen([sys.executable, "-c", program])
    address = begun(tmp_path / "address")
    starter.kill()
    starter.wait()
    wait_for_end(address)
