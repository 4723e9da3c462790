"""Random numbers that a game draws from the generators that all code of a process shares."""

import random
from types import TracebackType

import numpy as np


class Draws:
    """Within it Python's generator and numpy's global generator draw the numbers of one game. Outside they are as
    before."""

    def __init__(self, seed: int) -> None:
        """`seed` is a number from 0 to 2³¹ - 1. Equal seeds draw equal numbers."""
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed).get_state()

    def __enter__(self) -> None:
        self._swap()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._swap()

    def _swap(self) -> None:
        python, numpy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        self._python, self._numpy = python, numpy
