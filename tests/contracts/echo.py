"""A function whose task says what to do, for the invoker's suite: the body is ``<deed> <argument>``."""

import ctypes
import os
import signal
import subprocess
import sys
import time

from functions.ports import Blobs

mark = "fresh"


def handle(body: bytes, blobs: Blobs) -> bytes:
    deed, _, argument = body.decode().partition(" ")
    return _DEEDS[deed](argument, blobs)


def _echo(argument, blobs):
    return argument.encode()


def _pid(argument, blobs):
    return str(os.getpid()).encode()


def _sleep(argument, blobs):
    """Says who it is under `pids/`, so that a test may kill it, then sleeps."""
    blobs.put(f"pids/{os.getpid()}", b"")
    time.sleep(float(argument))
    return b"slept"


def _compute(argument, blobs):
    blobs.put(f"pids/{os.getpid()}", b"")
    while True:
        pass


def _hold_the_interpreter(argument, blobs):
    """Sleeps without letting go of the interpreter's lock, as a C extension may."""
    blobs.put(f"pids/{os.getpid()}", b"")
    ctypes.PyDLL(None).sleep(60)


def _start_a_program(argument, blobs):
    child = subprocess.Popen(["sleep", "60"])
    blobs.put(f"pids/{child.pid}", b"")
    time.sleep(60)


def _sleep_then_fill(argument, blobs):
    time.sleep(0.3)
    return b"x" * int(argument)


def _fail(argument, blobs):
    raise ValueError(argument)


def _leave(argument, blobs):
    sys.exit(argument)


def _exit(argument, blobs):
    print("about to exit")
    os._exit(int(argument))


def _segfault(argument, blobs):
    os.kill(os.getpid(), signal.SIGSEGV)


def _talk(argument, blobs):
    print("noise on stdout")
    print("noise on stderr", file=sys.stderr)
    os.write(1, b"\0" * 100_000)
    subprocess.run(["echo", "noise of a program"], check=True)
    return b"done"


def _talk_much(argument, blobs):
    for _ in range(200):
        print("x" * 10_000)
    return b"done"


def _environment(argument, blobs):
    return os.environ[argument].encode()


def _mark(argument, blobs):
    return f"{mark} {'pytest' in sys.modules}".encode()


def _allocate(argument, blobs):
    return str(len(b"x" * (int(argument) << 20))).encode()


def _text(argument, blobs):
    return "not bytes"


_DEEDS = {
    "echo": _echo,
    "pid": _pid,
    "sleep": _sleep,
    "compute": _compute,
    "hold": _hold_the_interpreter,
    "start": _start_a_program,
    "fill": _sleep_then_fill,
    "fail": _fail,
    "leave": _leave,
    "exit": _exit,
    "segfault": _segfault,
    "talk": _talk,
    "babble": _talk_much,
    "environment": _environment,
    "mark": _mark,
    "allocate": _allocate,
    "text": _text,
}
