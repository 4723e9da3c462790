"""Small arrays inside messages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.contract import Table

_WIRE = np.dtype("<f4")


def pack(array: NDArray[Any]) -> Table:
    """An array of any shape as float32."""
    return Table(shape=array.shape, data=np.ascontiguousarray(array, _WIRE).tobytes())


def unpack(table: Table) -> NDArray[np.float32]:
    """The array; raises `ValueError` when its bytes do not fill its shape."""
    return np.frombuffer(table.data, _WIRE).reshape(table.shape).astype(np.float32)
