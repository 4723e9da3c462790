"""The emulated account's DynamoDB units, by hand, after the developer guide's pages on sizes and capacity."""

import pytest

from aws_emulator.middleware.capacity import item_size, read_units, value_size, write_units


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "abc"}, 3),
        ({"S": "é"}, 2),
        ({"B": "AAAA"}, 3),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        # A byte for two significant digits and one more. Zeros at both ends are trimmed.
        ({"N": "27"}, 2),
        ({"N": "1700"}, 2),
        ({"N": "0.0012"}, 2),
        ({"N": "1763745894.123"}, 8),
        ({"N": "-123"}, 4),
        ({"N": "0"}, 1),
        # One digit with any exponent: 1 is one byte, and one more.
        ({"N": "1e10"}, 2),
        ({"N": "-1E-10"}, 3),
        # 1234 and 15.
        ({"N": "12.340e+3"}, 3),
        ({"N": "1.5E20"}, 2),
        ({"SS": ["a", "bcd"]}, 4),
        ({"NS": ["12", "345"]}, 5),
        ({"BS": ["AAAA", "AA=="]}, 4),
        # Three bytes, and one for each element.
        ({"L": [{"S": "ab"}, {"N": "1"}]}, 3 + 2 + 2 + 2),
        ({"M": {"key": {"S": "v"}}}, 3 + 3 + 1 + 1),
    ],
)
def test_values_have_the_sizes_of_the_guide(value, size):
    assert value_size(value) == size


def test_an_item_is_its_names_and_values():
    assert item_size({"scope": {"S": "run"}, "n": {"N": "5"}}) == 5 + 3 + 1 + 2


@pytest.mark.parametrize(
    ("size", "writes", "sure", "stale"), [(0, 1, 1, 0.5), (1024, 1, 1, 0.5), (1025, 2, 1, 0.5), (4097, 5, 2, 1.0)]
)
def test_units_are_of_one_kilobyte_and_of_four(size, writes, sure, stale):
    assert (write_units(size), read_units(size, True), read_units(size, False)) == (writes, sure, stale)
