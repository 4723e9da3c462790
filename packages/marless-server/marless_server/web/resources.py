"""The state of runs and of the pool, for JSON and for the page."""

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
from marless_server.web.answers import DetailedRun, OwnerUse, Pool, Price, QueuePlace, Run, SlotUse

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
    """Return the attributes of a `Run`. `turns` are the runs that wait."""
    turn = next((turn for turn in turns if turn.run.id == row.id), None)
    place, reason = (None, None) if turn is None else (turn.place, turn.reason or _AT_ONCE)
    fields = {name: getattr(row, name) for name in Run.__struct_fields__ if hasattr(row, name)}
    return {**fields, "stops": row.wish == "stop", "place": place, "waits_for": reason}


def run_of(row: RunRow, turns: Sequence[Turn] = ()) -> Run:
    """Return a run. `turns` are the runs that wait."""
    return Run(**run_fields(row, turns))


def details_of(row: RunRow, turns: Sequence[Turn]) -> DetailedRun:
    """Return a run with its settings."""
    return DetailedRun(**run_fields(row, turns), config=parse_toml(row.config), limits=row.limit_settings)


def pool_of(lab: Lab, owner: Owner) -> Pool:
    """Return the state of the pool. Of other owners' runs, it has the owner and no id."""
    turns, owners, usage = lab.queue.turns(), lab.owners.all(), lab.runs.used_today()
    trains = Counter(row.owner for row in lab.runs.open() if row.status == "running")
    waits = Counter(turn.run.owner for turn in turns)
    return Pool(
        slots=lab.board.slots,
        places=lab.board.most,
        ends=lab.board.ends,
        busy=[_slot(slot, slot.owner == owner.name) for slot in lab.board.busy],
        queue=[_place(turn, turn.run.owner == owner.name) for turn in turns],
        owners=[_use(row, usage, trains[row.name], waits[row.name]) for row in owners.values()],
    )


def _slot(slot: BusySlot, is_own: bool) -> SlotUse:
    run, work = (slot.run, slot.work) if is_own else (None, None)
    return SlotUse(owner=slot.owner, run=run, work=work, seconds=round(slot.seconds, 1))


def _place(turn: Turn, is_own: bool) -> QueuePlace:
    run = turn.run.id if is_own else None
    return QueuePlace(place=turn.place, owner=turn.run.owner, run=run, waits_for=turn.reason or _AT_ONCE)


def forecast(lab: Lab, owner: Owner, settings: str, config: RunConfig) -> Price:
    """Return the price of a run in dollars, and its seconds, from the owner's last run with these settings."""
    earlier, rounds, cap = lab.runs.alike(owner.name, settings), config.effective().stop.rounds, config.stop.dollars
    if earlier is None or rounds is None:
        text = "no run of yours with these settings has trained; `marless estimate` measures a few rounds"
        return Price(cap_dollars=cap, dollars=None, seconds=None, source=None, text=text)
    factor = rounds / earlier.round
    return Price(
        cap_dollars=cap,
        dollars=earlier.dollars * factor,
        seconds=earlier.seconds * factor,
        source=earlier.id,
        text=f"{rounds} rounds at the price and speed of {earlier.id}",
    )


def _use(owner: Owner, usage: dict[str, Usage], trains: int, waits: int) -> OwnerUse:
    used = usage.get(owner.name, Usage(owner=owner.name))
    return OwnerUse(
        owner=owner.name,
        weight=owner.weight,
        trains=trains,
        waits=waits,
        slot_seconds_today=round(used.slot_seconds, 1),
        dollars_today=round(used.dollars, 9),
    )
