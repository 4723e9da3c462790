"""The filter of system calls of a sandbox: classic BPF, as seccomp(2) takes it.

A program may have one process, and only memory that its limit counts. The filter refuses everything that reaches out
of its name spaces: keys, other processes, mounts, kinds of sockets. Calls that a later kernel brings are missing.

The limit of processes that setrlimit(2) sets does not hold for root, and counts all processes of a user. Threads are
let through.
"""

import errno
import struct
from collections.abc import Sequence
from socket import AF_UNIX
from typing import NamedTuple


class MachineCalls(NamedTuple):
    """The system calls of one instruction set."""

    # `AUDIT_ARCH_*` of linux/audit.h.
    architecture: int
    # Its column in the tables below.
    column: int
    clone: int
    # System calls that make a socket. Their first argument is its family.
    sockets: tuple[int, int]
    # The calls that begin a process for any arguments.
    forks: tuple[int, ...]


MACHINES = {
    "x86_64": MachineCalls(0xC000003E, 0, clone=56, sockets=(41, 53), forks=(57, 58)),
    "aarch64": MachineCalls(0xC00000B7, 1, clone=220, sockets=(198, 199), forks=()),
}
# Name, number on x86-64, number on aarch64. 0: it does not exist there.
_REFUSED = """
memfd_create 319 279  shmget 29 194  shmat 30 196  shmctl 31 195  shmdt 67 197  vmsplice 278 75
semget 64 190  semop 65 193  semctl 66 191  semtimedop 220 192  msgget 68 186  msgsnd 69 189  msgrcv 70 188
msgctl 71 187  mq_open 240 180  mq_unlink 241 181  mq_timedsend 242 182  mq_timedreceive 243 183  mq_notify 244 184
add_key 248 217  request_key 249 218  keyctl 250 219
ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271  kcmp 312 272  move_pages 279 239
migrate_pages 256 238  perf_event_open 298 241  bpf 321 280  userfaultfd 323 282
unshare 272 97  setns 308 268  mount 165 40  umount2 166 39  pivot_root 155 41  chroot 161 51
name_to_handle_at 303 264  open_by_handle_at 304 265  fanotify_init 300 262
syslog 103 116  acct 163 89  quotactl 179 60  swapon 167 224  swapoff 168 225  reboot 169 142  vhangup 153 58
sethostname 170 161  setdomainname 171 162  settimeofday 164 170  clock_settime 227 112  lookup_dcookie 212 18
init_module 175 105  finit_module 313 273  delete_module 176 106  kexec_load 246 104  kexec_file_load 320 294
iopl 172 0  ioperm 173 0  modify_ldt 154 0  uselib 134 0  _sysctl 156 0
"""
# From here on every instruction set has the same numbers: io_uring, mounts by descriptors, pidfd_getfd, memfd_secret.
_COMMON = 424
# close_range, openat2, faccessat2, epoll_pwait2, futex_waitv, fchmodat2. The C library works without the other
# calls. One of them is `clone3`, which hides its flags behind a pointer.
_COMMON_ALLOWED = (436, 437, 439, 441, 449, 452)
# Numbers of the 32-bit interface of x86-64, which would pass by the numbers above.
_OTHER_INTERFACE = 0x40000000
_CLONE_THREAD = 0x10000
# Offsets of `struct seccomp_data`: the number, the instruction set, the lower half of the first argument.
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_ENDS = {
    "allow": _ALLOW,
    "busy": _ERROR | errno.EAGAIN,
    "refuse": _ERROR | errno.EPERM,
    "missing": _ERROR | errno.ENOSYS,
    "no such family": _ERROR | errno.EAFNOSUPPORT,
    "kill": _KILL,
}
# Code, operand, and where it continues if true and if false: at an end, or so many instructions after the next one.
_Test = tuple[int, int, str | int, str | int]


def sandbox_filter(machine: MachineCalls) -> bytes:
    """The instructions: a new process is refused with EAGAIN, a new thread is not."""
    refused = [int(number) for number in _REFUSED.split()[1 + machine.column :: 3] if number != "0"]
    tests: list[_Test] = [
        (_LOAD, _ARCHITECTURE, 0, 0),
        (_EQUAL, machine.architecture, 0, "kill"),
        (_LOAD, _NUMBER, 0, 0),
        (_AT_LEAST, _OTHER_INTERFACE, "busy", 0),
        *((_EQUAL, number, "allow", 0) for number in _COMMON_ALLOWED),
        (_AT_LEAST, _COMMON, "missing", 0),
        *((_EQUAL, number, "busy", 0) for number in machine.forks),
        *((_EQUAL, number, "refuse", 0) for number in refused),
        (_EQUAL, machine.clone, 0, 2),
        (_LOAD, _FIRST, 0, 0),
        (_ANY_BIT, _CLONE_THREAD, "allow", "busy"),
        (_EQUAL, machine.sockets[0], 1, 0),
        (_EQUAL, machine.sockets[1], 0, "allow"),
        (_LOAD, _FIRST, 0, 0),
        (_EQUAL, AF_UNIX, "allow", "no such family"),
    ]
    return _assembled(tests)


def _assembled(tests: Sequence[_Test]) -> bytes:
    places = {end: len(tests) + index for index, end in enumerate(_ENDS)}

    def jump(target: str | int, at: int) -> int:
        return target if isinstance(target, int) else places[target] - at - 1

    rows = [(code, jump(true, at), jump(false, at), k) for at, (code, k, true, false) in enumerate(tests)]
    rows += [(_RETURN, 0, 0, result) for result in _ENDS.values()]
    return b"".join(struct.pack("=HBBI", *row) for row in rows)
