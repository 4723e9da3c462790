"""The function that the invokers' suites invoke. Its task names an action.

A task is JSON: the action, its argument, and a time-out, which Lambda itself enforces. An answer is JSON too.
"""

import ctypes
import importlib
import json
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from marless.functions.errors import KeyTaken
from marless.functions.storage_port import Blobs
from marless.infra.local.own_process import resident_mb
from marless.infra.local.pipe_messages import Ready, TaskEnded, frame

mark = "fresh"
UNSPEAKABLE = object()


class AttemptTimedOut(Exception):
    """As the functions' entry point raises it."""


def handle(body: bytes, blobs: Blobs) -> bytes:
    task = json.loads(body)
    if "stream" in task:  # of a real evaluation, with the names of its inputs
        task = json.loads(task["stream"])
    answer = _DEEDS[task["deed"]](task["argument"], blobs)
    return answer if answer is UNSPEAKABLE else json.dumps(answer).encode()


def on_lambda(event, context):
    def stop(number, frame):
        raise AttemptTimedOut(f"no answer within {event['timeout_s']:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, event["timeout_s"])
    try:
        return _DEEDS[event["deed"]](event["argument"], _NoBlobs())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _NoBlobs:
    def put(self, key, body):
        pass


def _echo(argument, blobs):
    return argument


def _pid(argument, blobs):
    return os.getpid()


def _freeze(argument, blobs):
    """Soon after the answer the interpreter does nothing for a minute."""

    def hold():
        time.sleep(0.1)
        blobs.put(f"pids/{os.getpid()}", b"")
        ctypes.PyDLL(None).sleep(60)  # with the interpreter's lock

    threading.Thread(target=hold, daemon=True).start()


def _sleep(argument, blobs):
    """Stores its process id under `pids/`, so that a test can kill it, then sleeps."""
    blobs.put(f"pids/{os.getpid()}", b"")
    time.sleep(argument)
    return "slept"


def _meet(argument, blobs):
    """Waits in a folder for as many others as the argument says."""
    folder, others = argument
    (Path(folder) / f"{os.getpid()}").touch()
    while len(list(Path(folder).iterdir())) < others:
        time.sleep(0.01)
    return "met"


def _compute(argument, blobs):
    blobs.put(f"pids/{os.getpid()}", b"")
    while True:
        pass


def _hold_the_interpreter(argument, blobs):
    """Sleeps without releasing the interpreter's lock, as a C extension may."""
    blobs.put(f"pids/{os.getpid()}", b"")
    ctypes.PyDLL(None).sleep(60)


def _start_a_program(argument, blobs):
    child = subprocess.Popen(["sleep", "60"])
    blobs.put(f"pids/{child.pid}", b"")
    time.sleep(60)


def _sleep_then_fill(argument, blobs):
    time.sleep(0.3)
    return "x" * argument


def _sleep_then_leave_a_note(argument, blobs):
    time.sleep(0.3)
    Path(argument).touch()


def _fail(argument, blobs):
    raise ValueError(argument)


def _leave(argument, blobs):
    sys.exit(argument)


def _exit(argument, blobs):
    print("about to exit")
    sys.stdout.flush()
    os._exit(argument)


def _segfault(argument, blobs):
    os.kill(os.getpid(), signal.SIGSEGV)


def _talk(argument, blobs):
    print("noise on stdout")
    print("noise on stderr", file=sys.stderr)
    os.write(1, b"\0" * 100_000)
    subprocess.run(["echo", "noise of a program"], check=True)
    return "done"


def _talk_much(argument, blobs):
    for _ in range(200):
        print("x" * 10_000)
    return "done"


def _environment(argument, blobs):
    return os.environ[argument]


def _parent(argument, blobs):
    return os.getppid()


def _draw(argument, blobs):
    """Two unseeded numbers, and the process. It is so late that two tasks take two processes."""
    time.sleep(0.3)
    return [os.getpid(), random.random(), np.random.random()]


def _mark(argument, blobs):
    return f"{mark} {'pytest' in sys.modules}"


def _allocate_in_threads(argument, blobs):
    """So many threads, all alive at once, take 20 MB in pieces and free them, one after the other. Returns the growth
    of the process in MB."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    everyone, turn, before = threading.Barrier(argument), threading.Lock(), resident_mb()

    def allocate():
        everyone.wait()
        with turn:
            pieces = [libc.malloc(100_000) for _ in range(200)]
            libc.malloc(100_000)  # stays, and all before it in the process
            for piece in pieces:
                ctypes.memset(piece, 1, 100_000)
                libc.free(piece)
        everyone.wait()

    with ThreadPoolExecutor(argument) as pool:
        for ended in [pool.submit(allocate) for _ in range(argument)]:
            ended.result()
    return resident_mb() - before


def _import(argument, blobs):
    importlib.import_module(argument)
    return os.getpid()


def _store(argument, blobs):
    try:
        blobs.put(argument, b"new")
    except KeyTaken:
        return "taken"
    return "stored"


def _shift(argument, blobs):
    """Imports a module and works for a while: the parent, which is its agent's, the process, from when until when."""
    began = time.monotonic()
    importlib.import_module(argument)
    time.sleep(0.02)
    return [os.getppid(), os.getpid(), began, time.monotonic()]


def _mask(argument, blobs):
    os.umask(0o777)
    return os.getpid()


def _start_daemons(argument, blobs):
    """A program in a separate session, and a child of a child that has closed everything."""
    program = subprocess.Popen(["setsid", "sleep", "60"])
    reading, writing = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os.write(writing, str(os.getpid()).encode())
            os.closerange(0, 4096)
            time.sleep(60)
        os._exit(0)
    for pid in (program.pid, int(os.read(reading, 20))):
        blobs.put(f"pids/{pid}", b"")
    return "started"


def _close_everything(argument, blobs):
    blobs.put(f"pids/{os.getpid()}", b"")
    os.closerange(0, 4096)
    time.sleep(60)


def _write_everywhere(argument, blobs):
    """Into every pipe: text that is none, a frame that promises more than any memory holds, or one like a worker's."""
    ended = frame(TaskEnded(duration_ms=1.0, processor_ms=1.0, peak_mb=1.0, resident_mb=1.0, error="QQQQ"))
    data = {
        "bad text": ended.replace(b"QQQQ", b"\xff" * 4),
        "endless": struct.pack("<IQ", 9, 1 << 40),
        "forged answer": frame(TaskEnded(1.0, 1.0, 1.0, 1.0), b'"forged"'),
        "forged import": frame(Ready("echo", 1e9)),
    }[argument]
    for descriptor in range(3, 64):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, data)
        except OSError:
            pass
    time.sleep(60)


