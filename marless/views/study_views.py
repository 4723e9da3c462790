"""Views of a study: a live table, lines of text, or JSON lines."""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from marless.output import can_redraw, note, say, say_json, visible_line
from marless.program import program_name
from marless.reports.digits import figure
from marless.reports.text import money, seconds
from marless.studies.campaign import Campaign, CampaignView
from marless.studies.decisions import Halved
from marless.studies.study_run import ORDER, StudyRun, summary
from marless.views.surface import Surface, live_surface

_REDRAW_S = 0.5
# Lines of text say so often how far all runs are.
_SILENCE_S = 15.0
# Lines around the table.
_AROUND = 7
# Runs that a line names.
_NAMED = 5
_STYLES = {"running": "bold", "failed": "red", "finished": "green", "stopped": "dim", "new": "dim", "paused": "yellow"}


class LiveTable(CampaignView):
    """A table on a terminal, or below a notebook's cell: one row a run, active runs first."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._began, self._drawn = time.monotonic(), 0.0
        self._remark = ""
        self._campaign: Campaign | None = None

    def start(self, campaign: Campaign) -> None:
        self._surface.start()

    def show_run(self, campaign: Campaign, run: StudyRun) -> None:
        if run.status == "failed":
            self._remark = f"{run.name}: {run.reason}"

    def show_halving(self, decision: Halved) -> None:
        self._remark = halving_line(decision)

    def tell(self, text: str) -> None:
        """Prints above the table, where it stays."""
        self._surface.print(Text(visible_line(text), "yellow"))

    def look(self, campaign: Campaign) -> None:
        self._campaign = campaign
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._surface.draw(self._table(campaign))

    def close(self) -> None:
        if self._campaign is not None:  # the last frame shows how all runs ended
            self._surface.draw(self._table(self._campaign))
        self._surface.stop()

    def _table(self, campaign: Campaign) -> Group:
        runs = sorted(campaign.runs, key=lambda run: ORDER.index(run.status))
        title = f"{campaign.folder.name}   {summary(runs)}   {seconds(time.monotonic() - self._began)}"
        room = max(3, self._surface.height - _AROUND)
        rest = f"... and {summary(runs[room:])}" if len(runs) > room else ""
        table = Table(box=None, pad_edge=False)
        for name in ("run", "owner", ""):
            table.add_column(name, no_wrap=True)
        for name in ("round", "return", "dollars", "seconds"):
            table.add_column(name, justify="right", no_wrap=True)
        for run in runs[:room]:
            table.add_row(*map(Text, map(visible_line, _cells(run))), style=_STYLES.get(run.status, ""))
        return Group(
            Text(visible_line(title), "bold"),
            table,
            *(Text(visible_line(line), "italic") for line in (rest, self._remark) if line),
        )


def _rounds_text(campaign: Campaign) -> str:
    limits = [run.config.stop.rounds for run in campaign.runs]
    most = f" of {sum(filter(None, limits)):,}" if all(limits) else ""
    dollars = sum(run.dollars for run in campaign.runs)
    return f"{sum(run.round for run in campaign.runs):,}{most} rounds   {money(dollars)}"


def _cells(run: StudyRun) -> tuple[str, ...]:
    limit = run.config.stop.rounds
    rounds = f"{run.round}/{limit}" if limit else f"{run.round}"
    score = "" if run.score is None else figure(run.score)
    return run.name, run.owner, run.status, rounds, score, money(run.dollars), f"{run.seconds:.0f}"


class PlainLines(CampaignView):
    """A line for each run that ends, and for each comparison, and now and then one for all active runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began, self._said_at = clock, clock(), clock()

    def start(self, campaign: Campaign) -> None:
        say(f"study {campaign.folder}: {summary(list(campaign.runs))}")

    def look(self, campaign: Campaign) -> None:
        now = self._clock()
        if now - self._said_at >= _SILENCE_S:
            self._said_at = now
            note(f"{summary(campaign.runs)}   {_rounds_text(campaign)}   {seconds(now - self._began)}")

    def show_run(self, campaign: Campaign, run: StudyRun) -> None:
        if run.status == "paused":
            return
        done = sum(other.status in ("finished", "failed", "stopped") for other in campaign.runs)
        score = "" if run.score is None else f"return {figure(run.score):>8}   "
        why = f"   {run.reason}" if run.status == "failed" else ""
        say(f"{done:>4}  {run.name:<40} {run.status:<12}{score}{money(run.dollars):>9}   {seconds(run.seconds)}{why}")

    def show_halving(self, decision: Halved) -> None:
        say(halving_line(decision))

    def tell(self, text: str) -> None:
        note(text)


class JsonEvents(CampaignView):
    """One JSON object a line."""

    def start(self, campaign: Campaign) -> None:
        say_json({"event": "started", "folder": str(campaign.folder), "runs": [run.name for run in campaign.runs]})

    def show_run(self, campaign: Campaign, run: StudyRun) -> None:
        """Prints how far the run has come."""
        fields = (
            "name",
            "setting",
            "seed",
            "owner",
            "status",
            "round",
            "score",
            "dollars",
            "seconds",
            "served_s",
            "reason",
            "unlogged",
        )
        seconds_by_owner = Counter[str]()
        for other in campaign.runs:
            seconds_by_owner[other.owner] += other.served_s  # type: ignore[assignment]
        say_json({"event": "run", **{name: getattr(run, name) for name in fields}, "owners_s": dict(seconds_by_owner)})

    def show_halving(self, decision: Halved) -> None:
        say_json({"event": "halved", **msgspec.to_builtins(decision, str_keys=True)})

    def show_log_failure(self, run: StudyRun, logger: str, problem: str) -> None:
        say_json({"event": "unlogged", "logger": logger, "run": run.name, "problem": problem})

    def remark(self, run: StudyRun, text: str) -> None:
        say_json({"event": "remark", "run": run.name, "text": text})

    def tell(self, text: str) -> None:
        say_json({"event": "workers", "text": text})


def choose_study_view(json: bool) -> CampaignView:
    """JSON lines if `json` is set, a live table on a terminal and in a notebook, lines of text otherwise."""
    if json:
        return JsonEvents()
    return LiveTable(live_surface()) if can_redraw() else PlainLines()


def halving_line(decision: Halved) -> str:
    """Return a line about the decisions of a comparison."""
    parts = [("go on", decision.promoted), ("stopped", decision.stopped)]
    return f"after round {decision.rung}: " + "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def unlogged_runs(folder: Path, runs: Sequence[StudyRun]) -> Iterator[str]:
    """Yield for each failed logger its incomplete runs, and the command that logs them again."""
    for logger in dict.fromkeys(name for run in runs for name in run.unlogged):
        names = [run.name for run in runs if logger in run.unlogged]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        again = f"{program_name()} log {shlex.quote(str(folder / 'runs' / names[0]))} --to {logger}"
        yield f"not logged to the end in {logger}: {', '.join(names[:_NAMED])}{more}; for each of them: {again}"
