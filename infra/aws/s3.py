"""Objects in an S3 bucket: the storage of the AWS back-end. Headers of many objects are read in parallel."""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.storage_port import ObjectHead
from marless.infra.aws.backoff import few, retry
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code, explain, storage_errors
from marless.infra.aws.function_settings import Settings
from marless.infra.object_keys import check_key, check_prefix

# The metadata key (x-amz-meta-sha256) of an object's hash, for readers of the header alone.
SHA256 = "sha256"

# The bucket expires objects with this tag after some days, see the lifecycle in template.yaml.
_TRAJECTORY, _PASSING_BY = ".trajectory.safetensors", {"Tagging": "marless-kind=trajectory"}
# The limit of one DeleteObjects (API reference, "DeleteObjects").
_BATCH = 1000
# Concurrent HEAD requests.
_LOOKING = 16

# The SDK returns a body before it has arrived, and does not retry when the transfer breaks.
_TORN = (ConnectionClosedError, FlexibleChecksumError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
# Transient errors of single keys in a response of DeleteObjects (API reference, "Error responses").
_PASSING = ("InternalError", "OperationAborted", "ServiceUnavailable", "SlowDown")


class _Torn(Exception):
    """The object's body arrived incomplete."""


class _Undeleted(ClientError):  # type: ignore[misc]  # published without type information
    """S3 did not delete all requested objects. It holds one of the errors."""


class S3Storage:
    """Write-once objects in `bucket` under `prefix`, safe for any number of threads, processes and machines.

    Keys that could lead outside `prefix` raise `ValueError`. Errors of S3 raise `StorageFault`. Before that, the SDK
    has retried throttled (503 Slow Down) and unanswered requests.
    """

    def __init__(self, cloud: Cloud, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{check_key(prefix.removesuffix('/'))}/"
        with storage_errors("open", f"s3://{bucket}"):
            self._client = cloud.client("s3")

    def get(self, key: str, size: int | None = None) -> bytes:
        """Return the object's bytes. Raises `NoSuchObject` or `StorageFault`, and `CorruptObject` for another size."""
        name = self._name(key)

        def read() -> bytes:
            """Return the object, in one request. A connection that breaks within the body is worth another request."""
            reply = self._client.get_object(Bucket=self._bucket, Key=name)
            with closing(reply["Body"]) as body:
                if size is not None and reply["ContentLength"] != size:
                    raise CorruptObject.of_size(key, reply["ContentLength"], size)
                try:
                    return bytes(body.read())
                except _TORN as error:
                    raise _Torn(error) from error

        with storage_errors("read", self._at(name)):
            try:
                return retry(read, lambda error: isinstance(error, _Torn), few())
            except _Torn as torn_error:
                raise StorageFault(f"cannot read {self._at(name)}: it never came whole: {torn_error}") from torn_error
            except ClientError as error:
                if code(error) == "NoSuchKey":
                    raise NoSuchObject(key) from None
                raise

    def put(self, key: str, body: bytes) -> None:
        """Store `body` atomically. Raises `KeyTaken` if the key holds an object, even with the same bytes.

        The write is conditional (User Guide, "Conditional writes"), so of any number of writers at most one succeeds.
        If the response of a successful write is lost, the SDK's retry finds the key taken by this same writer. So after
        `KeyTaken` the object may be the caller's own. Callers read it to find out.
        """
        name = self._name(key)
        request = {
            "Bucket": self._bucket,
            "Key": name,
            "Body": body,
            "Metadata": {SHA256: hashlib.sha256(body).hexdigest()},
            "IfNoneMatch": "*",
            **(_PASSING_BY if key.endswith(_TRAJECTORY) else {}),
        }
        with storage_errors("store", self._at(name)):
            try:
                # After a conflict with a concurrent request for the key, S3 requires a retry.
                conflict = "ConditionalRequestConflict"
                retry(lambda: self._client.put_object(**request), lambda error: code(error) == conflict, few())
            except ClientError as error:
                if code(error) == "PreconditionFailed":
                    raise KeyTaken(key) from None
                raise

    def persist(self, keys: Iterable[str]) -> None:
        """Raise `NoSuchObject` if a key holds nothing. S3's accepted writes are durable."""
        key_list = list(keys)
        with ThreadPoolExecutor(_LOOKING) as pool:
            for _ in pool.map(self._find, key_list):
                pass

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. Missing keys are ignored."""
        names = [self._name(key) for key in keys]
        for start in range(0, len(names), _BATCH):
            self._delete(names[start : start + _BATCH])

    def _find(self, key: str) -> None:
        name = self._name(key)
        with storage_errors("find", self._at(name)):
            try:
                self._client.head_object(Bucket=self._bucket, Key=name)
            except ClientError as error:
                if code(error) == "404":  # a response to HEAD has no body with an error code
                    raise NoSuchObject(key) from None
                raise

    def _delete(self, names: Sequence[str]) -> None:
        remaining = names

        def delete() -> None:
            """Delete the remaining objects in one request. Raises for the first that S3 does not delete."""
            nonlocal remaining
            objects = [{"Key": name} for name in remaining]
            reply = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
            # Permanent errors come first, so that the request is not retried.
            errors = sorted(reply.get("Errors", ()), key=lambda error: bool(error["Code"] in _PASSING))
            if errors:
                remaining = [error["Key"] for error in errors]
                raise _Undeleted({"Error": errors[0]}, "DeleteObjects")

        try:
            retry(delete, lambda error: isinstance(error, _Undeleted) and code(error) in _PASSING, few())
        except (ClientError, BotoCoreError) as error:
            others = f" and {len(remaining) - 1} more" if len(remaining) > 1 else ""
            raise StorageFault(f"cannot delete {self._at(remaining[0])}{others}: {explain(error)}") from error

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _at(self, name: str) -> str:
        return f"s3://{self._bucket}/{name}"

    def list(self, prefix: str) -> list[str]:
        """The keys that start with `prefix`, sorted."""
        return sorted(self.sizes(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The bytes of the objects below `prefix`, by key."""
        start = self._prefix + check_prefix(prefix)
        with storage_errors("list", self._at(start)):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=start)
            entries = [entry for page in pages for entry in page.get("Contents", ())]
        return {entry["Key"].removeprefix(self._prefix): entry["Size"] for entry in entries}


def tenant_runs(cloud: Cloud, settings: Settings) -> list[str]:
    """Return the names of the tenant's runs, sorted, without listing their objects. Raises `StorageFault`."""
    prefix = settings.objects("").removesuffix("/")
    with storage_errors("list", f"s3://{settings.bucket}/{prefix}"):
        pages = cloud.client("s3").get_paginator("list_objects_v2")
        result_pages = pages.paginate(Bucket=settings.bucket, Prefix=prefix, Delimiter="/")
        # The search yields None for an empty page.
        names = [entry["Prefix"] for entry in result_pages.search("CommonPrefixes[]") if entry]
    return sorted(name.removeprefix(prefix).removesuffix("/") for name in names)


# Most headers are shorter. A longer header takes a second request.
_FIRST = 16 * 1024
_THREADS = 16
_LENGTH = 8
# Headers hold returns and small tables. A longer header is foreign, so it is ignored.
_LONGEST = 16 * 1024 * 1024


class S3Heads:
    """Reads headers of objects in `bucket` under `prefix`, safe for any number of threads."""

    def __init__(self, cloud: Cloud, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = cloud.client("s3"), bucket, prefix
        self._pool = ThreadPoolExecutor(_THREADS)

    def __call__(self, keys: Sequence[str]) -> list[ObjectHead | None]:
        """Return the headers in the order of `keys`, with None for missing objects. Raises `StorageFault`."""
        return list(self._pool.map(self._head, keys))

    def _head(self, key: str) -> ObjectHead | None:
        name = self._prefix + check_key(key)
        with storage_errors("read", f"s3://{self._bucket}/{name}"):
            try:
                head = self._read(name, 0, _FIRST)
                # A safetensors object begins with the length of its header.
                length = min(_LONGEST, _LENGTH + int.from_bytes(head.start[:_LENGTH], "little"))
                if min(length, head.size) <= len(head.start):
                    return head
                rest = self._read(name, _FIRST, length)
                return ObjectHead(head.start + rest.start, head.sha256, head.size, head.gets + rest.gets)
            except ClientError as error:
                if code(error) == "NoSuchKey":
                    return None
                if code(error) == "InvalidRange":  # the object is empty
                    return ObjectHead(b"", "", 0)
                raise

    def _read(self, name: str, start: int, stop: int) -> ObjectHead:
        which = f"bytes={start}-{stop - 1}"
        reply: dict[str, Any] = self._client.get_object(Bucket=self._bucket, Key=name, Range=which)
        total = int(reply["ContentRange"].rpartition("/")[2])
        return ObjectHead(reply["Body"].read(), reply["Metadata"].get(SHA256, ""), total)
