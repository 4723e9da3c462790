"""The settings of this thread's processor for computing: rounding, flush to zero, traps.

Read and written with fegetenv(3) and fesetenv(3) of C's mathematics library, which every Python has loaded. Unlisted
layouts of `fenv_t` are not compared.
"""

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple


class _Field(NamedTuple):
    """A control register in `fenv_t`: its place, its control bits, its rounding bits, and its value when a program
    starts."""

    place: int
    format: Struct
    control: int
    rounding: int
    standard: int


# fenv.h of glibc (also musl's) and of macOS. Bits 0 to 5 of MXCSR are flags of exceptions that happened.
_X87 = _Field(0, Struct("<H"), 0xFFFF, 0x0C00, 0x037F)
_LAYOUTS = {
    ("linux", "x86_64"): (_X87, _Field(28, Struct("<I"), 0xFFC0, 0x6000, 0x1F80)),
    ("linux", "aarch64"): (_Field(0, Struct("<I"), 0xFFFFFFFF, 0xC00000, 0),),
    ("darwin", "x86_64"): (_X87, _Field(4, Struct("<I"), 0xFFC0, 0x6000, 0x1F80)),
    ("darwin", "arm64"): (_Field(8, Struct("<Q"), 0xFFFFFFFFFFFFFFFF, 0xC00000, 0),),
}
# Longer than any `fenv_t`.
_BYTES = 64


class ControlRegisters:
    """The control registers of the calling thread. A new thread begins with its parent's."""

    def __init__(self) -> None:
        self._fields = _LAYOUTS.get((sys.platform, platform.machine()), ())
        self._state = ctypes.create_string_buffer(_BYTES)
        try:
            library = ctypes.CDLL(None)
            self._get, self._set = library.fegetenv, library.fesetenv
        except (OSError, AttributeError):
            self._fields = ()
        self.standard = tuple(field.standard for field in self._fields)
        """The result of `read` in an unchanged program: round to nearest, keep subnormals, trap nothing."""

    def read(self) -> tuple[int, ...]:
        """The control registers, or () for an unknown layout."""
        if self._fields:
            self._get(self._state)
        return tuple([field.format.unpack_from(self._state, field.place)[0] & field.control for field in self._fields])

    def rounds_to_nearest(self, registers: tuple[int, ...]) -> bool:
        """Return True if these registers round numbers to the nearest."""
        return not any(value & field.rounding for field, value in zip(self._fields, registers, strict=True))

    def write(self, registers: tuple[int, ...]) -> None:
        """Sets an earlier result of `read`."""
        if not self._fields:
            return
        self._get(self._state)
        for field, value in zip(self._fields, registers, strict=True):
            field.format.pack_into(self._state, field.place, value)
        self._set(self._state)


ARITHMETIC = ControlRegisters()


@contextmanager
def standard_arithmetic() -> Iterator[None]:
    """Compute within the block with the standard control registers, and restore the former registers afterwards."""
    registers = ARITHMETIC.read()
    ARITHMETIC.write(ARITHMETIC.standard)
    try:
        yield
    finally:
        ARITHMETIC.write(registers)
