"""The SDK's clients for the account itself: they act as the operator, for example when a stack creates a bucket."""

import os
from functools import cache
from threading import Lock
from typing import Any

from botocore.config import Config
from botocore.session import Session

# The account does not read the configuration of the user who started it. Name in the file, name in the environment,
# default, conversion (`botocore.configprovider`).
_NOTHING_OF_THE_USER = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}


class Clients:
    """Thread-safe clients by service, each made once, for the account at `endpoint`."""

    def __init__(self, endpoint: str, region: str, key: str, secret: str) -> None:
        self._settings = {
            "endpoint_url": endpoint,
            "region_name": region,
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
            "config": Config(proxies={}, max_pool_connections=64, s3={"addressing_style": "path"}),
        }
        self._session = Session(_NOTHING_OF_THE_USER)
        # A session may not create two clients at once (boto3 guide, "Multithreading or multiprocessing with clients").
        self._lock = Lock()
        self._made = cache(self._make)

    def __call__(self, service: str) -> Any:
        """The client of `service`."""
        with self._lock:
            return self._made(service)

    def _make(self, service: str) -> Any:
        return self._session.create_client(service, **self._settings)