def _print_megabytes(argument, blobs):
    print("the first line")
    for _ in range(argument):
        print("x" * (1 << 20))
    print("the last line", flush=True)
    return "printed"


def _allocate(argument, blobs):
    return len(b"x" * (argument << 20))


def _say_nothing_that_can_be_sent(argument, blobs):
    return UNSPEAKABLE


def _write_into_every_pipe(argument, blobs):
    for descriptor in range(3, 64):
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, bytes.fromhex(argument))
    return "done"


def _name_a_file_whose_name_is_no_text(argument, blobs):
    raise FileNotFoundError(f"no file {os.fsdecode(bytes.fromhex(argument))}")


def _ask(argument, blobs):
    from marless.functions.resources.port import RESOURCES, ResourceCall

    return RESOURCES.host.ask(argument, [ResourceCall(b"q")])[0].error


_DEEDS = {
    "ask": _ask,
    "garble": _write_into_every_pipe,
    "misname": _name_a_file_whose_name_is_no_text,
    "echo": _echo,
    "pid": _pid,
    "freeze": _freeze,
    "sleep": _sleep,
    "meet": _meet,
    "compute": _compute,
    "hold": _hold_the_interpreter,
    "start": _start_a_program,
    "fill": _sleep_then_fill,
    "leave a note": _sleep_then_leave_a_note,
    "fail": _fail,
    "leave": _leave,
    "exit": _exit,
    "segfault": _segfault,
    "talk": _talk,
    "babble": _talk_much,
    "environment": _environment,
    "parent": _parent,
    "draw": _draw,
    "mark": _mark,
    "allocate": _allocate,
    "allocate in threads": _allocate_in_threads,
    "import": _import,
    "mask": _mask,
    "shift": _shift,
    "store": _store,
    "daemons": _start_daemons,
    "close everything": _close_everything,
    "write everywhere": _write_everywhere,
    "print megabytes": _print_megabytes,
    "mumble": _say_nothing_that_can_be_sent,
}
