"""The API: resources and verbs below /api/v1."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.errors import UserError
from marless.functions.encoding import Undecodable, from_json, to_json
from marless.functions.errors import StorageFault
from marless.functions.text.terminal_text import visible_text
from marless.program import program_name
from marless.reports import journal
from marless.runs.folder import METRICS
from marless.studies.study_file import StudyFile
from marless_server import admission
from marless_server.pool.archives import archive
from marless_server.pool.deletion import delete_run
from marless_server.store.runs import STATUSES, Conflict, NewRun, RunRow, Status
from marless_server.web import resources
from marless_server.web.answers import (
    About,
    CheckedRun,
    CheckedStudy,
    DetailedRun,
    Pool,
    Price,
    Quotas,
    Rights,
    RoundPage,
    Run,
    RunPage,
    Study,
    SubmittedRun,
    SubmittedStudy,
)
from marless_server.web.bodies import body_of
from marless_server.web.guard import Caller
from marless_server.web.openapi import GZIP, JSON, TEXT, TOML, Operation, document, parameter
from marless_server.web.problems import Problem, of_settings
from marless_server.web.resources import Lab

_T = TypeVar("_T")

PREFIX = "/api/v1"
_MOST_ROWS, _LONGEST_KEY = 200, 200
_WHOLE = {"type": "integer", "minimum": 0, "maximum": 1 << 53}
_KEY = parameter(
    "Idempotency-Key",
    "A second submission with the same key is the same run.",
    {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY},
    "header",
)
_STATUS = parameter("status", "Only runs with this status.", {"enum": list(STATUSES)})
_LIMIT = parameter("limit", f"The length of the list, at most {_MOST_ROWS}.", _WHOLE)
_CURSOR = parameter("cursor", "The `cursor` of the part before.", _WHOLE)
_AFTER = parameter("after", "Only rounds after this one.", _WHOLE)


class Api:
    """The endpoints. Each finds the caller that the guard has let in."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[Route]:
        """Return the routes of the API."""
        return [
            Route(operation.path, operation.endpoint, methods=[operation.method]) for operation in self.operations()
        ]

    def operations(self) -> list[Operation]:
        """Return the operations, as their description for programs has them."""
        return [
            Operation("GET", "/healthz", _health, "Whether the server answers.", {200: TEXT}),
            Operation("GET", f"{PREFIX}/openapi.json", self._describe, "This description.", {200: JSON}),
            Operation("GET", PREFIX, self._about, "Your name, rights and quotas.", {200: About}),
            Operation(
                "POST", f"{PREFIX}/submissions", self._submit, "Put a run into the queue.",
                {201: SubmittedRun, 200: SubmittedRun}, (409, 415), RunConfig, [_KEY],
            ),
            Operation(
                "POST", f"{PREFIX}/submissions/check", self._check, "Check a configuration, and forecast its price.",
                {200: CheckedRun}, (415,), RunConfig,
            ),
            *self._of_studies(f"{PREFIX}/studies/{{study}}"),
            *self._of_runs(f"{PREFIX}/runs/{{run}}"),
            Operation("GET", f"{PREFIX}/pool", self._pool, "Slots, queue and owners.", {200: Pool}),
        ]  # fmt: skip

    def _of_studies(self, study: str) -> list[Operation]:
        return [
            Operation(
                "POST", f"{PREFIX}/studies", self._submit_study, "Put the runs of a study into the queue.",
                {201: SubmittedStudy, 200: SubmittedStudy}, (409, 415), StudyFile, [_KEY],
            ),
            Operation(
                "POST", f"{PREFIX}/studies/check", self._check_study, "Check a study, and forecast its price.",
                {200: CheckedStudy}, (415,), StudyFile,
            ),
            Operation("GET", study, self._show_study, "The runs of a study.", {200: Study}),
            Operation("POST", f"{study}/stop", self._stop_study, "Stop the runs of a study.", {200: Study}),
            Operation(
                "POST", f"{study}/resume", self._resume_study, "Queue stopped and failed runs again.", {200: Study},
                (409,),
            ),
        ]  # fmt: skip

    def _of_runs(self, run: str) -> list[Operation]:
        return [
            Operation(
                "GET", f"{PREFIX}/runs", self._list, "Your runs, the newest first.", {200: RunPage},
                parameters=[_STATUS, _LIMIT, _CURSOR],
            ),
            Operation("GET", run, self._show, "A run with its settings.", {200: DetailedRun}),
            Operation("POST", f"{run}/stop", self._stop, "Stop a run after the tasks in flight.", {200: Run}, (409,)),
            Operation(
                "POST", f"{run}/resume", self._resume, "Queue a run again, or change its limits.", {200: Run}, (409,),
                admission.Limits,
            ),
            Operation(
                "PATCH", run, self._patch, "Keep a run although the days of its owner are over, or no longer.",
                {200: Run}, (), admission.Changes,
            ),
            Operation(
                "DELETE", run, self._delete, "Delete a run that has stopped or ended, with its folder.", {200: Run},
                (409,),
            ),
            Operation(
                "GET", f"{run}/rounds", self._rounds, "The rounds of a run.", {200: RoundPage},
                parameters=[_AFTER, _LIMIT],
            ),
            Operation("GET", f"{run}/log", self._log, "The log of a run.", {200: TEXT}),
            Operation("GET", f"{run}/archive", self._archive, "The folder of a run.", {200: GZIP}, (409,)),
        ]  # fmt: skip

    def _describe(self, request: Request) -> Response:
        return _json(document(self.operations()))

    def _about(self, request: Request) -> Response:
        owner = caller(request).owner
        rights = Rights(code=owner.code, admin=owner.admin, weight=owner.weight, at_once=owner.at_once)
        quotas = Quotas(
            slot_seconds_a_day=owner.slot_seconds, dollars_a_day=owner.dollars, disk_gb=owner.disk_gb,
            keep_days=owner.keep_days,
        )  # fmt: skip
        return _json(About(version="v1", owner=owner.name, rights=rights, quotas=quotas))

    async def _submit(self, request: Request) -> Response:
        return await _with_body(request, self._submission)

    async def _check(self, request: Request) -> Response:
        return await _with_body(request, self._checked)

    def _submission(self, request: Request, body: bytes) -> Response:
        sender, key = caller(request), _key_of(request)
        config = self._config(request, body)
        run = resources.new_run(config, sender.owner, key, body)
        price = resources.forecast(self._lab, [run], config.stop.dollars)
        [row], is_new = self._lab.runs.submit([run])
        if is_new:
            self._lab.note(sender, "submit", row.id)
        answer = SubmittedRun(**resources.run_fields(row, self._lab.queue.turns()), price=price)
        return _json(answer, 201 if is_new else 200, {"Location": f"{PREFIX}/runs/{row.id}"})

    def _checked(self, request: Request, body: bytes) -> Response:
        config = self._config(request, body)
        run = resources.new_run(config, caller(request).owner, None, body)
        price = resources.forecast(self._lab, [run], config.stop.dollars)
        return _json(CheckedRun(task=config.task.name, algorithm=config.algorithm.name, price=price))

    async def _submit_study(self, request: Request) -> Response:
        return await _with_body(request, self._study_submission)

    async def _check_study(self, request: Request) -> Response:
        return await _with_body(request, self._checked_study)

    def _study_submission(self, request: Request, body: bytes) -> Response:
        sender, runs, price = caller(request), *self._new_study(request, body)
        rows, is_new = self._lab.runs.submit(runs)
        if is_new:
            self._lab.note(sender, "submit", rows[0].study)
        turns = self._lab.queue.turns()
        listed = [resources.run_of(row, turns) for row in rows]
        place = {"Location": f"{PREFIX}/studies/{rows[0].study}"}
        return _json(SubmittedStudy(id=rows[0].study, runs=listed, price=price), 201 if is_new else 200, place)

    def _checked_study(self, request: Request, body: bytes) -> Response:
        runs, price = self._new_study(request, body)
        return _json(CheckedStudy(runs=len(runs), price=price))

    def _new_study(self, request: Request, body: bytes) -> tuple[list[NewRun], Price]:
        owner, key, study = caller(request).owner, _key_of(request), f"s{secrets.token_hex(6)}"
        runs = list[NewRun]()
        for run in self._read(request, body, admission.study_runs):
            new_run = resources.new_run(run.config, owner, None if runs else key, body)
            runs.append(replace(new_run, study=study, setting=run.name))
        return runs, resources.forecast(self._lab, runs, None)

    def _show_study(self, request: Request) -> Response:
        return self._study_answer(self._study_rows(request))

    def _stop_study(self, request: Request) -> Response:
        rows = self._study_rows(request)
        for row in rows:
            if row.status in ("queued", "running"):
                self._lab.runs.stop(row.id)
        self._lab.note(caller(request), "stop", rows[0].study)
        return self._study_answer(self._study_rows(request))

    def _resume_study(self, request: Request) -> Response:
        rows = self._study_rows(request)
        for row in rows:
            if row.status in ("stopped", "failed"):
                self._lab.runs.resume(row.id, [])
        self._lab.note(caller(request), "resume", rows[0].study)
        return self._study_answer(self._study_rows(request))

    def _study_answer(self, rows: Sequence[RunRow]) -> Response:
        turns = self._lab.queue.turns()
        return _json(Study(id=rows[0].study, runs=[resources.run_of(row, turns) for row in rows]))

    def _study_rows(self, request: Request) -> list[RunRow]:
        if rows := self._lab.runs.study(caller(request).owner.name, request.path_params["study"]):
            return rows
        raise Problem(404, "you have no such study", "study")

    def _config(self, request: Request, body: bytes) -> RunConfig:
        return self._read(request, body, admission.checked_config)

    def _read(self, request: Request, body: bytes, read: Callable[[Mapping[str, Any], bool, int], _T]) -> _T:
        sender, kind = caller(request), request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, TOML):
            raise Problem(415, f"send the configuration as {TOML} or {JSON}", "content-type")
        try:
            document = admission.document_of(body, kind == TOML)
            return read(document, sender.owner.code, self._lab.board.gpus)
        except Undecodable as error:
            raise Problem(400, f"the body cannot be read: {error}") from error
        except admission.Forbidden as error:
            self._lab.runs.audit(sender.owner.name, sender.token, "refused", str(error))
            raise Problem(403, str(error), error.key) from error

    def _list(self, request: Request) -> Response:
        query = request.query_params
        status = query.get("status")
        if status is not None and status not in STATUSES:
            raise Problem(400, f"it is one of {', '.join(STATUSES)}", "status")
        statuses: tuple[Status, ...] = tuple(name for name in STATUSES if status in (None, name))
        most, before = whole_number(request, "limit", 50, _MOST_ROWS), whole_number(request, "cursor", 0)
        rows = self._lab.runs.listing(caller(request).owner.name, statuses, before or None, most)
        turns = self._lab.queue.turns()
        following = rows[-1].number if len(rows) == most else None
        return _json(RunPage(runs=[resources.run_of(row, turns) for row in rows], cursor=following))

    def _show(self, request: Request) -> Response:
        return _json(resources.details_of(self._row(request), self._lab.queue.turns()))

    def _stop(self, request: Request) -> Response:
        row = self._lab.runs.stop(self._row(request).id)
        self._lab.note(caller(request), "stop", row.id)
        return _json(resources.run_of(row))

    async def _resume(self, request: Request) -> Response:
        return await _with_body(request, self._go_on)

    async def _patch(self, request: Request) -> Response:
        return await _with_body(request, self._changed)

    def _changed(self, request: Request, body: bytes) -> Response:
        row = self._row(request)
        try:
            is_kept = from_json(body, admission.Changes).keep
        except Undecodable as error:
            raise Problem(400, f"the body cannot be read: {error}") from error
        self._lab.runs.keep(row.id, is_kept)
        self._lab.note(caller(request), "keep" if is_kept else "release", row.id)
        return _json(resources.run_of(self._row(request), self._lab.queue.turns()))

    def _delete(self, request: Request) -> Response:
        row = self._row(request)
        delete_run(self._lab.runs, self._lab.claims, self._lab.root, row.id)
        self._lab.note(caller(request), "delete", row.id)
        return _json(resources.run_of(row))

    def _go_on(self, request: Request, body: bytes) -> Response:
        row = self._row(request)
        try:
            limits, rounds = admission.new_limits(row, body)
        except Undecodable as error:
            raise Problem(400, f"the body cannot be read: {error}") from error
        row = self._lab.runs.resume(row.id, limits, rounds)
        self._lab.note(caller(request), "resume", f"{row.id} {' '.join(limits)}")
        return _json(resources.run_of(row, self._lab.queue.turns()))

    def _rounds(self, request: Request) -> Response:
        row, after = self._row(request), whole_number(request, "after", 0)
        most = whole_number(request, "limit", _MOST_ROWS, _MOST_ROWS)
        path = self._lab.folder(row).path / METRICS
        lines = [line for line in journal.read(path) if line.round > after]
        following = lines[most - 1].round if len(lines) > most else None
        return _json(RoundPage(rounds=lines[:most], after=following))

    def _log(self, request: Request) -> Response:
        remarks = self._lab.runs.remarks(self._row(request).id)
        return PlainTextResponse(visible_text("".join(f"{remark.time} {remark.text}\n" for remark in remarks)))

    def _archive(self, request: Request) -> Response:
        row = self._row(request)
        block = archive(self._lab.folder(row), self._lab.claims, self._lab.root)
        path = block.__enter__()
        self._lab.note(caller(request), "archive", row.id)
        return FileResponse(
            path,
            media_type="application/gzip",
            filename=path.name,
            background=BackgroundTask(block.__exit__, None, None, None),
        )

    def _pool(self, request: Request) -> Response:
        return _json(resources.pool_of(self._lab, caller(request).owner))

    def _row(self, request: Request) -> RunRow:
        row = self._lab.runs.find(caller(request).owner.name, request.path_params["run"])
        if row is None:
            raise Problem(404, "you have no such run", "run")
        return row


