"""moto's queries of a table, at the cost of the partition that they ask for.

A query reads one partition (DynamoDB developer guide, "Querying tables"). moto sorts all items of the table first.
"""

from typing import Any

from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table

_query_all = Table.query
# Where the name of an index stands among the arguments after the partition's key.
_INDEX = 6


def query_partition(table: Table, key: DynamoType | None, *options: Any, **more: Any) -> Any:
    """`Table.query`, which sees the items of the partition alone unless it asks an index."""
    if key is None or options[_INDEX] or not table.has_range_key:
        return _query_all(table, key, *options, **more)
    # moto would keep a table that is made in its own way.
    partition = object.__new__(Table)  # type: ignore[type-abstract]
    vars(partition).update(vars(table), items={key: dict(table.items.get(key, {}))})
    return _query_all(partition, key, *options, **more)
