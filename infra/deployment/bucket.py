"""Empties and deletes buckets."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code
from marless.infra.deployment.stack import DeploymentFault

# The limit of one DeleteObjects (API_DeleteObjects), and of one page of a listing.
_BATCH = 1000
# A function that is still running can write into the bucket between its emptying and its deletion.
_ATTEMPTS = 3
# Batches deleted at once.
_WIDTH = 4


def empty(cloud: Cloud, bucket: str) -> int:
    """Delete all objects with all versions and delete markers, and all incomplete multipart uploads. Returns their
    number, 0 if the bucket does not exist. Raises `DeploymentFault` if S3 does not delete an object, and `ClientError`.
    """
    client = cloud.client("s3")
    try:
        return _delete_objects(client, bucket) + _abort_uploads(client, bucket)
    except client.exceptions.NoSuchBucket:
        return 0


def remove(cloud: Cloud, bucket: str) -> int:
    """Empty the bucket and delete it. Returns the number of deleted objects, 0 for a missing bucket.

    Raises `DeploymentFault` and `ClientError`.
    """
    client, count = cloud.client("s3"), 0
    for attempt in range(_ATTEMPTS):
        count += empty(cloud, bucket)
        try:
            client.delete_bucket(Bucket=bucket)
            break
        except client.exceptions.NoSuchBucket:
            break
        except ClientError as error:
            if code(error) != "BucketNotEmpty" or attempt + 1 == _ATTEMPTS:
                raise
    return count


def _delete_objects(client: Any, bucket: str) -> int:
    count = 0
    with ThreadPoolExecutor(_WIDTH) as pool:
        # Each round lists from the start: deletions may invalidate the rest of a listing.
        while batches := list(islice(_batches(client, bucket), _WIDTH)):
            results = pool.map(lambda batch: _delete(client, bucket, batch), batches)
            if errors := [error for batch_errors in results for error in batch_errors]:
                raise DeploymentFault(_undeletable(bucket, errors))
            count += sum(map(len, batches))
    return count


def _batches(client: Any, bucket: str) -> Iterator[list[dict[str, str]]]:
    if "Status" in client.get_bucket_versioning(Bucket=bucket):
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, MaxKeys=_BATCH):
            if entries := [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                yield [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in entries]
    else:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, MaxKeys=_BATCH):
            if entries := page.get("Contents", []):
                yield [{"Key": one["Key"]} for one in entries]


def _delete(client: Any, bucket: str, batch: list[dict[str, str]]) -> list[dict[str, str]]:
    response = client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
    errors: list[dict[str, str]] = response.get("Errors", [])
    return errors


def _undeletable(bucket: str, errors: list[dict[str, str]]) -> str:
    first, others = errors[0], len(errors) - 1
    more = f", nor {others:,} more" if others else ""
    return f"S3 does not delete {bucket}/{first['Key']}{more}: {first['Code']}: {first['Message']}"


def _abort_uploads(client: Any, bucket: str) -> int:
    """Abort incomplete multipart uploads, which prevent the deletion of a bucket. Return their number."""
    count = 0
    for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", []):
            client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            count += 1
    return count
