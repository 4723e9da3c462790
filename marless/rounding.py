"""The rounding mode of a user's process, which loaded libraries may have changed."""

from collections.abc import Iterator
from contextlib import contextmanager

SUBNORMALS = "a library of this process made the processor drop numbers near zero; MARLess computes with them"


@contextmanager
def exact_arithmetic() -> Iterator[bool]:
    """Compute within the block with the processor's standard settings, and afterwards as before.

    Yield whether other settings were there. Raises `UserError` if numbers are not rounded to nearest, because constants
    of modules that were imported before may differ.
    """
    from marless.functions.isolation.arithmetic import ARITHMETIC, standard_arithmetic

    registers = ARITHMETIC.read()
    if not ARITHMETIC.rounds_to_nearest(registers):
        from marless.coordinator.errors import UserError

        raise UserError(
            "this process does not round numbers to nearest, so weights would differ: a library, or a module that"
            " Python loads at its start (sitecustomize), changed the processor's rounding mode; run MARLess without it"
        )
    with standard_arithmetic():
        yield registers != ARITHMETIC.standard
