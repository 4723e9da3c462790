"""A small game that does harm to its process and its machine: ``pettingzoo:benchmarks.pool.bad_neighbour:make``.

`how` names the harm, of `HARMS`. It is done at every reset from the sixth of a process on. The game itself depends on
its seeds and actions alone.
"""

import builtins
import ctypes
import gc
import locale
import math
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

_FIRST = 6
_AGENTS = ("left", "right")
_LENGTH = 10
# Upwards, as fenv.h of x86-64 names it.
_UPWARD = 0x800
_DESCRIPTORS = range(3, 64)
_kept: list[Any] = []


class Game(ParallelEnv):  # type: ignore[misc]
    """Two agents guess a number that their guesses move."""

    metadata: ClassVar = {"name": "bad_neighbour", "max_cycles": _LENGTH}

    def __init__(self, how: str) -> None:
        self._harm = HARMS[how]
        self.possible_agents = list(_AGENTS)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        return Box(-1.0, 1.0, (3,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(3)

    def reset(self, seed: int | None = None, options: object = None) -> tuple[dict[str, Any], dict[str, Any]]:
        _resets[0] += 1
        self.agents, self._time, self._place = list(_AGENTS), 0, (seed or 0) % 97 / 97
        if _resets[0] >= _FIRST:
            self._harm()
        return self._seen(), {agent: {} for agent in _AGENTS}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Pay 1.0 to each agent that names the third of [0, 1) with the present place."""
        self._time += 1
        self._place = (self._place * 3.7 + 0.11 * actions["left"] + 0.07 * actions["right"]) % 1
        over = self._time >= _LENGTH
        if over:
            self.agents = []
        rewards = {agent: float(actions[agent] == int(self._place * 3)) for agent in _AGENTS}
        ends = dict.fromkeys(_AGENTS, over)
        return self._seen(), rewards, dict.fromkeys(_AGENTS, False), ends, {agent: {} for agent in _AGENTS}

    def close(self) -> None:
        """Nothing is open."""

    def _seen(self) -> dict[str, Any]:
        return {
            agent: np.array([self._place, self._time / _LENGTH, index], np.float32)
            for index, agent in enumerate(_AGENTS)
        }


_resets = [0]


def make(how: str = "nothing") -> Game:
    """The game that does this harm."""
    return Game(how)


def _siblings() -> Iterator[int]:
    """Other children of this process's parent, if they are workers."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            beside = parent == os.getppid() and int(folder.name) != os.getpid()
            if beside and b"zygote" in (folder / "cmdline").read_bytes():
                yield int(folder.name)


def _signal_siblings(number: int) -> None:
    for pid in _siblings():
        with suppress(OSError):
            os.kill(pid, number)


def _signal_parent(number: int) -> None:
    if b"zygote" in Path(f"/proc/{os.getppid()}/cmdline").read_bytes():
        os.kill(os.getppid(), number)


def _write_everywhere(data: bytes) -> None:
    for descriptor in _DESCRIPTORS:
        with suppress(OSError):
            os.set_blocking(descriptor, False)
            os.write(descriptor, data)


def _close_and_hang() -> None:
    os.closerange(0, 4096)
    time.sleep(600)


def _frame(**fields: Any) -> bytes:
    from marless.infra.local.pipe_messages import TaskEnded, frame

    numbers = dict.fromkeys(("duration_ms", "processor_ms", "peak_mb", "resident_mb"), 1.0)
    return frame(TaskEnded(**{**numbers, **fields}), b"{}")


def _not_text() -> None:
    _write_everywhere(_frame(error="QQQQQQQQ").replace(b"QQQQQQQQ", b"\xff" * 8))


def _endless_frame() -> None:
    _write_everywhere(struct.pack("<IQ", 10, 1 << 40))
    while True:
        _write_everywhere(b"x")
        time.sleep(0.05)


def _replace_numpy() -> None:
    exp = np.exp
    np.matmul = lambda *arrays, **keywords: np.zeros(1)  # type: ignore[assignment]
    np.exp = lambda array, *rest, **keywords: exp(array, *rest, **keywords) * 1.0001  # type: ignore[assignment]


def _replace_generator() -> None:
    np.random.default_rng = lambda *seeds: np.random.Generator(np.random.PCG64(7))
    np.random.Philox = np.random.PCG64  # type: ignore[misc, assignment]


def _replace_ours() -> None:
    from marless.functions.nn import layers
    from marless.functions.policies import Policy

    for owner in (layers, layers.Linear, Policy):
        for name, value in list(vars(owner).items()):
            if callable(value) and not isinstance(value, type) and not name.startswith("__"):
                setattr(owner, name, lambda *given, **keywords: None)


def _replace_builtins() -> None:
    builtins.sum = lambda *given: 7  # type: ignore[assignment]
    math.sqrt = lambda number: 1.0


def _set_state() -> None:
    os.chdir("/")
    os.umask(0o777)
    os.environ.clear()
    np.random.seed(0)
    random.seed(0)
    np.seterr(all="raise")
    warnings.simplefilter("error")
    sys.setrecursionlimit(150)
    gc.disable()
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGIO):
        signal.signal(number, lambda *_: None)
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C")
    sys.path[:] = []
    sys.stdout = sys.stderr = None


def _flush_to_zero() -> None:
    from marless.functions.isolation.arithmetic import ARITHMETIC

    control, mxcsr = ARITHMETIC.read()
    ARITHMETIC.write((control, mxcsr | 0x8040))


def _change_torch() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_default_dtype(torch.float64)


def _more_threads() -> None:
    from threadpoolctl import threadpool_limits

    _kept.append(threadpool_limits(4))


def _spin() -> None:
    def forever() -> None:
        while True:
            time.sleep(0.001)

    for _ in range(20):
        threading.Thread(target=forever).start()


def _children() -> None:
    subprocess.Popen(["sleep", "293"])
    subprocess.Popen(["setsid", "sleep", "297"])


def _daemon() -> None:
    """A child of a child that has closed everything and left its session."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 4096)
            time.sleep(299)
        os._exit(0)


def _forks() -> None:
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            time.sleep(301)
            os._exit(0)


def _print_much() -> None:
    for _ in range(40):
        print("x" * (1 << 20))
    for _ in range(10):
        os.write(2, b"y" * (1 << 20))


def _overwrite() -> None:
    own = Path(os.environ.get("VICTIM", "/nonexistent"))
    for path in own.rglob("*"):
        if path.is_file() and path.suffix in (".safetensors", ".sqlite"):
            path.write_bytes(b"overwritten")


def _raise(error: BaseException) -> None:
    raise error


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _forget_modules() -> None:
    for name in [name for name in sys.modules if name.startswith("marless.functions.nn")]:
        del sys.modules[name]


def _close_one_by_one() -> None:
    for descriptor in _DESCRIPTORS:
        with suppress(OSError):
            os.close(descriptor)


HARMS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    # Its own end.
    "exit": lambda: os._exit(0),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "kill_group": lambda: os.killpg(0, signal.SIGKILL),
    "stop_itself": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "system_exit": lambda: sys.exit(3),
    "keyboard": lambda: _raise(KeyboardInterrupt()),
    # Errors.
    "huge_error": lambda: _raise(ValueError("z" * 10_000_000)),
    "secret_error": lambda: _raise(ValueError(str(dict(os.environ)))),
    "no_text": lambda: _raise(_Unspeakable()),
    "surrogate": lambda: _raise(ValueError("no file b\udcff")),
    "escapes": lambda: _raise(ValueError("\x1b[2J\x1b]0;mine\x07\nround 99 trained")),
    # Others' processes.
    "kill_parent": lambda: _signal_parent(signal.SIGKILL),
    "stop_parent": lambda: _signal_parent(signal.SIGSTOP),
    "kill_siblings": lambda: _signal_siblings(signal.SIGKILL),
    "stop_siblings": lambda: _signal_siblings(signal.SIGSTOP),
    "interrupt_siblings": lambda: _signal_siblings(signal.SIGINT),
    # Descriptors.
    "close_all": lambda: os.closerange(0, 4096),
    "close_and_hang": _close_and_hang,
    "close_one_by_one": _close_one_by_one,
    "write_everywhere": lambda: _write_everywhere(b"garbage" * 10),
    "not_text": _not_text,
    "forged_end": lambda: _write_everywhere(_frame(duration_ms=1e9)),
    "endless_frame": _endless_frame,
    "print_much": _print_much,
    "print_surrogate": lambda: print("b\udcff"),
    # The state of the process.
    "state": _set_state,
    "error_state": lambda: np.seterr(all="raise"),
    "mode_mask": lambda: os.umask(0o777),
    "folder": lambda: os.chdir("/"),
    "rounding": lambda: ctypes.CDLL("libm.so.6").fesetround(_UPWARD),
    "flush_to_zero": _flush_to_zero,
    "threads_of_numpy": _more_threads,
    "torch": _change_torch,
    "alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2),
    # Functions of others.
    "numpy": _replace_numpy,
    "generator": _replace_generator,
    "ours": _replace_ours,
    "builtins": _replace_builtins,
    "modules": _forget_modules,
    # What stays.
    "threads": _spin,
    "children": _children,
    "daemon": _daemon,
    "forks": _forks,
    "memory": lambda: _kept.append(np.ones(int(5e9 // 8)).sum()),
    "overwrite": _overwrite,
}
