"""The service actions of a request to DynamoDB. Pure.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon DynamoDB". LeadingKeys are
the request's partition key values (developer guide, "Using IAM policy conditions for fine-grained access control").
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from aws_emulator.encoding import from_json
from aws_emulator.iam.policies import ServiceAction

_TABLE = re.compile(r"[\w.-]{3,255}")
_EQUAL = re.compile(r"(#?[A-Za-z_][\w-]*)\s*=\s*(:\w+)")
_NAME = re.compile(r"(?<!:)#?\b[A-Za-z_][\w-]*")
# The rest of a document path after its first part.
_PATH_REST = re.compile(r"(?:\.#?\w+|\[\d+\])+")
# Developer guide, "Expressions".
_KEYWORDS = frozenset({"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN"})
_OF_TABLE = ("Scan", "DeleteTable", "DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups")
_IN_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}

_Item = Mapping[str, msgspec.Raw]


class _OfItem(msgspec.Struct):
    """An operation on one item, as a single request or in a transaction."""

    table: str = msgspec.field(name="TableName")
    key: _Item = msgspec.field(name="Key", default={})
    item: _Item = msgspec.field(name="Item", default={})
    return_values: str | None = msgspec.field(name="ReturnValues", default=None)
    update: str = msgspec.field(name="UpdateExpression", default="")
    condition: str = msgspec.field(name="ConditionExpression", default="")
    names: Mapping[str, str] = msgspec.field(name="ExpressionAttributeNames", default={})


class _OfQuery(msgspec.Struct):
    table: str = msgspec.field(name="TableName")
    index: str | None = msgspec.field(name="IndexName", default=None)
    condition: str = msgspec.field(name="KeyConditionExpression", default="")
    names: Mapping[str, str] = msgspec.field(name="ExpressionAttributeNames", default={})
    values: Mapping[str, msgspec.Raw] = msgspec.field(name="ExpressionAttributeValues", default={})


class _OfTable(msgspec.Struct):
    table: str = msgspec.field(name="TableName")
    index: str | None = msgspec.field(name="IndexName", default=None)


class _Keys(msgspec.Struct):
    keys: Sequence[_Item] = msgspec.field(name="Keys")


class _OfGetBatch(msgspec.Struct):
    tables: Mapping[str, _Keys] = msgspec.field(name="RequestItems")


class _Written(msgspec.Struct):
    key: _Item = msgspec.field(name="Key", default={})
    item: _Item = msgspec.field(name="Item", default={})


class _OfWriteBatch(msgspec.Struct):
    tables: Mapping[str, Sequence[Mapping[str, _Written]]] = msgspec.field(name="RequestItems")


class _OfTransaction(msgspec.Struct):
    items: Sequence[Mapping[str, _OfItem]] = msgspec.field(name="TransactItems")


def dynamodb_actions(operation: str, text: bytes, tables: str, keys: Mapping[str, str]) -> list[ServiceAction] | None:
    """The service actions of a request, or None. `tables` is the prefix of every table's ARN, `keys` the partition
    key's name by table. Requests to other tables have no leading key."""
    try:
        if operation in ("GetItem", "PutItem", "UpdateItem", "DeleteItem"):
            return [_of_item(operation, from_json(text, _OfItem), tables, keys)]
        if operation == "Query":
            return [_of_query(from_json(text, _OfQuery), tables, keys)]
        if operation == "ListTables":
            return [ServiceAction("dynamodb:ListTables", "*")]
        if operation in _OF_TABLE:
            of = from_json(text, _OfTable)
            return [ServiceAction(f"dynamodb:{operation}", _resource(of.table, of.index, tables))]
        return _of_many(operation, text, tables, keys)
    except (ValueError, KeyError):
        return None


