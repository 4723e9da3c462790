"""Views of an ablation: lines of text with its tables, or JSON lines."""

from typing import Any

from marless.ablation.ablate import AblationResult, AblationView
from marless.ablation.ablation_campaign import Ablation, CellEnd
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.extras import install
from marless.output import note, say, say_json, say_text
from marless.reports.digits import figure
from marless.reports.text import money, seconds
from marless.runs.session import Stopping
from marless.studies.campaign import Campaign
from marless.studies.study_run import StudyRun
from marless.views.study_views import unlogged_line


class AblationLines(AblationView):
    """A line for every run that ends, then the tables."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping, self._stops, self._width = stopping, False, 0

    def announce(self, ablation: Ablation, missing: int) -> None:
        self._width = max(len(arm.name) for arm in ablation.arms)
        self.count(ablation, missing)
        has_scaling = any(SCALING_RULES[str(arm.settings["scaling.rule"])].adapts for arm in ablation.arms)
        if has_scaling and ablation.base.scaling.rollouts == 1:
            text = "scaling.rollouts = 1: the scaling rules have nothing to choose from; set a maximum, such as"
            note(f"{text} scaling.rollouts=8")

    def count(self, ablation: Ablation, missing: int) -> None:
        """Says how many runs there are."""
        arms, seeds = len(ablation.arms), len(ablation.seeds)
        total = arms * seeds
        say(f"arms: {arms}, seeds: {seeds}, runs: {total}, of them finished: {total - missing}")

    def cell_ended(self, end: CellEnd) -> None:
        """Prints its return and its dollars, or why it failed."""
        if end.status == "interrupted":
            return
        width = len(str(end.total))
        start = f"{end.done:>{width}}/{end.total}  {end.cell.arm.name:<{self._width}}  seed {end.cell.seed:<4}"
        if end.result is None:
            say(f"{start}FAILED: {end.reason}")
            return
        result = end.result
        say(f"{start}return {figure(result.final_return):>8}   {money(result.dollars):>9}   {seconds(result.seconds)}")

    def show_log_failure(self, run: StudyRun, logger: str, problem: str) -> None:
        note(unlogged_line(run, logger, problem))

    def tell(self, text: str) -> None:
        note(text)

    def look(self, campaign: Campaign) -> None:
        """Announces the stop once when a signal has arrived."""
        if self._stopping.received and not self._stops:
            self._stops = True
            note("stopping the runs after their tasks in flight; press again to stop at once")

    def show_comparison(self, result: AblationResult) -> None:
        if not result.has_pictures:
            note(f"no pictures without matplotlib: {install('report')}")
        self.show(result)

    def show(self, result: AblationResult) -> None:
        """Prints the comparison."""
        for section in result.sections:
            say_text(f"\n{section.text}")
        say("", f"read {result.folder / 'table.md'}; the pictures are beside it", str(result.folder))


class AblationEvents(AblationLines):
    """One JSON object a line."""

    def count(self, ablation: Ablation, missing: int) -> None:
        """Every run has the counts."""

    def cell_ended(self, end: CellEnd) -> None:
        """Prints the event `run`."""
        event: dict[str, Any] = {
            "event": "run",
            "arm": end.cell.arm.name,
            "seed": end.cell.seed,
            "status": end.status,
        }
        if end.result is None:
            event["reason"] = end.reason
        else:
            event |= {name: getattr(end.result, name) for name in ("final_return", "dollars", "seconds")}
        say_json({**event, "done": end.done, "total": end.total})

    def show(self, result: AblationResult) -> None:
        say_json({"event": "finished", "folder": str(result.folder), "table": result.comparison})
