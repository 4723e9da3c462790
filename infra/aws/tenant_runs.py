"""Which runs a tenant's bucket holds something of."""

from infra.aws.clients import Cloud
from infra.aws.errors import storage_errors
from infra.aws.settings import Settings


def tenant_runs(cloud: Cloud, settings: Settings) -> list[str]:
    """Names of runs, sorted; objects themselves are not listed. Raises `StorageFault`."""
    prefix = settings.objects("").removesuffix("/")
    with storage_errors("list", f"s3://{settings.bucket}/{prefix}"):
        pages = cloud.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=settings.bucket, Prefix=prefix, Delimiter="/")
        # A page without runs has no such entry, and the search gives None for it.
        names = [entry["Prefix"] for entry in found.search("CommonPrefixes[]") if entry]
    return sorted(name.removeprefix(prefix).removesuffix("/") for name in names)
