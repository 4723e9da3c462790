"""The runs of a server: the queue, the progress of each run, the usage of each owner, and the audit."""

import secrets
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from marless.coordinator.errors import UserError
from marless.functions.encoding import from_json, to_json
from marless.runs.folder import now
from marless_server.store.database import Database, fetch

Status = Literal["queued", "running", "stopped", "finished", "failed"]
STATUSES: tuple[Status, ...] = ("queued", "running", "stopped", "finished", "failed")
OVER: tuple[Status, ...] = ("stopped", "finished", "failed")
Wish = Literal["", "stop", "restart"]
"""The owner's wish for a run that trains: none, to stop it, or to continue with other limits."""

MOST_QUEUED = 1000
"""Runs of one owner that wait at once."""
_OVER = "it is {status}. Only a run that waits or trains can be stopped"


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run that its owner sees. Times are UTC in ISO format, '' for never.

    Attributes:
        reason: why the run ended
        score: mean return of the last evaluation
        served_s: seconds of slots that ran its tasks
        study: id of the study that the run belongs to, '' for none
        setting: the run's name in its study
        bytes: size of its folder when it last stopped or ended
        keep: whether the run stays, although its owner's `keep_days` are over
    """

    id: str
    owner: str
    task: str
    algorithm: str
    seed: int
    status: Status
    reason: str
    created_at: str
    began_at: str
    ended_at: str
    round: int
    score: float | None
    dollars: float
    seconds: float
    served_s: float
    study: str
    setting: str
    bytes: int
    keep: bool


class RunRow(RunState, frozen=True, kw_only=True):
    """A run.

    Attributes:
        config: the configuration, as TOML
        settings: hash of the configuration without seed, limits and loggers
        limits: settings that replace the limits of the configuration, as a JSON list of key=value
        key: the submission's Idempotency-Key
        body: hash of the submission's body
        rounds: rounds at its end. None: not known
    """

    number: int
    config: str
    settings: str
    limits: str
    wish: Wish
    key: str | None
    body: str
    rounds: int | None

    @property
    def limit_settings(self) -> list[str]:
        """The limits as key=value."""
        return from_json(self.limits, list[str])


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A checked submission, with some attributes of `RunRow`."""

    owner: str
    task: str
    algorithm: str
    seed: int
    config: str
    settings: str
    key: str | None
    body: str
    study: str = ""
    setting: str = ""
    rounds: int | None = None


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of training and the dollars of one round, of the last run with these settings."""

    settings: str
    seconds: float
    dollars: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a run, with some attributes of `RunRow`."""

    round: int
    score: float | None
    dollars: float
    seconds: float
    served_s: float


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The slot-seconds and dollars of an owner on one day (UTC), and the size of all the owner's runs."""

    owner: str
    slot_seconds: float = 0.0
    dollars: float = 0.0
    bytes: int = 0


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a run's log."""

    time: str
    text: str


