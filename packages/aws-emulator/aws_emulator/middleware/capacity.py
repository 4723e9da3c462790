"""DynamoDB's item sizes and capacity units. Pure.

Developer guide, "DynamoDB item sizes and formats" and "DynamoDB read and write operations". It shares no code with the
bill of a run, because tests check the bill with it.
"""

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

Value = Mapping[str, Any]
Item = Mapping[str, Value]

# Bytes of a list or map itself, and of each element in addition to its value.
_COLLECTION, _ELEMENT = 3, 1


def item_size(item: Item) -> int:
    """Bytes of an item: its attributes' names and values."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(value: Value) -> int:
    """Bytes of a value in DynamoDB's JSON, such as ``{"S": "abc"}``. Raises `KeyError` for an unknown type."""
    [(kind, content)] = value.items()
    return _SIZES[kind](content)


def write_units(size: int) -> int:
    """One unit per started kilobyte, at least one."""
    return max(1, -(-size // 1024))


def read_units(size: int, consistent: bool) -> float:
    """One unit per started four kilobytes, at least one, and half for eventually consistent reads."""
    return max(1, -(-size // 4096)) * (1.0 if consistent else 0.5)


def _number(text: str) -> int:
    """One byte per two significant digits, plus one, plus one for the sign of a negative number. ``1e10`` has one."""
    number = Decimal(text).as_tuple()
    digits = "".join(map(str, number.digits)).strip("0")
    return -(-len(digits) // 2) + 1 + number.sign


def _binary(text: str) -> int:
    return len(base64.b64decode(text))


def _text(text: str) -> int:
    return len(text.encode())


def _list_size(values: list[Value]) -> int:
    return _COLLECTION + sum(_ELEMENT + value_size(value) for value in values)


def _map_size(values: Item) -> int:
    return _COLLECTION + item_size(values) + _ELEMENT * len(values)


_SIZES: Mapping[str, Callable[[Any], int]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "SS": lambda members: sum(map(_text, members)),
    "NS": lambda members: sum(map(_number, members)),
    "BS": lambda members: sum(map(_binary, members)),
    "L": _list_size,
    "M": _map_size,
}