def caller(request: Request) -> Caller:
    """Return the sender of the request."""
    result: Caller = request.scope["caller"]
    return result


def form_fields(request: Request) -> Mapping[str, str]:
    """Return the form of the request, which the guard has read. Raises `Problem` for a program, which sends none."""
    fields: Mapping[str, str] | None = request.scope.get("form")
    if fields is None:
        raise Problem(415, f"only a browser sends forms. Programs use {PREFIX}", "content-type")
    return fields


def _key_of(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise Problem(400, f"it has 1 to {_LONGEST_KEY} printable characters", "idempotency-key")
    return key


def problem_of(request: Request, error: Exception) -> Response:
    """Return the answer to a request that failed."""
    return _problem(error).response()


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        text = "there is nothing at this address" if error.status_code == 404 else error.detail
        return Problem(error.status_code, text, headers=dict(error.headers or {}))
    if isinstance(error, Conflict):
        return of_settings(error, 409)
    if isinstance(error, ConfigError | UserError):
        return of_settings(error)
    if isinstance(error, StorageFault):
        return Problem(503, str(error))
    return Problem(500, f"internal error: {type(error).__name__}. The server's output has its details")


def _health(request: Request) -> Response:
    return PlainTextResponse(f"{program_name()} serves\n")


async def _with_body(request: Request, answer: Callable[[Request, bytes], Response]) -> Response:
    """Read the body, and answer in another thread."""
    return await run_in_threadpool(answer, request, await body_of(request))


def whole_number(request: Request, name: str, default: int, most: int = 1 << 53) -> int:
    """Return a whole number of the query, at most `most`. Raises `Problem`."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        raise Problem(400, f"{name} is a whole number of at least 0", name)
    return max(min(int(text), most), 1 if default else 0)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, headers, JSON)