def joining(run: NewRun, number: int) -> RunRow:
    """Return the row that a new run would have in the queue. It has no id yet."""
    row = msgspec.structs.asdict(run)
    return RunRow(
        **row, number=number, id="", limits="[]", status="queued", wish="", reason="", created_at=now(), began_at="",
        ended_at="", round=0, score=None, dollars=0.0, seconds=0.0, served_s=0.0, bytes=0, keep=False,
    )  # fmt: skip


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the audit: a request that changed something, or was refused."""

    time: str
    owner: str
    token: str
    action: str
    subject: str


class Conflict(UserError):
    """The state of the run, or an earlier submission, does not allow the request."""


class Runs:
    """All runs of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, runs: Sequence[NewRun]) -> tuple[list[RunRow], bool]:
        """Put runs of one owner into the queue. Return them, and whether they are new.

        An equal submission with the same key returns the earlier runs.
        Raises `Conflict` if the key belongs to another submission, or if too many runs wait.
        """
        owner, key, body = runs[0].owner, runs[0].key, runs[0].body

        def _insert(connection: sqlite3.Connection) -> tuple[list[RunRow], bool]:
            query = "SELECT * FROM runs WHERE owner = ? AND key = ?"
            for earlier in fetch(connection, RunRow, query, [owner, key]):
                if earlier.body != body:
                    raise Conflict(f"Idempotency-Key: {earlier.id} was another submission with this key")
                return _study(connection, earlier.study) if earlier.study else [earlier], False
            query = "SELECT COUNT(*) FROM runs WHERE owner = ? AND status = 'queued'"
            if connection.execute(query, [owner]).fetchone()[0] + len(runs) > MOST_QUEUED:
                raise Conflict(f"at most {MOST_QUEUED} runs of yours wait. Submit more when some have begun")
            return [_add(connection, run) for run in runs], True

        return self._database.write(_insert)

    def study(self, owner: str, study: str) -> list[RunRow]:
        """Return the runs of an owner's study, the oldest first. There are none for studies of others."""
        query = "SELECT * FROM runs WHERE study = ? AND owner = ? AND study != '' ORDER BY number"
        return self._database.rows(RunRow, query, [study, owner])

    def paces(self) -> dict[str, Pace]:
        """Return the pace of the last run of each settings that trained, by the hash of the settings."""
        query = (
            "SELECT settings, seconds / round AS seconds, dollars / round AS dollars, MAX(number) FROM runs"
            " WHERE round > 0 GROUP BY settings"
        )
        return {pace.settings: pace for pace in self._database.rows(Pace, query)}

    def find(self, owner: str, run: str) -> RunRow | None:
        """Return an owner's run. It is None for runs of others."""
        rows = self._database.rows(RunRow, "SELECT * FROM runs WHERE id = ? AND owner = ?", [run, owner])
        return rows[0] if rows else None

    def listing(self, owner: str, statuses: Sequence[Status], before: int | None, most: int) -> list[RunRow]:
        """Return an owner's runs with one of the statuses, the newest first, with numbers below `before`."""
        marks = ", ".join("?" * len(statuses))
        query = (
            f"SELECT * FROM runs WHERE owner = ? AND status IN ({marks}) AND (? IS NULL OR number < ?)"
            " ORDER BY number DESC LIMIT ?"
        )
        return self._database.rows(RunRow, query, [owner, *statuses, before, before, most])

    def alike(self, owner: str, settings: str) -> RunRow | None:
        """Return the owner's last run that finished rounds with the same settings."""
        query = "SELECT * FROM runs WHERE owner = ? AND settings = ? AND round > 0 ORDER BY number DESC LIMIT 1"
        rows = self._database.rows(RunRow, query, [owner, settings])
        return rows[0] if rows else None

    def open(self) -> list[RunRow]:
        """Return all runs that wait or train, the oldest first."""
        return self._database.rows(RunRow, "SELECT * FROM runs WHERE status IN ('queued', 'running') ORDER BY number")

    def stop(self, run: str) -> RunRow:
        """Stop a run after the tasks in flight. Raises `Conflict` if it is over."""

        def _update(connection: sqlite3.Connection) -> RunRow:
            row = _row(connection, run)
            if row.status not in ("queued", "running"):
                raise Conflict(_OVER.format(status=row.status))
            change = "status = 'stopped', reason = ''" if row.status == "queued" else "wish = 'stop'"
            connection.execute(f"UPDATE runs SET {change} WHERE id = ?", [run])
            _remark(connection, run, "stop asked")
            return _row(connection, run)

        return self._database.write(_update)

    def resume(self, run: str, limits: Sequence[str], rounds: int | None = None) -> RunRow:
        """Queue a run again, or give a run that waits or trains new limits. `rounds` is the new number of rounds.

        Raises `Conflict` for a run that waits or trains, without new limits.
        """

        def _update(connection: sqlite3.Connection) -> RunRow:
            row = _row(connection, run)
            is_open = row.status in ("queued", "running")
            if is_open and not limits and row.wish != "stop":
                raise Conflict(f"it is {row.status} already. To change a limit, send it")
            new = {text.partition("=")[0]: text for text in (*row.limit_settings, *limits)}
            status, wish = ("running", "restart") if row.status == "running" else ("queued", "")
            connection.execute(
                "UPDATE runs SET status = ?, wish = ?, reason = '', ended_at = '', limits = ?,"
                " rounds = COALESCE(?, rounds) WHERE id = ?",
                [status, wish, to_json([*new.values()]).decode(), rounds, run],
            )
            _remark(connection, run, f"resume asked{''.join(f', {text}' for text in limits)}")
            return _row(connection, run)

        return self._database.write(_update)

    def begin(self, run: str) -> RunRow | None:
        """Take a run out of the queue. Return None if it has left the queue."""

        def _update(connection: sqlite3.Connection) -> RunRow | None:
            query = "UPDATE runs SET status = 'running', began_at = ? WHERE id = ? AND status = 'queued'"
            if not connection.execute(query, [now(), run]).rowcount:
                return None
            _remark(connection, run, "began" if not _row(connection, run).round else "continued")
            return _row(connection, run)

        return self._database.write(_update)

    def end(self, run: str, outcome: Literal["finished", "failed", "interrupted"], reason: str) -> None:
        """Note how a run ended. One that was interrupted waits again, unless its owner stopped it."""

        def _update(connection: sqlite3.Connection) -> None:
            wish = _row(connection, run).wish
            by_itself: Status = "queued" if outcome == "interrupted" else outcome
            status = {"stop": "stopped", "restart": "queued"}.get(wish, by_itself)
            status = "finished" if outcome == "finished" and wish == "stop" else status
            connection.execute(
                "UPDATE runs SET status = ?, wish = '', reason = ?, ended_at = ? WHERE id = ?",
                [status, reason, "" if status == "queued" else now(), run],
            )
            _remark(connection, run, f"{'waits' if status == 'queued' else status}{f': {reason}' if reason else ''}")

        self._database.write(_update)

    def measure(self, run: str, size: int) -> None:
        """Store the size of a run's folder, in bytes."""
        query = "UPDATE runs SET bytes = ? WHERE id = ?"
        self._database.write(lambda connection: connection.execute(query, [size, run]))

    def keep(self, run: str, is_kept: bool) -> None:
        """Keep a run although its owner's `keep_days` are over, or no longer."""
        query = "UPDATE runs SET keep = ? WHERE id = ?"
        self._database.write(lambda connection: connection.execute(query, [is_kept, run]))

    def delete(self, run: str) -> None:
        """Delete the row and the log of a run. Raises `Conflict` while it waits or trains."""

        def _delete(connection: sqlite3.Connection) -> None:
            if (status := _row(connection, run).status) not in OVER:
                raise Conflict(f"it is {status}. Only a run that has stopped or ended can be deleted")
            connection.execute("DELETE FROM remarks WHERE run = ?", [run])
            connection.execute("DELETE FROM runs WHERE id = ?", [run])

        self._database.write(_delete)

    def expired(self, owner: str, before: str) -> list[RunRow]:
        """Return an owner's runs that were over before a time (UTC in ISO format), without runs that are kept."""
        query = (
            "SELECT * FROM runs WHERE owner = ? AND NOT keep AND status IN ('stopped', 'finished', 'failed')"
            " AND COALESCE(NULLIF(ended_at, ''), created_at) < ? ORDER BY number"
        )
        return self._database.rows(RunRow, query, [owner, before])

    def queue_again(self) -> int:
        """Queue the runs that trained when the server ended. Return their number."""

        def _update(connection: sqlite3.Connection) -> int:
            connection.execute("UPDATE runs SET status = 'stopped' WHERE status = 'running' AND wish = 'stop'")
            rows = fetch(connection, RunRow, "SELECT * FROM runs WHERE status = 'running'")
            connection.execute("UPDATE runs SET status = 'queued' WHERE status = 'running'")
            connection.execute("UPDATE runs SET wish = ''")
            for row in rows:
                _remark(connection, row.id, "waits: the server started again")
            return len(rows)

        return self._database.write(_update)

    def record(self, run: str, figures: Figures, used: Usage) -> None:
        """Store the progress of a run, and add its owner's usage since the last call to the day's account."""

        def _update(connection: sqlite3.Connection) -> None:
            columns = ", ".join(f"{name} = ?" for name in Figures.__struct_fields__)
            connection.execute(f"UPDATE runs SET {columns} WHERE id = ?", [*msgspec.structs.astuple(figures), run])
            connection.execute(
                "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT (day, owner) DO UPDATE SET"
                " slot_seconds = slot_seconds + excluded.slot_seconds, dollars = dollars + excluded.dollars",
                [_today(), used.owner, used.slot_seconds, used.dollars],
            )

        self._database.write(_update)

    def used_today(self) -> dict[str, Usage]:
        """Return each owner's usage of today (UTC), and the size of the owner's runs."""
        query = (
            "SELECT name AS owner, COALESCE(usage.slot_seconds, 0) AS slot_seconds,"
            " COALESCE(usage.dollars, 0) AS dollars,"
            " (SELECT COALESCE(SUM(bytes), 0) FROM runs WHERE owner = name) AS bytes"
            " FROM owners LEFT JOIN usage ON usage.owner = name AND day = ?"
        )
        return {row.owner: row for row in self._database.rows(Usage, query, [_today()])}

    def remark(self, run: str, text: str) -> None:
        """Add a line to the log of a run."""
        self._database.write(lambda connection: _remark(connection, run, text))

    def remarks(self, run: str) -> list[Remark]:
        """Return the log of a run."""
        return self._database.rows(Remark, "SELECT time, text FROM remarks WHERE run = ? ORDER BY rowid", [run])

    def audit(self, owner: str, token: str, action: str, subject: str) -> None:
        """Note who did something. Nothing removes such a row."""
        query = "INSERT INTO audit (time, owner, token, action, subject) VALUES (?, ?, ?, ?, ?)"
        values = (now(), owner, token, action, " ".join(subject.split())[:200])
        self._database.write(lambda connection: connection.execute(query, values))

    def deeds(self, owner: str | None, most: int) -> list[Deed]:
        """Return the last lines of the audit about an owner, or about all owners, the newest first."""
        query = "SELECT * FROM audit WHERE ? IS NULL OR owner = ? ORDER BY number DESC LIMIT ?"
        return self._database.rows(Deed, query, [owner, owner, most])


def _add(connection: sqlite3.Connection, run: NewRun) -> RunRow:
    row = msgspec.structs.replace(joining(run, 0), id=f"r{secrets.token_hex(6)}")
    columns = {name: value for name, value in msgspec.structs.asdict(row).items() if name != "number"}
    marks = ", ".join("?" * len(columns))
    connection.execute(f"INSERT INTO runs ({', '.join(columns)}) VALUES ({marks})", [*columns.values()])
    _remark(connection, row.id, "submitted")
    return _row(connection, row.id)


def _study(connection: sqlite3.Connection, study: str) -> list[RunRow]:
    return fetch(connection, RunRow, "SELECT * FROM runs WHERE study = ? ORDER BY number", [study])


def _row(connection: sqlite3.Connection, run: str) -> RunRow:
    """Return a run. Raises `Conflict` if another request has deleted it."""
    if rows := fetch(connection, RunRow, "SELECT * FROM runs WHERE id = ?", [run]):
        return rows[0]
    raise Conflict("it was deleted")


def _remark(connection: sqlite3.Connection, run: str, text: str) -> None:
    connection.execute("INSERT INTO remarks VALUES (?, ?, ?)", [run, now(), " ".join(text.split())])


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"
