"""The filter of system calls, run by an interpreter of its instructions as the manual of BPF describes them."""

import errno
import struct

import pytest

from marless.functions.resources.serving.seccomp_filter import MACHINES, sandbox_filter

ALLOWED, ENDED = "allowed", "ended"
X86, ARM = MACHINES["x86_64"], MACHINES["aarch64"]
# Flags of a thread as libraries start them, and of a process: linux/sched.h.
THREAD, PROCESS = 0x3D0F00, 0x1200011


def outcome(machine, number, first=0, architecture=None):
    """Return the kernel's reaction to a system call: ALLOWED, ENDED or the number of the error."""
    code = sandbox_filter(machine)
    data = struct.pack("=iIQ6Q", number, architecture or machine.architecture, 0, first, 0, 0, 0, 0, 0)
    at, value = 0, 0
    while True:
        kind, true, false, k = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if kind == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
        elif kind == 0x06:
            return {0x7FFF0000: ALLOWED, 0x80000000: ENDED}.get(k, k & 0xFFFF)
        else:
            at += true if {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[kind] else false


@pytest.mark.parametrize("machine", [X86, ARM])
def test_process_is_refused_and_thread_allowed(machine):
    assert outcome(machine, machine.clone, PROCESS) == errno.EAGAIN
    assert outcome(machine, machine.clone, THREAD) == ALLOWED
    assert outcome(machine, 435, 0) == errno.ENOSYS


# read, exit_group: /usr/include/asm/unistd_64.h and asm-generic/unistd.h.
@pytest.mark.parametrize(("machine", "number"), [(X86, 0), (X86, 231), (ARM, 63), (ARM, 94)])
def test_any_other_call_is_let_through(machine, number):
    assert outcome(machine, number) == ALLOWED


@pytest.mark.parametrize("number", [57, 58])
def test_fork_and_vfork_are_refused(number):
    assert outcome(X86, number) == errno.EAGAIN


# keyctl, unshare, ptrace, memfd_create, shmget, mount, bpf, process_vm_writev, setns: the same two files.
@pytest.mark.parametrize(
    ("machine", "numbers"),
    [(X86, (250, 272, 101, 319, 29, 165, 321, 311, 308)), (ARM, (219, 97, 117, 279, 194, 40, 280, 271, 268))],
)
def test_calls_that_reach_over_the_walls_are_refused(machine, numbers):
    assert {outcome(machine, number) for number in numbers} == {errno.EPERM}


# socket and socketpair. AF_UNIX is 1, AF_INET 2 and AF_VSOCK 40: linux/socket.h.
@pytest.mark.parametrize(("machine", "number"), [(X86, 41), (X86, 53), (ARM, 198), (ARM, 199)])
def test_a_socket_is_one_of_this_machine(machine, number):
    assert outcome(machine, number, 1) == ALLOWED
    assert {outcome(machine, number, family) for family in (2, 10, 16, 40)} == {errno.EAFNOSUPPORT}


# io_uring_setup, fsopen, pidfd_getfd, memfd_secret, and a future call. Also close_range and
# futex_waitv.
@pytest.mark.parametrize("machine", [X86, ARM])
def test_new_calls_are_missing_except_for_libraries(machine):
    assert {outcome(machine, number) for number in (425, 430, 438, 447, 600)} == {errno.ENOSYS}
    assert {outcome(machine, number) for number in (436, 449)} == {ALLOWED}


def test_calls_by_other_processor_interface_are_refused():
    assert outcome(X86, 0x40000000 | 57) == errno.EAGAIN
    assert outcome(X86, 2, architecture=0x40000003) == ENDED
