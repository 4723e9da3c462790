"""Decide which run begins next, and why the others wait. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marless_server.store.owners import Owner
from marless_server.store.runs import RunRow, Usage


@dataclass(frozen=True)
class Turn:
    """A run that waits: its place in the queue, from 1, and the reason, '' if it may begin at once."""

    run: RunRow
    place: int
    reason: str


def turns(rows: Sequence[RunRow], owners: Mapping[str, Owner], usage: Mapping[str, Usage], most: int) -> list[Turn]:
    """Return the runs that wait, in their order, of `rows` that wait or train.

    At most `most` runs train at once. The owner with the fewest runs per weight is next, with the oldest run. Among
    equal owners, the owner with the fewest slot-seconds per weight today is next. A run over a quota waits behind all
    others.
    """
    runs_by_owner = Counter(row.owner for row in rows if row.status == "running")
    waiting_by_owner: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.status == "queued":
            waiting_by_owner.setdefault(row.owner, []).append(row)
    places, ahead = most - runs_by_owner.total(), Counter[str]()
    everybody = Counter(runs_by_owner)
    result, blocked = list[Turn](), list[RunRow]()
    for name in [name for name in waiting_by_owner if over_quota(owners[name], usage)]:
        blocked += waiting_by_owner.pop(name)
    while waiting_by_owner:
        name = min(waiting_by_owner, key=lambda name: _claim(owners[name], runs_by_owner, usage))
        row = waiting_by_owner[name].pop(0)
        if not waiting_by_owner[name]:
            del waiting_by_owner[name]
        if _has_all(owners[name], runs_by_owner):
            blocked.append(row)
            continue
        reason = "" if places > 0 else _no_place(everybody, ahead, most)
        result.append(Turn(row, len(result) + 1, reason))
        places, ahead = places - 1, ahead + Counter([name])
        runs_by_owner[name] += 1
    for row in blocked:
        owner = owners[row.owner]
        reason = over_quota(owner, usage) or _at_once(owner)
        result.append(Turn(row, len(result) + 1, reason))
    return result


def _claim(owner: Owner, runs: Mapping[str, int], usage: Mapping[str, Usage]) -> tuple[bool, float, float, str]:
    used = usage.get(owner.name, Usage(owner=owner.name))
    has_all = _has_all(owner, runs)
    return has_all, runs.get(owner.name, 0) / owner.weight, used.slot_seconds / owner.weight, owner.name


def _has_all(owner: Owner, runs: Mapping[str, int]) -> bool:
    return owner.at_once is not None and runs.get(owner.name, 0) >= owner.at_once


def over_quota(owner: Owner, usage: Mapping[str, Usage]) -> str:
    """Return which quota of the day or of the disk an owner has used up, '' for none."""
    used = usage.get(owner.name, Usage(owner=owner.name))
    advice = "is used up; it begins again at 00:00 UTC"
    if owner.slot_seconds is not None and used.slot_seconds >= owner.slot_seconds:
        return f"quota: {owner.name}'s {owner.slot_seconds:g} slot-seconds a day {advice}"
    if owner.dollars is not None and used.dollars >= owner.dollars:
        return f"quota: {owner.name}'s ${owner.dollars:g} a day {advice}"
    if owner.disk_gb is not None and used.bytes >= owner.disk_gb * 1e9:
        return f"quota: {owner.name}'s runs take all of their {owner.disk_gb:g} GB; delete some"
    return ""


def _at_once(owner: Owner) -> str:
    return f"quota: {owner.name} trains at most {owner.at_once} at once, so this run waits for an earlier one"


def _no_place(runs: Mapping[str, int], ahead: Mapping[str, int], most: int) -> str:
    train = ", ".join(f"{name} {count}" for name, count in sorted(runs.items()) if count)
    first = ", ".join(f"{name} {count}" for name, count in sorted(ahead.items()))
    before = f"; shares ahead of this run: {first}" if first else ""
    return f"places: all {most} are taken{f' ({train})' if train else ''}{before}"
