"""The forms of the pages: put a run into the queue, stop it, resume it, keep it, delete it."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.errors import UserError, one_line
from marless.functions.encoding import Undecodable
from marless_server import admission
from marless_server.pool.deletion import delete_run
from marless_server.store.runs import RunRow
from marless_server.web import resources
from marless_server.web.api import caller, form_fields
from marless_server.web.layout import page, refusal
from marless_server.web.problems import Problem
from marless_server.web.resources import Lab

_LONGEST_KEY = 64
FORM_KEY = "key"
"""The field with the submission's Idempotency-Key."""


class ChangePages:
    """The answers to forms. A program uses the API instead."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[Route]:
        """Return the routes of the forms."""
        return [
            Route("/submit", self._submit, methods=["POST"]),
            Route("/runs/{run}/{verb}", self._change, methods=["POST"]),
        ]

    def _submit(self, request: Request) -> Response:
        sender, fields = caller(request), form_fields(request)
        body = fields.get("config", "").encode()
        try:
            document = admission.document_of(body, True)
            config = admission.checked_config(document, sender.owner.code, self._lab.board.gpus)
            run = resources.new_run(config, sender.owner, fields.get(FORM_KEY, "")[:_LONGEST_KEY] or None, body)
            [row], is_new = self._lab.runs.submit([run])
        except (Undecodable, ConfigError, UserError, admission.Forbidden) as error:
            return page(sender, "Submit", [refusal(one_line(error))], "/submit", 422)
        if is_new:
            self._lab.note(sender, "submit", row.id)
        return RedirectResponse(f"/runs/{row.id}", 303)

    def _change(self, request: Request) -> Response:
        form_fields(request)
        sender, verb = caller(request), request.path_params["verb"]
        row = self._lab.runs.find(sender.owner.name, request.path_params["run"])
        if row is None or verb not in _VERBS:
            raise Problem(404, "you have no such run", "run")
        try:
            _VERBS[verb](self._lab, row)
        except UserError as error:
            return page(sender, row.id, [refusal(str(error))], "/runs", 409)
        self._lab.note(sender, verb, row.id)
        return RedirectResponse("/runs" if verb == "delete" else f"/runs/{row.id}", 303)


_VERBS: dict[str, Callable[[Lab, RunRow], object]] = {
    "stop": lambda lab, row: lab.runs.stop(row.id),
    "resume": lambda lab, row: lab.runs.resume(row.id, []),
    "keep": lambda lab, row: lab.runs.keep(row.id, True),
    "release": lambda lab, row: lab.runs.keep(row.id, False),
    "delete": lambda lab, row: delete_run(lab.runs, lab.claims, lab.root, row.id),
}
