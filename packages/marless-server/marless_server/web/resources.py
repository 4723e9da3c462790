"""The state of runs and of the pool, for JSON and for the page."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.toml_parsing import parse_toml
from marless.runs.folder import RunFolder
from marless_server import admission
from marless_server.pool.archives import ArchiveClaims
from marless_server.pool.driver import Board, BusySlot, Queue, run_root
from marless_server.pool.forecasts import begins_in_s, seconds_left
from marless_server.pool.turns import Turn, over_quota
from marless_server.store.owners import Owner, Owners
from marless_server.store.runs import NewRun, RunRow, Runs, RunState, Usage, joining
from marless_server.web.answers import DetailedRun, OwnerUse, Pool, Price, QueuePlace, Run, SlotUse
from marless_server.web.guard import Caller

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

    def note(self, sender: Caller, action: str, subject: str) -> None:
        """Write a change into the audit, and wake the pool."""
        self.runs.audit(sender.owner.name, sender.token, action, subject)
        self.board.news.set()

    def folder(self, row: RunRow) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(run_root(self.root, row.id) / row.id)


def run_fields(row: RunRow, turns: Sequence[Turn] = ()) -> dict[str, Any]:
    """Return the attributes of a `Run`. `turns` are the runs that wait."""
    turn = next((turn for turn in turns if turn.run.id == row.id), None)
    place, reason = (None, None) if turn is None else (turn.place, turn.reason or _AT_ONCE)
    fields = {name: getattr(row, name) for name in RunState.__struct_fields__}
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


def new_run(config: RunConfig, owner: Owner, key: str | None, body: bytes) -> NewRun:
    """Return the entry of a run for the queue."""
    return NewRun(
        owner=owner.name,
        task=config.task.name,
        algorithm=config.algorithm.name,
        seed=config.seed,
        config=admission.config_text(config),
        settings=admission.settings_hash(config),
        key=key,
        body=hashlib.sha256(body).hexdigest(),
        rounds=config.effective().stop.rounds,
    )


def forecast(lab: Lab, runs: Sequence[NewRun], cap: float | None) -> Price:
    """Return the price of runs of one owner that join the queue now, and when they begin and end.

    Prices follow from the owner's last run with the same settings, and the queue from anyone's.
    """
    earlier = [lab.runs.alike(run.owner, run.settings) for run in runs]
    amounts = [_amounts(run, row) for run, row in zip(runs, earlier, strict=True) if row and run.rounds]
    source = next((row.id for row in earlier if row), None)
    is_known = len(amounts) == len(runs)
    begins, ends = _begin_and_end(lab, runs)
    text = (
        f"{runs[0].rounds} rounds at the price and speed of {source}"
        if is_known
        else "no run of yours with these settings has trained; `marless estimate` measures a few rounds"
    )
    return Price(
        cap_dollars=cap,
        dollars=sum(dollars for dollars, _ in amounts) if is_known else None,
        seconds=sum(seconds for _, seconds in amounts) if is_known else None,
        begins_in_s=begins,
        ends_in_s=ends,
        source=source if is_known else None,
        text=text,
    )


def _amounts(run: NewRun, earlier: RunRow) -> tuple[float, float]:
    """Return the dollars and seconds of a run at the pace of an earlier run."""
    factor = (run.rounds or 0) / earlier.round
    return earlier.dollars * factor, earlier.seconds * factor


def _begin_and_end(lab: Lab, runs: Sequence[NewRun]) -> tuple[float | None, float | None]:
    """Return the seconds until the first new run begins and the last new run ends. None: not known."""
    if over_quota(lab.owners.all()[runs[0].owner], lab.runs.used_today()):
        return None, None
    rows, paces = lab.runs.open(), lab.runs.paces()
    last = rows[-1].number if rows else 0
    turns = lab.queue.turns([*rows, *(joining(run, last + place) for place, run in enumerate(runs, 1))])
    running = [row for row in rows if row.status == "running"]
    begins = begins_in_s(turns, running, paces, lab.board.most)
    # Runs that join have no id yet.
    new_turns = [(turn.run, begin) for turn, begin in zip(turns, begins, strict=True) if not turn.run.id]
    ends = [begin + seconds_left(row, paces) for row, begin in new_turns]
    return _finite(min(begin for _, begin in new_turns)), _finite(max(ends))


def _finite(seconds: float) -> float | None:
    return round(seconds, 1) if math.isfinite(seconds) else None


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
