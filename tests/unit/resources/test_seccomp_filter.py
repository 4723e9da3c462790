"""The filter of system calls, run by an interpreter of its instructions as the manual of BPF describes them."""

import errno
import struct

import pytest

from functions.resources.seccomp_filter import MACHINES, one_process_filter

ALLOWED, ENDED = "allowed", "ended"
X86, ARM = MACHINES["x86_64"], MACHINES["aarch64"]
# Flags of a thread as libraries start them, and of a process: linux/sched.h.
THREAD, PROCESS = 0x3D0F00, 0x1200011


def outcome(machine, number, flags=0, architecture=None):
    """What the kernel would do at a system call: ALLOWED, ENDED or the number of the error."""
    code = one_process_filter(machine)
    data = struct.pack("=iIQ6Q", number, architecture or machine.architecture, 0, flags, 0, 0, 0, 0, 0)
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
def test_a_process_is_refused_and_a_thread_is_not(machine):
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


def test_calls_by_another_interface_of_the_processor_are_refused():
    assert outcome(X86, 0x40000000 | 57) == errno.EAGAIN
    assert outcome(X86, 2, architecture=0x40000003) == ENDED
