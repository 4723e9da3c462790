"""Random addresses: a generator depends on its place in the run, not on the process or the time."""

import zlib

import numpy as np


def generator(seed: int, *address: int | str) -> np.random.Generator:
    """The generator at `address` of the run with `seed`.

    Words are hashed with CRC-32 (stable between processes, unlike `hash`), numbers are used unchanged. The bit stream
    is Philox (Salmon et al., SC'11), counter-based and equal on every platform.
    """
    words = (zlib.crc32(part.encode()) if isinstance(part, str) else part for part in address)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))
