"""The pages for a browser: pool, runs, a run, a comparison, a check of a configuration, the owner."""

import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.core.state import RoundLine
from marless.coordinator.errors import UserError, one_line
from marless.functions.encoding import Undecodable
from marless.page.markup import Html, element, pairs, table
from marless.reports import journal
from marless.reports.text import money, seconds
from marless.runs.folder import METRICS
from marless_server import admission
from marless_server.store.runs import STATUSES, RunRow, Usage
from marless_server.web import page_parts as parts
from marless_server.web import resources
from marless_server.web.answers import Price
from marless_server.web.api import caller, whole_number
from marless_server.web.changes import FORM_KEY
from marless_server.web.guard import Caller
from marless_server.web.layout import form, hidden, live, page, refusal
from marless_server.web.resources import Lab

_MOST_RUNS, _MOST_COMPARED, _MOST_REMARKS, _MOST_DEEDS = 100, 8, 50, 30
_UNFINISHED = ("queued", "running")
_EXAMPLE = 'task = "mpe/simple_spread"\nrounds = 50\n'


class Pages:
    """The pages of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        return [
            Route("/", self._pool),
            Route("/runs", self._runs),
            Route("/runs/{run}", self._run),
            Route("/compare", self._compare),
            Route("/submit", self._submit),
            Route("/me", self._me),
        ]

    def _pool(self, request: Request) -> Response:
        pool = resources.pool_of(self._lab, caller(request).owner)
        content = [
            live("figures", parts.pool_figures(pool)),
            element("h2", "Queue"),
            live("queue", parts.queue_table(pool.queue)),
            element("h2", "Slots"),
            live("slots", parts.slot_table(pool)),
            element("h2", "Owners"),
            live("owners", parts.owner_table(pool.owners)),
        ]
        return page(caller(request), "Pool", content, "/", follows=True)

    def _runs(self, request: Request) -> Response:
        owner, before = caller(request).owner.name, whole_number(request, "before", 0)
        rows = self._lab.runs.listing(owner, STATUSES, before or None, _MOST_RUNS)
        turns = self._lab.queue.turns()
        if not rows:
            text = "You have no runs. Submit one with: marless server submit FILE.toml"
            return page(
                caller(request),
                "Runs",
                [element("p", "There are no earlier runs." if before else text, class_="note")],
                "/runs",
            )
        older = f"/runs?before={rows[-1].number}" if len(rows) == _MOST_RUNS else ""
        links = [
            element("a", "Newest", href="/runs") if before else "",
            element("a", "Older", href=older) if older else "",
        ]
        form = element(
            "form",
            element("button", "Compare the chosen runs"),
            parts.run_table([resources.run_of(row, turns) for row in rows]),
            action="/compare",
        )
        return page(caller(request), "Runs", [form, element("p", *links, class_="pages")], "/runs")

    def _run(self, request: Request) -> Response:
        row = self._lab.runs.find(caller(request).owner.name, request.path_params["run"])
        if row is None:
            return page(caller(request), "No such run", [], "/runs", 404)
        remarks = self._lab.runs.remarks(row.id)[-_MOST_REMARKS:]
        verbs = (form(caller(request), f"/runs/{row.id}/{verb}", text) for verb, text in _verbs(row))
        content = [
            element("p", f"{row.task}, {row.algorithm}, seed {row.seed}", class_="lead"),
            live("state", pairs(parts.facts(resources.details_of(row, self._lab.queue.turns())))),
            live("verbs", element("div", *verbs, class_="verbs")),
            live("curve", parts.curve(self._lines(row))),
            element("h2", "Log"),
            live("log", element("pre", "\n".join(f"{remark.time} {remark.text}" for remark in remarks))),
            element("h2", "Configuration"),
            element("pre", row.config.strip()),
        ]
        return page(caller(request), row.id, content, "/runs", follows=row.status in _UNFINISHED)

    def _compare(self, request: Request) -> Response:
        names, owner = request.query_params.getlist("run")[:_MOST_COMPARED], caller(request).owner.name
        rows = [row for name in dict.fromkeys(names) if (row := self._lab.runs.find(owner, name))]
        if not rows:
            return page(
                caller(request), "Compare", [element("p", f"Choose up to {_MOST_COMPARED} of your runs.")], "/runs"
            )
        runs = [resources.details_of(row, ()) for row in rows]
        settings = {run.id: {key: str(value) for key, value in flatten(run.config).items()} for run in runs}
        keys = dict.fromkeys(key for values in settings.values() for key in values)
        differing = [key for key in keys if len({values.get(key, parts.NONE) for values in settings.values()}) > 1]
        figures: dict[str, list[object]] = {
            "status": [run.status for run in runs],
            "round": [run.round for run in runs],
            "mean return": [parts.score(run) for run in runs],
            "bill": [money(run.dollars) for run in runs],
            "training": [seconds(run.seconds) for run in runs],
        }
        header = ("", *(parts.run_link(run.id) for run in runs))
        content = [
            parts.curves({row.id: self._lines(row) for row in rows}),
            table(header, [(name, *values) for name, values in figures.items()]),
            element("h2", "Settings that differ"),
            table(header, [(key, *(settings[run.id].get(key, parts.NONE) for run in runs)) for key in differing]),
        ]
        return page(caller(request), "Compare", content, "/runs")

    def _submit(self, request: Request) -> Response:
        text = request.query_params.get("config", "")
        check = element(
            "form",
            element("label", "Configuration (TOML)", for_="config"),
            element("textarea", text or _EXAMPLE, id="config", name="config", spellcheck="false"),
            element("button", "Check, and forecast"),
            action="/submit",
        )
        content = [*(self._checked(caller(request), text) if text else ()), check]
        return page(caller(request), "Submit", content, "/submit")

    def _checked(self, sender: Caller, text: str) -> list[Html]:
        """Return the forecast with a form that submits, or the line about the error."""
        try:
            document = admission.document_of(text.encode(), True)
            config = admission.checked_config(document, sender.owner.code, self._lab.board.gpus)
        except (Undecodable, ConfigError, UserError, admission.Forbidden) as error:
            return [refusal(one_line(error))]
        run = resources.new_run(config, sender.owner, None, text.encode())
        price = resources.forecast(self._lab, [run], config.stop.dollars)
        fields = [hidden("config", text), hidden(FORM_KEY, secrets.token_hex(16))]
        return [
            pairs([("task", config.task.name), ("algorithm", config.algorithm.name), *_forecast(price)]),
            form(sender, "/submit", "Put it into the queue", *fields),
        ]

    def _me(self, request: Request) -> Response:
        owner = caller(request).owner
        usage = self._lab.runs.used_today().get(owner.name, Usage(owner=owner.name))
        tokens = [
            (token.id, parts.time(token.created_at), token.revoked or "valid")
            for token in self._lab.owners.tokens(owner.name)
        ]
        rights = "may name code" if owner.code else "installed tasks and algorithms only"
        content = [
            element("p", f"{owner.name}, weight {owner.weight:g}, {rights}", class_="lead"),
            pairs(parts.quota_rows(owner, usage)),
            element("h2", "Tokens"),
            table(("token", "made", "state"), tokens),
            element("h2", "Requests that changed something"),
            parts.deed_table(self._lab.runs.deeds(owner.name, _MOST_DEEDS)),
        ]
        return page(caller(request), "Me", content, "/me")

    def _lines(self, row: RunRow) -> list[RoundLine]:
        return [*journal.read(self._lab.folder(row).path / METRICS)]


def _verbs(row: RunRow) -> list[tuple[str, str]]:
    """Return the verbs that a run's state allows, with the texts of their buttons."""
    stays = ("release", "Do not keep it") if row.keep else ("keep", "Keep it")
    if row.status in _UNFINISHED:
        return [("stop", "Stop"), stays]
    verbs = [("resume", "Resume"), stays, ("delete", "Delete")]
    return verbs[1:] if row.status == "finished" else verbs


def _forecast(price: Price) -> list[tuple[object, object]]:
    unknown = "not known"
    return [
        ("price", unknown if price.dollars is None else f"about {money(price.dollars)} on AWS Lambda"),
        ("begins in", unknown if price.begins_in_s is None else seconds(price.begins_in_s)),
        ("ends in", unknown if price.ends_in_s is None else seconds(price.ends_in_s)),
        ("source", price.text),
    ]
