"""Views of an ablation: lines of text with its tables, or JSON lines."""

from typing import Any

from marless.ablation.ablate import AblationResult, AblationView
from marless.ablation.ablation_campaign import AblationCampaign
from marless.comparison.finished_run import FinishedRun
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.extras import install
from marless.output import note, say, say_json, say_text
from marless.reports.digits import figure
from marless.reports.text import money, seconds
from marless.signals import Signals
from marless.studies.campaign import Campaign
from marless.studies.study_run import StudyRun


class AblationLines(AblationView):
    """A line for every run that ends, then the tables."""

    def __init__(self, stopping: Signals) -> None:
        self._stopping, self._stops, self._width = stopping, False, 0

    def start(self, campaign: Campaign) -> None:
        assert isinstance(campaign, AblationCampaign)
        ablation = campaign.ablation
        self._width = max(len(arm.name) for arm in ablation.arms)
        self.count(campaign)
        has_scaling = any(SCALING_RULES[str(arm.settings["scaling.rule"])].adapts for arm in ablation.arms)
        if has_scaling and ablation.base.actors.rollouts == 1:
            text = "actors.rollouts = 1: the scaling rules have nothing to choose from; set a maximum, such as"
            note(f"{text} actors.rollouts=8")

    def count(self, campaign: AblationCampaign) -> None:
        """Says how many runs there are."""
        arms, seeds, total = len(campaign.ablation.arms), len(campaign.ablation.seeds), len(campaign.cells)
        finished = total - len(campaign.missing)
        say(f"arms: {arms}, seeds: {seeds}, runs: {total}, of them finished: {finished}")

    def show_run(self, campaign: Campaign, run: StudyRun) -> None:
        """Shows the end of a run, with its place among all runs."""
        assert isinstance(campaign, AblationCampaign)
        result, failure = campaign.results[run.setting].get(run.seed), campaign.failures.get(campaign.cell(run), "")
        self.show_end(run, result, failure, (sum(map(campaign.is_over, campaign.cells)), len(campaign.cells)))

    def show_end(self, run: StudyRun, result: FinishedRun | None, failure: str, done_of: tuple[int, int]) -> None:
        """Prints the return and the dollars of a run that ended, or why it failed."""
        if not result and not failure:
            return
        done, total = done_of
        start = f"{done:>{len(str(total))}}/{total}  {run.setting:<{self._width}}  seed {run.seed:<4}"
        if result is None:
            say(f"{start}FAILED: {failure}")
            return
        say(f"{start}return {figure(result.final_return):>8}   {money(result.dollars):>9}   {seconds(result.seconds)}")

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

    def count(self, campaign: AblationCampaign) -> None:
        """Every run has the counts."""

    def show_end(self, run: StudyRun, result: FinishedRun | None, failure: str, done_of: tuple[int, int]) -> None:
        """Prints the event `run`."""
        status = "finished" if result else "failed" if failure else "interrupted"
        event: dict[str, Any] = {"event": "run", "arm": run.setting, "seed": run.seed, "status": status}
        names = ("final_return", "dollars", "seconds")
        event |= {name: getattr(result, name) for name in names} if result else {"reason": failure}
        say_json({**event, "done": done_of[0], "total": done_of[1]})

    def show(self, result: AblationResult) -> None:
        say_json({"event": "finished", "folder": str(result.folder), "table": result.comparison})
