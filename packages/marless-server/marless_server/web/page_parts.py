"""Parts of pages: tables, figures and curves, made by the server and readable without a script."""

from collections.abc import Mapping, Sequence

from marless.coordinator.core.state import RoundLine
from marless.page.chart import ChartLine, Size, figure
from marless.page.markup import Html, element, html, join, table
from marless.reports.digits import figure as number
from marless.reports.text import counted, money, seconds
from marless_server.store.owners import Owner
from marless_server.store.runs import Deed, Usage
from marless_server.web.answers import DetailedRun, OwnerUse, Pool, QueuePlace, Run

NONE = "-"
_COLOURS = 8


def pool_figures(pool: Pool) -> Html:
    """Return the numbers of the pool."""
    trains = sum(owner.trains for owner in pool.owners)
    items = [
        ("slots that serve tasks", f"{len(pool.busy)} of {pool.slots}"),
        ("runs that train", f"{trains} of at most {pool.places}"),
        ("runs that wait", len(pool.queue)),
    ]
    cells = (element("div", element("dt", name), element("dd", value)) for name, value in items)
    ends = element("p", "The server ends after the tasks in flight. Runs continue after its next start.")
    return join([element("dl", *cells, class_="figures"), ends if pool.ends else ""])


def queue_table(queue: Sequence[QueuePlace]) -> Html:
    """Return the runs that wait, with reasons."""
    if not queue:
        return element("p", "No run waits.", class_="note")
    rows = [
        (turn.place, turn.owner, run_link(turn.run), element("div", turn.waits_for, class_="text")) for turn in queue
    ]
    return table(("place", "owner", "run", "waits for"), rows, numbers=(0,))


def slot_table(pool: Pool) -> Html:
    """Return the slots that serve tasks."""
    if not pool.busy:
        return element("p", f"All {counted(pool.slots, 'slot')} are free.", class_="note")
    rows = [(slot.owner, run_link(slot.run), slot.work or NONE, seconds(slot.seconds)) for slot in pool.busy]
    return table(("owner", "run", "work", "for"), rows, numbers=(3,))


def owner_table(owners: Sequence[OwnerUse]) -> Html:
    """Return the owners with their weights and their use of today."""
    header = ("owner", "weight", "train", "wait", "slot-seconds today", "share of today", "dollars today")
    total = sum(row.slot_seconds_today for row in owners) or 1.0
    rows = [
        (
            row.owner, f"{row.weight:g}", row.trains, row.waits, f"{row.slot_seconds_today:,.0f}",
            meter(row.slot_seconds_today / total, f"{row.slot_seconds_today / total:.0%}"), money(row.dollars_today),
        )
        for row in owners
    ]  # fmt: skip
    return table(header, rows, numbers=(1, 2, 3, 4, 6))


def run_table(runs: Sequence[Run]) -> Html:
    """Return runs with boxes that choose runs to compare."""
    header = ("", "run", "status", "round", "return", "bill", "task", "algorithm", "seed", "setting", "submitted")
    rows = [
        (
            Html(f'<input type="checkbox" name="run" value="{html(run.id)}" aria-label="compare {html(run.id)}">'),
            run_link(run.id), run.status, run.round, score(run), money(run.dollars), run.task, run.algorithm, run.seed,
            run.setting or NONE, time(run.created_at),
        )
        for run in runs
    ]  # fmt: skip
    return table(header, rows, numbers=(3, 4, 5, 8))


def deed_table(deeds: Sequence[Deed]) -> Html:
    """Return lines of the audit."""
    if not deeds:
        return element("p", "None yet.", class_="note")
    rows = [(time(deed.time), deed.owner, deed.token or NONE, deed.action, deed.subject) for deed in deeds]
    return table(("time", "owner", "token", "action", "subject"), rows)


def quota_rows(owner: Owner, usage: Usage) -> list[tuple[object, object]]:
    """Return an owner's use of today and its limits."""
    return [
        ("runs that train at once", "no limit" if owner.at_once is None else f"at most {owner.at_once}"),
        ("slot-seconds today", _use(usage.slot_seconds, owner.slot_seconds, f"{usage.slot_seconds:,.0f}")),
        ("dollars today", _use(usage.dollars, owner.dollars, money(usage.dollars))),
        ("GB of runs", _use(usage.bytes / 1e9, owner.disk_gb, f"{usage.bytes / 1e9:,.3f}")),
        ("old runs", _retention(owner.keep_days)),
    ]


def facts(run: DetailedRun) -> list[tuple[object, object]]:
    """Return names and values of a run's state, without empty values."""
    pairs = {
        "status": "running, stops after the tasks in flight" if run.stops else run.status,
        "place in the queue": run.place,
        "waits for": run.waits_for,
        "reason": f"it reached stop.{run.reason}" if run.status == "finished" else run.reason,
        "study": " ".join(filter(None, (run.study, run.setting))),
        "rounds": run.round,
        "mean return": score(run),
        "bill": money(run.dollars),
        "training": seconds(run.seconds),
        "time on slots": seconds(run.served_s),
        "submitted, began, ended": ", ".join(map(time, (run.created_at, run.began_at, run.ended_at))),
        "new limits": ", ".join(run.limits),
    }
    return [(name, value) for name, value in pairs.items() if value not in (None, "")]


def curve(lines: Sequence[RoundLine]) -> Html:
    """Return the mean returns of a run: of evaluations, and of the episodes that it learned from."""
    sampled = [(line.env_steps, line.return_mean) for line in lines if line.return_mean is not None]
    steps, means = [place for place, _ in sampled], [mean for _, mean in sampled]
    drawn = [ChartLine("episodes to learn from", steps, means, faint=True), _evaluations("evaluations", lines, 0)]
    return element("div", figure("mean return", "", drawn, "steps", Size()), class_="grid")


def curves(lines_by_name: Mapping[str, Sequence[RoundLine]]) -> Html:
    """Return the mean returns of the evaluations of runs, by their names."""
    drawn = [_evaluations(name, lines, place % _COLOURS) for place, (name, lines) in enumerate(lines_by_name.items())]
    return element("div", figure("mean return of evaluations", "", drawn, "steps", Size()), class_="grid")


def _evaluations(name: str, lines: Sequence[RoundLine], colour: int) -> ChartLine:
    evaluated = [line.evaluation for line in lines if line.evaluation is not None and line.evaluation.returns]
    steps, means = [result.env_steps for result in evaluated], [result.mean for result in evaluated]
    return ChartLine(name, steps, means, dots=True, colour=colour)


def meter(part: float, text: str) -> Html:
    """Return a bar for a part of a whole, from 0 to 1, with its text."""
    return join([Html(f'<meter value="{min(1.0, max(0.0, part)):.3f}">{html(text)}</meter> '), text])


def time(text: str) -> str:
    """Return a time to the minute, or a sign for never."""
    return text[:16].replace("T", " ") if text else NONE


def score(run: Run) -> str:
    """Return the last mean return as text."""
    return NONE if run.score is None else number(run.score)


def run_link(run: str | None) -> Html:
    """Return a link to a run. There is none to runs of others."""
    return html(NONE) if run is None else element("a", run, href=f"/runs/{run}")


def _retention(days: float | None) -> str:
    return "stay" if days is None else f"are deleted after {days:g} days, unless you keep them"


def _use(used: float, limit: float | None, text: str) -> Html:
    return html(f"{text}, no limit") if limit is None else meter(used / limit, f"{text} of {limit:g}")