def _of_many(operation: str, text: bytes, tables: str, keys: Mapping[str, str]) -> list[ServiceAction] | None:
    action = f"dynamodb:{operation}"
    if operation == "BatchGetItem":
        tables_read = from_json(text, _OfGetBatch).tables.items()
        return [_on_items(action, table, of.keys, tables, keys) for table, of in tables_read]
    if operation == "BatchWriteItem":
        table_requests = from_json(text, _OfWriteBatch).tables.items()
        return [
            _on_items(action, table, [_of_write(name, of) for one in all_ for name, of in one.items()], tables, keys)
            for table, all_ in table_requests
        ]
    if operation in ("TransactGetItems", "TransactWriteItems"):
        items = from_json(text, _OfTransaction).items
        return [_of_item(_IN_TRANSACTION[name], of, tables, keys) for one in items for name, of in one.items()]
    return None


def _of_item(operation: str, of: _OfItem, tables: str, keys: Mapping[str, str]) -> ServiceAction:
    # A put's key is part of its item. All other operations name it in Key.
    item = of.item if operation == "PutItem" else of.key
    item_action = _on_items(f"dynamodb:{operation}", of.table, [item], tables, keys)
    context = dict(item_action.context)
    if of.return_values:
        context["dynamodb:returnvalues"] = (of.return_values,)
    if operation in ("PutItem", "UpdateItem"):
        context["dynamodb:attributes"] = (*item, *_attributes(of))
    return item_action._replace(context=context)


def _attributes(of: _OfItem) -> Iterable[str]:
    """The top-level attributes in the expressions of a request. A function's name counts as one, too."""
    for word in _NAME.findall(_PATH_REST.sub("", f"{of.update} {of.condition}")):
        if word.upper() not in _KEYWORDS:
            yield of.names.get(word, word)


def _of_write(name: str, of: _Written) -> _Item:
    return {"PutRequest": of.item, "DeleteRequest": of.key}[name]


def _of_query(of: _OfQuery, tables: str, keys: Mapping[str, str]) -> ServiceAction:
    resource = _resource(of.table, of.index, tables)
    leading = None if of.index else _partition_value(of, keys.get(_name(of.table, tables)))
    return ServiceAction(
        "dynamodb:Query", resource, {"dynamodb:leadingkeys": (leading,)} if leading is not None else {}
    )


def _partition_value(of: _OfQuery, partition_key: str | None) -> str | None:
    """The partition key value of a query, if the expression compares the partition key exactly once."""
    key_names = [name for name in _NAME.findall(of.condition) if of.names.get(name, name) == partition_key]
    comparisons = [(name, value) for name, value in _EQUAL.findall(of.condition) if name in key_names]
    return _value(of.values.get(comparisons[0][1])) if len(key_names) == len(comparisons) == 1 else None


def _on_items(action: str, table: str, items: Iterable[_Item], tables: str, keys: Mapping[str, str]) -> ServiceAction:
    partition_key = keys.get(_name(table, tables), "")
    values = [_value(item.get(partition_key)) for item in items]
    # If one of several keys is unknown, all are left out, so that no condition holds for the known keys only.
    key_values = tuple(value for value in values if value is not None)
    context = {"dynamodb:leadingkeys": key_values} if key_values and len(key_values) == len(values) else {}
    return ServiceAction(action, _resource(table, None, tables), context)


def _value(attribute: msgspec.Raw | None) -> str | None:
    """An attribute's value as text, with numbers and bytes unchanged. None for other types."""
    if attribute is None:
        return None
    value_by_type: Mapping[str, Any] = from_json(attribute, dict[str, Any])
    kind, value = next(iter(value_by_type.items()), ("", None))
    return value if len(value_by_type) == 1 and kind in ("S", "N", "B") and isinstance(value, str) else None


def _name(table: str, tables: str) -> str:
    """A table's name, also from its ARN. Raises `ValueError` for a table outside this account and region."""
    name = table.removeprefix(tables)
    if not _TABLE.fullmatch(name):
        raise ValueError(table)
    return name


def _resource(table: str, index: str | None, tables: str) -> str:
    return f"{tables}{_name(table, tables)}" + (f"/index/{index}" if index else "")
