"""Waking the coordinator of a detached run."""

from typing import Any

import msgspec


def wake(client: Any, coordinator: str, tenant: str, run: str) -> None:
    """Invokes the qualified function `coordinator` for the run without waiting for it.

    `client` is of Lambda. Waking twice does no harm, so the SDK may repeat the call. Raises `ClientError`.
    """
    event = msgspec.json.encode({"tenant": tenant, "run": run})
    client.invoke(FunctionName=coordinator, InvocationType="Event", Payload=event)
