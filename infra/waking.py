"""Waking the coordinator of a detached run."""

from typing import Any

import msgspec


def wake(client: Any, coordinator: str, tenant: str, run: str, resume: int | None = None) -> None:
    """Invokes the qualified function `coordinator` for the run without waiting for it.

    `resume` is the version of its ledger that a run stands still at which is to go on. `client` is of Lambda. Waking
    twice does no harm, so the SDK may repeat the call. Raises `ClientError`.
    """
    event = {"tenant": tenant, "run": run} | ({} if resume is None else {"resume": resume})
    client.invoke(FunctionName=coordinator, InvocationType="Event", Payload=msgspec.json.encode(event))
