"""Reads the headers of many objects in parallel; results of asynchronous tasks are stored there."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from marless.functions.storage_port import Head
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code, storage_errors
from marless.infra.aws.s3 import SHA256
from marless.infra.object_keys import check_key

# Most headers are shorter; a longer one takes a second request.
_FIRST = 16 * 1024
_THREADS = 16
_LENGTH = 8
# Headers hold returns and small tables; a longer one is not ours and is not read.
_LONGEST = 16 * 1024 * 1024


class S3Heads:
    """Reads headers of objects in `bucket` under `prefix`; safe for any number of threads."""

    def __init__(self, cloud: Cloud, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = cloud.client("s3"), bucket, prefix
        self._pool = ThreadPoolExecutor(_THREADS)

    def __call__(self, keys: Sequence[str]) -> list[Head | None]:
        """The headers in the order of `keys`, None where there is no object; raises `StorageFault`."""
        return list(self._pool.map(self._head, keys))

    def _head(self, key: str) -> Head | None:
        name = self._prefix + check_key(key)
        with storage_errors("read", f"s3://{self._bucket}/{name}"):
            try:
                head = self._read(name, 0, _FIRST)
                # A safetensors object begins with the length of its header.
                length = min(_LONGEST, _LENGTH + int.from_bytes(head.start[:_LENGTH], "little"))
                if min(length, head.size) <= len(head.start):
                    return head
                rest = self._read(name, _FIRST, length)
                return Head(head.start + rest.start, head.sha256, head.size, head.gets + rest.gets)
            except ClientError as error:
                if code(error) == "NoSuchKey":
                    return None
                if code(error) == "InvalidRange":  # the object is empty
                    return Head(b"", "", 0)
                raise

    def _read(self, name: str, start: int, stop: int) -> Head:
        which = f"bytes={start}-{stop - 1}"
        reply: dict[str, Any] = self._client.get_object(Bucket=self._bucket, Key=name, Range=which)
        total = int(reply["ContentRange"].rpartition("/")[2])
        return Head(reply["Body"].read(), reply["Metadata"].get(SHA256, ""), total)
