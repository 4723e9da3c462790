"""The fields of runs and of the pool, for JSON and for the page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.toml_parsing import parse_toml
from marless.runs.folder import RunFolder
from marless_server.pool.archives import ArchiveClaims
from marless_server.pool.driver import Board, BusySlot, Queue, run_root
from marless_server.pool.turns import Turn
from marless_server.store.owners import Owner, Owners
from marless_server.store.runs import RunRow, Runs, Usage

_SHOWN = (
    "id", "owner", "task", "algorithm", "seed", "status", "reason", "created_at", "began_at", "ended_at", "round",
    "score", "dollars", "seconds", "served_s",
)  # fmt: skip
_AT_ONCE = "it begins at once"


@dataclass(frozen=True)
class Lab:
    """Everything that requests are answered from. `root` is the folder of the runs."""

    owners: Owners
    runs: Runs
    queue: Queue
    board: Board
    claims: ArchiveClaims
    root: Path

    def folder(self, row: RunRow) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(run_root(self.root, row.id) / row.id)


def run_fields(row: RunRow, turns: Sequence[Turn] = ()) -> dict[str, Any]:
    """Return the fields of a run. `turns` are the runs that wait."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in _SHOWN}
    fields["stops"] = row.wish == "stop"
    for turn in turns:
        if turn.run.id == row.id:
            fields |= {"place": turn.place, "waits_for": turn.reason or _AT_ONCE}
    return fields


def run_details(row: RunRow, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the fields of one run, with its settings."""
    return {**run_fields(row, turns), "config": parse_toml(row.config), "limits": row.limit_settings}


def pool_fields(lab: Lab, owner: Owner) -> dict[str, Any]:
    """Return the state of the pool. Of other owners' runs, it has the owner and no id."""

    turns, owners, usage = lab.queue.turns(), lab.owners.all(), lab.runs.used_today()
    trains = Counter(row.owner for row in lab.runs.open() if row.status == "running")
    waits = Counter(turn.run.owner for turn in turns)
    return {
        "slots": lab.board.slots,
        "places": lab.board.most,
        "ends": lab.board.ends,
        "busy": [_slot_fields(slot, slot.owner == owner.name) for slot in lab.board.busy],
        "queue": [_turn_fields(turn, turn.run.owner == owner.name) for turn in turns],
        "owners": [_owner_fields(row, usage, trains[row.name], waits[row.name]) for row in owners.values()],
    }


def _slot_fields(slot: BusySlot, is_own: bool) -> dict[str, Any]:
    run, work = (slot.run, slot.work) if is_own else (None, None)
    return {"owner": slot.owner, "run": run, "work": work, "seconds": round(slot.seconds, 1)}


def _turn_fields(turn: Turn, is_own: bool) -> dict[str, Any]:
    run = turn.run.id if is_own else None
    return {"place": turn.place, "owner": turn.run.owner, "run": run, "waits_for": turn.reason or _AT_ONCE}


def forecast(lab: Lab, owner: Owner, settings: str, config: RunConfig) -> dict[str, Any]:
    """Return the price of a run in dollars, and its seconds, from the owner's last run with these settings."""
    earlier, rounds = lab.runs.alike(owner.name, settings), config.effective().stop.rounds
    cap = {"cap_dollars": config.stop.dollars}
    if earlier is None or rounds is None:
        line = "no run of yours with these settings has trained; `marless estimate` measures a few rounds"
        return {**cap, "dollars": None, "seconds": None, "from": None, "text": line}
    factor = rounds / earlier.round
    dollars, seconds = earlier.dollars * factor, earlier.seconds * factor
    line = f"{rounds} rounds at the price and speed of {earlier.id}"
    return {**cap, "dollars": dollars, "seconds": seconds, "from": earlier.id, "text": line}


def _owner_fields(owner: Owner, usage: dict[str, Usage], trains: int, waits: int) -> dict[str, Any]:
    used = usage.get(owner.name, Usage(owner=owner.name))
    return {
        "owner": owner.name,
        "weight": owner.weight,
        "trains": trains,
        "waits": waits,
        "slot_seconds_today": round(used.slot_seconds, 1),
        "dollars_today": round(used.dollars, 9),
    }
