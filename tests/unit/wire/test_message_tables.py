"""Arrays inside objects, and small ones inside messages."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save

from marless.functions.codec import encode, pack_table, unpack_table
from marless.functions.encoding import to_json_text
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.learner import LearnReply
from marless.functions.messages.message import Table

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
DTYPES = st.sampled_from([*np.typecodes["AllInteger"], *"efd?"])


@given(st.dictionaries(st.text(max_size=3), arrays.arrays(DTYPES, SHAPES)), st.text())
def test_objects_have_the_bytes_of_the_library(tensors, task):
    stored = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    metadata = {"marless": to_json_text(TaskHeader(task=task))}
    assert encode(tensors, TaskHeader(task=task)) == save(stored, metadata=metadata)


@given(arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32)))
def test_float32_comes_back_as_it_was(array):
    found = unpack_table(pack_table(array))
    assert found.dtype == np.float32
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def test_the_bytes_are_row_major_and_little_endian():
    table = pack_table(np.array([[1.0, 2.0], [0.5, -1.0]]))
    assert table == Table(shape=(2, 2), data=bytes.fromhex("0000803f000000400000003f000080bf"))


def test_strided_view_is_packed_in_own_order():
    array = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(unpack_table(pack_table(array)), [[0, 3], [1, 4], [2, 5]])


def test_unpacked_array_is_writable():
    found = unpack_table(pack_table(np.zeros(2)))
    found += 1
    np.testing.assert_array_equal(found, [1, 1])


@pytest.mark.parametrize("data", [b"", bytes(8), bytes(13), bytes(16)])
def test_bytes_that_mismatch_shape_are_refused(data):
    with pytest.raises(ValueError, match=r"reshape|buffer size"):
        unpack_table(Table(shape=(3,), data=data))


def test_a_table_travels_in_a_message():
    reply = LearnReply(tables={"behaviour/a00": pack_table(np.eye(2))})
    again = msgspec.json.decode(msgspec.json.encode(reply), type=LearnReply)
    np.testing.assert_array_equal(unpack_table(again.tables["behaviour/a00"]), np.eye(2))
