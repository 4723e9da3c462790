"""The page: the pool, its queue, an owner's runs and one run, made by the server and readable without a script."""

from collections.abc import Sequence
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from marless.coordinator.core.state import RoundLine
from marless.page.chart import ChartLine, Size, figure
from marless.page.markup import Html, element, html, join, pairs, table
from marless.reports import journal
from marless.reports.digits import figure as number
from marless.reports.text import counted, money, seconds
from marless.runs.folder import METRICS
from marless_server.store.runs import STATUSES
from marless_server.web import resources
from marless_server.web.answers import DetailedRun, OwnerUse, Pool, QueuePlace, Run
from marless_server.web.api import caller
from marless_server.web.resources import Lab

STYLE = files("marless.page").joinpath("page.css").read_text("utf-8")
_MOST_RUNS, _MOST_REMARKS = 200, 50
_NONE = "-"


class Pages:
    """The pages of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        return [Route("/", self._home), Route("/runs/{run}", self._run)]

    def _home(self, request: Request) -> Response:
        owner, lab = caller(request).owner, self._lab
        pool, turns = resources.pool_of(lab, owner), lab.queue.turns()
        rows = lab.runs.listing(owner.name, STATUSES, None, _MOST_RUNS)
        runs = [resources.run_of(row, turns) for row in rows]
        parts = [
            element("h1", "Pool and runs"),
            element("p", f"{owner.name}, weight {owner.weight:g}", class_="lead"),
            _figures(pool, runs),
            element("h2", "Queue"),
            _queue(pool.queue),
            element("h2", "Slots"),
            _slots(pool),
            element("h2", "Owners"),
            _owners(pool.owners),
            element("h2", "Your runs"),
            _runs(runs),
        ]
        return _page("Pool and runs", parts)

    def _run(self, request: Request) -> Response:
        row = self._lab.runs.find(caller(request).owner.name, request.path_params["run"])
        if row is None:
            text = join([element("h1", "No such run"), _back()])
            return _page("No such run", [text], 404)
        fields = resources.details_of(row, self._lab.queue.turns())
        lines = journal.read(self._lab.folder(row).path / METRICS)
        remarks = self._lab.runs.remarks(row.id)[-_MOST_REMARKS:]
        log = "\n".join(f"{remark.time} {remark.text}" for remark in remarks)
        parts = [
            _back(),
            element("h1", row.id),
            element("p", f"{row.task}, {row.algorithm}, seed {row.seed}", class_="lead"),
            pairs(_facts(fields)),
            _curve(lines),
            element("h2", "Log"),
            element("pre", log),
            element("h2", "Configuration"),
            element("pre", row.config.strip()),
        ]
        return _page(row.id, parts)


def _page(title: str, parts: Sequence[Html], status: int = 200) -> Response:
    head = join(
        [
            Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
            element("title", f"{title} - MARLess"),
            Html(f"<style>{STYLE}</style>"),
        ]
    )
    note = element("footer", "Times are UTC. Load the page again to see what changed.")
    body = element("main", *parts, note)
    return HTMLResponse(f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>', status)


def _figures(pool: Pool, runs: Sequence[Run]) -> Html:
    trains = sum(owner.trains for owner in pool.owners)
    items = [
        ("slots that serve tasks", f"{len(pool.busy)} of {pool.slots}"),
        ("runs that train", f"{trains} of at most {pool.places}"),
        ("runs that wait", len(pool.queue)),
        ("your runs", len(runs)),
    ]
    cells = (element("div", element("dt", name), element("dd", value)) for name, value in items)
    ends = element("p", "The server ends after the tasks in flight. Runs continue after its next start.")
    return join([element("dl", *cells, class_="figures"), ends if pool.ends else ""])


def _queue(queue: Sequence[QueuePlace]) -> Html:
    if not queue:
        return element("p", "No run waits.", class_="note")
    rows = [(turn.place, turn.owner, _link(turn.run), element("div", turn.waits_for, class_="text")) for turn in queue]
    return table(("place", "owner", "run", "waits for"), rows, numbers=(0,))


def _slots(pool: Pool) -> Html:
    if not pool.busy:
        return element("p", f"All {counted(pool.slots, 'slot')} are free.", class_="note")
    rows = [(slot.owner, _link(slot.run), slot.work or _NONE, seconds(slot.seconds)) for slot in pool.busy]
    return table(("owner", "run", "work", "for"), rows, numbers=(3,))


def _owners(owners: Sequence[OwnerUse]) -> Html:
    header = ("owner", "weight", "train", "wait", "slot-seconds today", "dollars today")
    rows = [
        (
            row.owner, f"{row.weight:g}", row.trains, row.waits, f"{row.slot_seconds_today:,.0f}",
            money(row.dollars_today),
        )
        for row in owners
    ]  # fmt: skip
    return table(header, rows, numbers=(1, 2, 3, 4, 5))


def _runs(runs: Sequence[Run]) -> Html:
    if not runs:
        return element("p", "You have no runs. Submit one with: marless server submit FILE.toml", class_="note")
    header = ("run", "status", "round", "return", "bill", "task", "algorithm", "seed", "submitted")
    rows = [
        (
            _link(run.id), run.status, run.round, _score(run), money(run.dollars), run.task,
            run.algorithm, run.seed, _time(run.created_at),
        )
        for run in runs
    ]  # fmt: skip
    return table(header, rows, numbers=(2, 3, 4, 7))


def _facts(run: DetailedRun) -> list[tuple[object, object]]:
    facts = {
        "status": "running, stops after the tasks in flight" if run.stops else run.status,
        "place in the queue": run.place,
        "waits for": run.waits_for,
        "reason": f"it reached stop.{run.reason}" if run.status == "finished" else run.reason,
        "rounds": run.round,
        "mean return": _score(run),
        "bill": money(run.dollars),
        "training": seconds(run.seconds),
        "time on slots": seconds(run.served_s),
        "submitted, began, ended": ", ".join(map(_time, (run.created_at, run.began_at, run.ended_at))),
        "new limits": ", ".join(run.limits),
    }
    return [(name, value) for name, value in facts.items() if value not in (None, "")]


def _curve(lines: Sequence[RoundLine]) -> Html:
    points = [
        (line.evaluation.env_steps, sum(line.evaluation.returns) / len(line.evaluation.returns))
        for line in lines
        if line.evaluation is not None and line.evaluation.returns
    ]
    title = "mean return of evaluations"
    line = ChartLine(title, [steps for steps, _ in points], [mean for _, mean in points], dots=True)
    return element("div", figure(title, "", [line], "steps", Size()), class_="grid")


def _time(text: str) -> str:
    return text[:16].replace("T", " ") if text else _NONE


def _score(run: Run) -> str:
    return _NONE if run.score is None else number(run.score)


def _link(run: str | None) -> Html:
    return html(_NONE) if run is None else element("a", run, href=f"/runs/{run}")


def _back() -> Html:
    return element("p", element("a", "Pool and runs", href="/"))
