"""Delete runs: by request, and when their owners' days are over."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from marless_server.pool.archives import DELETED, ArchiveClaims
from marless_server.store.owners import Owner
from marless_server.store.runs import OVER, Conflict, Runs


def delete_run(runs: Runs, claims: ArchiveClaims, places: Path, run: str) -> None:
    """Delete a run that is over: its row, its log and its folder below `places`. Raises `Conflict` while it is in use.

    The folder gets another name before its files go. A server that is killed then removes the rest at its start.
    """
    if not claims.take(run):
        raise Conflict("it trains, or an archive of it is being written; delete it when it has stopped or ended")
    try:
        runs.delete(run)
        with suppress(FileNotFoundError):
            (places / run).rename(deleted := places / f"{DELETED}{run}")
            shutil.rmtree(deleted)
    finally:
        claims.give(run)


def delete_expired(
    runs: Runs, claims: ArchiveClaims, places: Path, owners: Mapping[str, Owner], now: datetime
) -> list[str]:
    """Delete old runs by the `keep_days` of each owner, and return their ids. A run in use waits for the next call."""
    deleted = list[str]()
    for owner in owners.values():
        if owner.keep_days is None:
            continue
        before = now.astimezone(UTC) - timedelta(days=owner.keep_days)
        for row in runs.expired(owner.name, before.isoformat(timespec="seconds")):
            with suppress(Conflict):
                delete_run(runs, claims, places, row.id)
                runs.audit(owner.name, "", "delete", f"{row.id} after {owner.keep_days:g} days")
                deleted.append(row.id)
    return deleted


def delete_all(runs: Runs, places: Path, owner: str) -> None:
    """Delete all runs of an owner. Raises `Conflict` if one waits or trains."""
    if any(row.owner == owner for row in runs.open()):
        raise Conflict(f"{owner} has runs that wait or train. Stop them first")
    for row in runs.listing(owner, OVER, None, -1):
        delete_run(runs, ArchiveClaims(), places, row.id)
