"""Objects in S3 with claims, which keep two makers from making the same object.

A claim is a write-once object next to the claimed object. It holds for a time, by the clock of S3, because the end of a
function goes unnoticed. A maker that gives up a claim without its object stores a further object. The next claim has
the next number.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from itertools import count
from math import ceil

from botocore.exceptions import ClientError

from marless.functions.errors import KeyTaken
from marless.infra.aws.backoff import pauses
from marless.infra.aws.error_messages import code, storage_errors
from marless.infra.aws.s3 import S3Storage

# Between looks at an object that another maker makes.
_LONGEST_PAUSE_S = 1.0


class ClaimedStorage(S3Storage):
    """Storage with claims (`marless.functions.storage_port.ClaimedBlobs`). It counts its requests, for the bill."""

    puts = gets = 0

    def get(self, key: str, size: int | None = None) -> bytes:
        """See `S3Storage`."""
        self.gets += 1
        return super().get(key, size)

    def put(self, key: str, body: bytes) -> None:
        """See `S3Storage`."""
        self.puts += 1
        super().put(key, body)

    @contextmanager
    def claim(self, key: str, longest_s: float) -> Iterator[None]:
        """See `ClaimedBlobs`. A caller that waited for another maker finds the object, and holds no claim."""
        claim = self._claim(key, longest_s)
        try:
            yield
        except BaseException:
            if claim:
                self.put(_given_up(claim), b"")
            raise

    def _claim(self, key: str, longest_s: float) -> str:
        """Return this maker's claim, or '' once the object exists."""
        mark = secrets.token_bytes(16)
        for number in count():
            claim = f"{key}.claim-{number}"
            try:
                self.put(claim, mark)
                return claim
            except KeyTaken:
                if self.get(claim) == mark:  # the response to the first request was lost
                    return claim
                if self._made_by_another(key, claim, longest_s):
                    return ""
        raise AssertionError  # numbers have no end

    def _made_by_another(self, key: str, claim: str, longest_s: float) -> bool:
        """Wait until the object exists. Returns False if the claim ends earlier."""
        for pause_s in pauses(_LONGEST_PAUSE_S):
            if self._age_s(key) is not None:
                return True
            age_s = self._age_s(claim)
            if age_s is None or age_s > ceil(longest_s) or self._age_s(_given_up(claim)) is not None:
                return False
            time.sleep(pause_s)
        raise AssertionError  # pauses have no end

    def _age_s(self, key: str) -> float | None:
        """Return seconds since the object was stored, less than one off, because the clock of S3 tells whole seconds.
        None if the object is missing."""
        name = self._name(key)
        self.gets += 1
        with storage_errors("find", self._at(name)):
            try:
                reply = self._client.head_object(Bucket=self._bucket, Key=name)
            except ClientError as error:
                if code(error) == "404":  # a response to HEAD has no body with an error code
                    return None
                raise
        now = parsedate_to_datetime(reply["ResponseMetadata"]["HTTPHeaders"]["date"])
        return float((now - reply["LastModified"]).total_seconds())


def _given_up(claim: str) -> str:
    return f"{claim}-given-up"
