"""Completion sets in DynamoDB, one item and partition key each, and the invocation that wakes a coordinator."""

import time
from collections.abc import Sequence
from typing import Any

from marless.functions.encoding import to_json
from marless.infra.aws.backoff import pauses
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors

# Sets are needed for minutes only. The table's TTL deletes them some days later at no cost.
_KEPT_S = 7 * 24 * 3600
# The limit of one BatchGetItem (DynamoDB developer guide, "Service quotas").
_BATCH = 100
_ITEM = "set"


class DynamoCompletions:
    """The sets of one run under `scope` (``sets/<tenant>/<run>``), safe for any number of threads and processes.

    `ADD` to a set is idempotent, so the SDK may repeat it when a reply is lost.
    """

    def __init__(self, cloud: Cloud, table: str, scope: str) -> None:
        self._client = cloud.client("dynamodb")
        self._table, self._scope = table, scope

    def add(self, name: str, member: bytes) -> frozenset[bytes]:
        """Add `member` to the set and return the updated set. Raises `StorageFault`."""
        with storage_errors("report to the table", self._table):
            reply = self._client.update_item(
                TableName=self._table,
                Key=self._key(name),
                UpdateExpression="ADD members :member SET expires_at = :expires",
                ExpressionAttributeValues={
                    ":member": {"BS": [member]},
                    ":expires": {"N": str(int(time.time()) + _KEPT_S)},
                },
                ReturnValues="UPDATED_NEW",
            )
        return _members(reply["Attributes"])

    def read(self, names: Sequence[str]) -> list[frozenset[bytes]]:
        """Return the sets in the order of `names`, read consistently. Raises `StorageFault`."""
        members: dict[str, frozenset[bytes]] = {}
        for start in range(0, len(names), _BATCH):
            waiting: Any = {
                self._table: {
                    "Keys": [self._key(name) for name in names[start : start + _BATCH]],
                    "ConsistentRead": True,
                }
            }
            breaks = pauses()
            while waiting:
                with storage_errors("read", self._table):
                    reply = self._client.batch_get_item(RequestItems=waiting)
                for item in reply["Responses"].get(self._table, []):
                    members[item["scope"]["S"]] = _members(item)
                # "We strongly recommend that you use an exponential backoff algorithm" (API reference, BatchGetItem).
                if waiting := reply.get("UnprocessedKeys"):
                    time.sleep(next(breaks))
        return [members.get(self._key(name)["scope"]["S"], frozenset()) for name in names]

    def _key(self, name: str) -> dict[str, dict[str, str]]:
        return {"scope": {"S": f"{self._scope}/{name}"}, "item": {"S": _ITEM}}


def _members(attributes: dict[str, Any]) -> frozenset[bytes]:
    """Return the set's members, or none of another type, because code in the tenant may write any value."""
    return frozenset(bytes(member) for member in attributes.get("members", {}).get("BS", ()))


def wake(client: Any, coordinator: str, tenant: str, run: str) -> None:
    """Invokes the qualified function `coordinator` for the run without waiting for it.

    `client` is a Lambda client. Waking twice does no harm, so the SDK may repeat the call. Raises `ClientError`.
    """
    client.invoke(FunctionName=coordinator, InvocationType="Event", Payload=to_json({"tenant": tenant, "run": run}))
