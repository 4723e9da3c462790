"""The filter of system calls that keeps what runs in a sandbox to one process: classic BPF, as seccomp(2) takes it.

The limit of processes that setrlimit(2) sets does not hold for root, and counts all processes of a user. Threads are
let through: memory bounds them.
"""

import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple


class Machine(NamedTuple):
    """The numbers of system calls that begin processes, for one instruction set."""

    # `AUDIT_ARCH_*` of linux/audit.h.
    architecture: int
    clone: int
    # Those that begin a process whatever their arguments are.
    forks: tuple[int, ...]


MACHINES = {
    "x86_64": Machine(0xC000003E, clone=56, forks=(57, 58)),
    "aarch64": Machine(0xC00000B7, clone=220, forks=()),
}
# The same number on every instruction set.
_CLONE3 = 435
# Numbers of the 32-bit interface of x86-64, which would pass by the numbers above.
_OTHER_INTERFACE = 0x40000000
_CLONE_THREAD = 0x10000
# Offsets of `struct seccomp_data`: the number, the instruction set, the lower half of the first argument.
_NUMBER, _ARCHITECTURE, _FLAGS = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
# `clone3` hides its flags behind a pointer. Where it is missing, libraries take `clone`.
_ENDS = {"allow": _ALLOW, "refuse": _ERROR | errno.EAGAIN, "missing": _ERROR | errno.ENOSYS, "kill": _KILL}


def one_process_filter(machine: Machine) -> bytes:
    """The instructions: a new process is refused with EAGAIN, a new thread is not."""
    tests: list[tuple[int, int, str, str]] = [
        (_LOAD, _ARCHITECTURE, "", ""),
        (_EQUAL, machine.architecture, "", "kill"),
        (_LOAD, _NUMBER, "", ""),
        (_AT_LEAST, _OTHER_INTERFACE, "refuse", ""),
        *((_EQUAL, number, "refuse", "") for number in machine.forks),
        (_EQUAL, _CLONE3, "missing", ""),
        (_EQUAL, machine.clone, "", "allow"),
        (_LOAD, _FLAGS, "", ""),
        (_ANY_BIT, _CLONE_THREAD, "allow", "refuse"),
    ]
    return _assembled(tests)


def _assembled(tests: Sequence[tuple[int, int, str, str]]) -> bytes:
    """Instructions (code, jump if true, jump if false, operand), the ends behind the tests; '' is the next one."""
    places = {end: len(tests) + index for index, end in enumerate(_ENDS)}

    def jump(end: str, at: int) -> int:
        return places[end] - at - 1 if end else 0

    rows = [(code, jump(true, at), jump(false, at), k) for at, (code, k, true, false) in enumerate(tests)]
    rows += [(_RETURN, 0, 0, result) for result in _ENDS.values()]
    return b"".join(struct.pack("=HBBI", *row) for row in rows)
