"""Values in the forms that people type: a whole number as 1e3, and a list without brackets."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.inspect import FloatType, IntType, ListType, Metadata, StrType, TupleType, Type, UnionType, VarTupleType

from marless.coordinator.config.config_keys import general

# Above it not every whole number is a float, so that 1e17 + 1 would be read as another number.
_MOST_EXACT = 2**53


def in_plain_forms(document: Mapping[str, Any], types: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the document with whole numbers and lists where the `types` of dotted keys ask for them. It accepts
    ``1e3``, ``64,64``, ``[csv]`` as a shell passes it, or one value for a list of one."""
    plain: dict[str, Any] = {}
    for name, value in document.items():
        key = f"{prefix}{name}"
        if general(key) in types:
            plain[name] = _plain(value, _members(types[general(key)]))
        else:
            plain[name] = in_plain_forms(value, types, f"{key}.") if isinstance(value, Mapping) else value
    return plain


def _plain(value: Any, members: tuple[Type, ...]) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MOST_EXACT:
        is_whole = any(isinstance(member, IntType) for member in members)
        return int(value) if is_whole and not any(isinstance(member, FloatType) for member in members) else value
    for member in members:
        if isinstance(member, VarTupleType | ListType | TupleType):
            item_type = member.item_types[0] if isinstance(member, TupleType) else member.item_type
            item_type = _without_description(item_type)
            if value is None or (isinstance(value, int) and any(isinstance(other, IntType) for other in members)):
                return value
            if isinstance(item_type, IntType | FloatType | StrType):
                items = value if isinstance(value, list | tuple) else _items(value, item_type)
                return [_plain(item, (item_type,)) for item in items]
    return value


def _items(value: Any, item_type: Type) -> list[Any]:
    if not isinstance(value, str):
        return [value]
    items = [item.strip(" \"'") for item in value.strip(" []()").split(",")]
    return [_item(item, item_type) for item in items if item]


def _item(text: str, item_type: Type) -> Any:
    """Return the text as a number if possible. Other texts are refused later."""
    if isinstance(item_type, StrType):
        return text
    try:
        return float(text) if not text.isdecimal() else int(text)
    except ValueError:
        return text


@lru_cache(maxsize=1024)
def _members(annotation: Any) -> tuple[Type, ...]:
    info = msgspec.inspect.type_info(annotation)
    parts = info.types if isinstance(info, UnionType) else (info,)
    return tuple(_without_description(part) for part in parts)


def _without_description(info: Type) -> Type:
    return info.type if isinstance(info, Metadata) else info
