"""Named, versioned items in a DynamoDB table: the ledger of the AWS back-end."""

import hashlib
import secrets
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import ClientError

from marless.functions.errors import KeyTaken, NoSuchObject, StaleVersion, StorageFault
from marless.functions.messages.message import Record
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code, storage_errors
from marless.infra.aws.s3 import S3Storage

# DynamoDB limits items to 400 KB including attribute names (developer guide, "Constraints in Amazon DynamoDB").
LARGEST = 350 * 1024
# Bytes of an item without its body and the run's name. They are 27 of attribute names, at most 36 of the partition key,
# 11 of the item's name, 4 and 9 of the numbers, and at least 12 of the mark. The mark pads the item to this size. So
# the body's size alone determines the billed write units.
ITEM_OVERHEAD_BYTES = 100
_NAMES, _MARK = len("scopeitemversionatwritebody"), 12
# Attempts to read an item if its object is replaced between the reads of item and object.
_READS = 5

_Item = dict[str, dict[str, Any]]


class DynamoLedger:
    """The items of one run under the partition key `scope`, safe for any number of threads, processes and machines.

    A body larger than `LARGEST` is stored as an object of `spill` under ``ledger/<item>/<version>-<sha256>``, and the
    item points to it. The object is stored before the item changes, and the objects of earlier versions are deleted
    afterwards. So a killed writer may leave an object without an item, but every item has its object. Such objects are
    deleted with the next spilled body of the item, or with the run.

    Errors of AWS raise `StorageFault`. After a failed commit the item may have changed, so load it to find out.
    """

    def __init__(self, cloud: Cloud, table: str, scope: str, spill: S3Storage) -> None:
        self._table, self._scope, self._spill = table, scope, spill
        self._partition = len(scope) - len(scope.rpartition("/")[2])
        self._ahead_s = 0.0  # how far DynamoDB's clock is ahead of this machine's
        self._spilled: set[str] = set()  # items with a body in an object, by their last known version
        with storage_errors("open", f"the table {table}"):
            self._client = cloud.client("dynamodb")

    def load(self, item: str) -> Record | None:
        """Return the item, or None. `at` is by the clock of the machine that wrote it."""
        for _ in range(_READS):
            with storage_errors("read", self._at(item)):
                reply = self._client.get_item(TableName=self._table, Key=self._key(item), ConsistentRead=True)
            date = parsedate_to_datetime(reply["ResponseMetadata"]["HTTPHeaders"]["date"])
            self._ahead_s = date.timestamp() - time.time()
            item_: _Item | None = reply.get("Item")
            if item_ is None:
                return None
            if record := self._record(item_):
                return record
            # Another writer replaced the item after it was read, and deleted the object it pointed to.
        raise StorageFault(f"cannot read {self._at(item)}: the object in {_folder(item)} with its body is missing")

    def commit(self, item: str, body: bytes, version: int) -> int:
        """Replaces version `version` of `item` (0: it must not exist yet) and returns the new version.

        The write is conditional, so only one of several writers with the same version succeeds. The others get
        `StaleVersion`. If the response of a successful write is lost, that write makes the SDK's retry fail. Random
        bytes of this commit, which DynamoDB returns with the refusal, identify that case.
        """
        new: _Item = {**self._key(item), "version": {"N": str(version + 1)}, "at": {"N": f"{time.time():.3f}"}}
        new["write"] = {"B": secrets.token_bytes(self._mark(item, new))}
        to_s3 = len(body) > LARGEST
        new |= {"spill": {"S": self._store(item, body, version + 1)}} if to_s3 else {"body": {"B": body}}
        with storage_errors("write", self._at(item)):
            standing = self._replace(new, version)
        if standing.get("write") != new["write"]:
            if to_s3 and standing.get("spill") != new["spill"]:
                with suppress(StorageFault):
                    self._spill.delete([new["spill"]["S"]])
            size = len(standing.get("body", {}).get("B", b""))
            raise StaleVersion(f"{item} is no longer at version {version}: another process drives this run", size)
        if to_s3 or item in self._spilled:
            with suppress(StorageFault):  # the commit stands, and the next one tidies again
                self._tidy(item, version + 1)
        self._remember(item, to_s3)
        return version + 1

    def items(self, prefix: str, after: str = "") -> list[tuple[str, bytes]]:
        """Return the items with this prefix of their names, sorted, with their bodies, read consistently.

        With `after`, which starts with `prefix` too, only names greater than it.
        """
        condition, values = "", {}
        if after:
            # A query takes one condition on the sort key, so a range covers both `after` and the prefix.
            condition = " AND #item BETWEEN :from AND :to"
            values = {":from": {"S": f"{after}\0"}, ":to": {"S": f"{prefix}\U0010ffff"}}
        elif prefix:  # DynamoDB refuses an empty one
            condition, values = " AND begins_with(#item, :prefix)", {":prefix": {"S": prefix}}
        entries = self._query(condition, values, ["item"] if condition else [])
        bodies = []
        for entry in entries:
            name = entry["item"]["S"]
            if record := self._record(entry) or self.load(name):
                bodies.append((name, record.body))
        return bodies

    def names(self) -> list[str]:
        """The names of all items, sorted. Their bodies are not read."""
        return [entry["item"]["S"] for entry in self._query("", {}, ["item"], ProjectionExpression="#item")]

    def remove(self, item: str) -> None:
        """Remove any version of the item. A missing item is ignored."""
        with storage_errors("delete", self._at(item)):
            reply = self._client.delete_item(TableName=self._table, Key=self._key(item), ReturnValues="ALL_OLD")
        old: _Item = reply.get("Attributes", {})
        if "spill" in old:
            self._tidy(item, int(old["version"]["N"]) + 1)
        self._remember(item, False)

    def persist(self) -> None:
        """Does nothing: DynamoDB's accepted writes are durable."""

    def now(self) -> float:
        """Seconds since 1970 by DynamoDB's clock, as of the last `load`, to the second: clocks of machines differ."""
        return time.time() + self._ahead_s

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _query(self, condition: str, values: _Item, names: list[str], **options: str) -> list[_Item]:
        """The entries of this scope that meet the condition, sorted. `names` are the attributes that it needs."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression=f"#scope = :scope{condition}",
            ExpressionAttributeNames={f"#{name}": name for name in ("scope", *names)},
            ExpressionAttributeValues={":scope": {"S": self._scope}, **values},
            ConsistentRead=True,
            **options,
        )
        with storage_errors("read", self._at("*")):
            return [entry for page in pages for entry in page["Items"]]

    def _replace(self, new: _Item, version: int) -> _Item:
        """Write `new` conditionally. Returns `new`, or the item that made the condition fail."""
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(version)"}
        if version != 0:
            condition = {
                "ConditionExpression": "version = :old",
                "ExpressionAttributeValues": {":old": {"N": str(version)}},
            }
        try:
            self._client.put_item(
                TableName=self._table, Item=new, ReturnValuesOnConditionCheckFailure="ALL_OLD", **condition
            )
        except ClientError as error:
            if code(error) != "ConditionalCheckFailedException":
                raise
            standing: _Item = error.response.get("Item", {})
            return standing
        return new

    def _record(self, entry: _Item) -> Record | None:
        in_s3 = "spill" in entry
        self._remember(entry["item"]["S"], in_s3)
        try:
            body = self._spill.get(entry["spill"]["S"]) if in_s3 else entry["body"]["B"]
        except NoSuchObject:
            return None
        return Record(version=int(entry["version"]["N"]), body=bytes(body), at=float(entry["at"]["N"]))

    def _store(self, item: str, body: bytes, version: int) -> str:
        key = f"{_folder(item)}{version}-{hashlib.sha256(body).hexdigest()}"
        with suppress(KeyTaken):  # the same bytes, as the key holds their hash
            self._spill.put(key, body)
        return key

    def _tidy(self, item: str, version: int) -> None:
        folder = _folder(item)
        names = [key.removeprefix(folder) for key in self._spill.list(folder)]
        # Names with a slash belong to other items, which begin with this item's name.
        old = [name for name in names if "/" not in name and int(name.partition("-")[0]) < version]
        self._spill.delete(f"{folder}{name}" for name in old)

    def _remember(self, item: str, in_s3: bool) -> None:
        (self._spilled.add if in_s3 else self._spilled.discard)(item)

    def _mark(self, item: str, new: _Item) -> int:
        """The mark's size in bytes that pads the item to `ITEM_OVERHEAD_BYTES` bytes without its body."""
        numbers = sum(_number_bytes(new[name]["N"]) for name in ("version", "at"))
        return max(_MARK, ITEM_OVERHEAD_BYTES - _NAMES - self._partition - len(item) - numbers)

    def _key(self, item: str) -> _Item:
        return {"scope": {"S": self._scope}, "item": {"S": item}}

    def _at(self, item: str) -> str:
        return f"{self._scope}/{item} in the table {self._table}"


def _number_bytes(text: str) -> int:
    """The stored size of a number: one byte, plus one per two significant digits (developer guide, "DynamoDB item sizes
    and formats")."""
    return 1 + -(-len(text.replace(".", "").strip("0")) // 2)


def _folder(item: str) -> str:
    return f"ledger/{item}/"
