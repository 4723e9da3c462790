"""The abilities and limits of a program in the sandbox. Without bubblewrap these tests are skipped."""

import subprocess
import sys

import pytest
from installed_commands import needs_bubblewrap

from marless.functions.resources.serving.sandbox import FILE_BYTES, Sandbox, SandboxError, isolated

pytestmark = needs_bubblewrap

SANDBOX = Sandbox("bubblewrap", timeout_s=20, memory_mb=128)
# A sandbox for programs that do not end.
IMPATIENT = Sandbox("bubblewrap", timeout_s=0.3, memory_mb=128)


def error_of(program):
    output, error = SANDBOX.run(program)
    assert not output
    return error


def test_a_program_reads_its_input_and_prints():
    assert SANDBOX.run("print(int(input()) + 1)", b"41\n") == (b"42\n", "")


def test_program_prints_same_in_each_process():
    # Eight texts have 40,320 orders, and Python draws one for each process by default.
    assert len({SANDBOX.run("print({*'abcdefgh'})").output for _ in range(2)}) == 1


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import socket; socket.create_connection(('127.0.0.1', 9), 1)", "Address family not supported"),
        ("import socket; socket.create_connection(('192.0.2.1', 80), 1)", "Address family not supported"),
        ("open('/usr/file', 'w')", "Read-only file system"),
        ("open('/file', 'w')", "Read-only file system"),
        ("open('/dev/shm/file', 'w')", "Read-only file system"),
        ("import os; os.fork()", "Resource temporarily unavailable"),
        ("import subprocess; subprocess.run(['/bin/true'])", "Resource temporarily unavailable"),
        ("bytes(1 << 28)", "MemoryError"),
        (f"open('/tmp/file', 'wb').write(bytes({2 * FILE_BYTES}))", "File too large"),
        ("raise SystemExit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import os; os.kill(os.getpid(), 35)", "signal 35"),
        ("raise SystemExit(163)", "signal 35"),
        ("import numpy", "No module named 'numpy'"),
        ("1 +", "SyntaxError"),
    ],
)
def test_a_program_cannot(program, error):
    assert error in error_of(program)


def test_a_program_has_threads():
    assert SANDBOX.run("import threading; threading.Thread(target=print, args=('here',)).start()").output == b"here\n"


def test_program_files_are_in_bounded_memory():
    fill = f"for name in '12': open('/tmp/' + name, 'wb').write(bytes({FILE_BYTES * 3 // 4}))"
    assert "No space left" in error_of(fill)


def test_files_of_program_are_gone_for_next():
    write = "open('/tmp/note', 'w').write('x'); import os; print(os.listdir('/tmp'))"
    assert [SANDBOX.run(write).output for _ in range(2)] == [b"['note']\n"] * 2


def test_program_sees_no_user_file_or_variable(shell, tmp_path):
    (tmp_path / "secret").write_text("s")
    shell.export(SECRET="s")
    look = f"import os; print(os.path.exists({str(tmp_path / 'secret')!r}), 'SECRET' in os.environ, os.listdir('/tmp'))"
    assert SANDBOX.run(look).output == b"False False []\n"


def test_endless_output_is_cut_off():
    output, error = SANDBOX.run("while True: print('x' * 100_000)")
    assert len(output) <= FILE_BYTES and "File too large" in error


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "while True: pass"])
def test_a_program_that_hangs_is_ended(program):
    assert IMPATIENT.run(program).error == "it ran longer than 0.3 s"


def test_command_stays_in_sandbox_over_many_questions():
    talk = "import os, sys\nfor line in sys.stdin: print(line.strip(), os.listdir('/tmp'), flush=True)"
    with (
        isolated([sys.executable, "-S", "-c", talk], memory_mb=256) as start,
        subprocess.Popen(
            start.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=start.descriptors
        ) as process,
    ):
        for word in ("first", "second"):
            process.stdin.write(word + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{word} []\n"
        process.stdin.close()


def test_a_command_that_is_not_installed_is_named():
    with (
        pytest.raises(SandboxError, match=r"command 'no-such-engine' .* not installed"),
        isolated(["no-such-engine"], 9),
    ):
        pass
