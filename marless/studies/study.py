"""A study: its settings, their runs and results. The same command continues it from its folder."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from marless.coordinator.config.loading import convert
from marless.coordinator.config.nested_tables import flatten, merge, nest
from marless.coordinator.config.renamed_keys import with_new_names
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.governor.shared_budget import Purse
from marless.functions.encoding import to_json_file
from marless.loggers import registry as loggers
from marless.reports.journal import read
from marless.reports.text import counted
from marless.runs import summary
from marless.runs.folder import METRICS, RunFolder
from marless.studies import decisions, searches
from marless.studies.campaign import Campaign
from marless.studies.decisions import Asked, Halved
from marless.studies.halving import decide
from marless.studies.registration import refuse_hold_outs
from marless.studies.searches import Searcher, Values
from marless.studies.study_file import Owner, StudyFile
from marless.studies.study_run import OVER, StudyRun

FILE = "study.json"
# More would take minutes to begin and gigabytes to keep.
MOST_RUNS = 10_000


@dataclass
class _Candidate:
    runs: list[StudyRun]
    passed: int = 0
    reported: bool = False


@dataclass
class Study(Campaign):
    """A campaign: a search picks its settings, and successive halving compares them on the way.

    Raises `ConfigError` for an impossible setting, and `UserError` for a missing logger.
    """

    folder: Path
    file: StudyFile
    seeds: Sequence[int]
    decided: list[Asked | Halved] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._candidates: dict[str, _Candidate] = {}
        self._asked: list[str] = []
        self._exhausted = False
        self._refuse_too_many()
        self.registration = self.file.registration
        self._search = self._searcher()
        earlier, self.decided = self.decided, []
        for decision in earlier:
            if isinstance(decision, Asked):
                self._search.repeat(decision.values)
                self._add(self._search.ask() or {})
            else:
                self._apply(decision)

    @property
    def runs(self) -> Iterator[StudyRun]:
        """The runs of all settings that were asked for."""
        for candidate in self._candidates.values():
            yield from candidate.runs

    def owner(self, name: str) -> Owner:
        """Weight and cap of an owner."""
        return self.file.owners.get(name, Owner())

    @property
    def may_learn(self) -> bool:
        """Return True if results may lead the search to further settings."""
        return self._search.learns and not self._exhausted

    def known_configs(self) -> Iterator[RunConfig]:
        """Yield the runs' configurations, and one of each later setting of a search that does not learn."""
        yield from [run.config for run in self.runs]
        if self._exhausted or self._search.learns:
            return
        for values in islice(iter(self._searcher().ask, None), len(self._asked), None):
            yield self._run(self._name(values), values, self.seeds[0], "").config

    def ask(self) -> list[StudyRun]:
        """The runs of the search's next setting, or [] if all were asked for or enough are running."""
        limit = self.file.search.parallel
        if self._exhausted or (limit is not None and self._at_work() >= limit):
            return []
        if (values := self._search.ask()) is None:
            self._exhausted = True
            return []
        return self._add(values)

    def pause_at(self, run: StudyRun) -> int | None:
        """Return the round of the run's next decision, or None if it continues to its end."""
        rungs = self.file.halving.rungs if self.file.halving else []
        rungs_passed = self._candidates[run.setting].passed
        return rungs[rungs_passed] if rungs_passed < len(rungs) else None

    def halve(self) -> list[Halved]:
        """Compares the settings with waiting runs, and applies and returns the decisions."""
        halving, applied_decisions = self.file.halving, list[Halved]()
        for index, rung in enumerate(halving.rungs) if halving else ():
            waiting = {
                name: {run.seed: run.score for run in one.runs if run.score is not None}
                for name, one in self._candidates.items()
                if one.passed == index and _all_wait(one)
            }
            if not waiting:
                continue
            old_scores = self._scores_before(rung)
            assert halving is not None
            go_on, stop = decide(waiting | old_scores, halving.keep, self._coming(index), frozenset(old_scores))
            if go_on or stop:
                scores = {name: waiting[name] for name in (*go_on, *stop)}
                applied_decisions.append(Halved(rung=rung, promoted=go_on, stopped=stop, scores=scores))
                self._apply(applied_decisions[-1])
        return applied_decisions

    def run_ended(self, run: StudyRun) -> None:
        """Lets the search learn from the settings that are over."""
        for number, name in enumerate(self._asked):
            candidate = self._candidates[name]
            scores = [run.score for run in candidate.runs if run.score is not None]
            if not candidate.reported and scores and all(run.status in OVER for run in candidate.runs):
                candidate.reported = True
                self._search.tell(number, sum(scores) / len(scores))

    def begin(self) -> None:
        """Asks for all settings that may run at once, and reads their runs' progress before an interruption."""
        while self.ask():
            pass
        for run in self.runs:
            folder = RunFolder(self.folder / "runs" / run.name)
            if lines := read(folder.path / METRICS):
                run.round, run.dollars, run.seconds = lines[-1].round, lines[-1].dollars, lines[-1].seconds
                run.score = next((line.evaluation.mean for line in reversed(lines) if line.evaluation), None)
            if earlier_summary := summary.earlier(folder):
                run.registration = earlier_summary.registration
            if earlier_summary and earlier_summary.status == "finished" and run.status != "stopped":
                run.status, run.dollars = "finished", earlier_summary.dollars.total
                run.score = earlier_summary.final_return.mean if earlier_summary.final_return else run.score
            elif run.status == "new" and (rung := self.pause_at(run)) is not None and run.round >= rung:
                run.status = "paused"

    def purses(self) -> tuple[Purse, dict[str, Purse]]:
        """The caps in dollars of all runs and of each owner's, with nothing spent yet."""
        owners = {name: Purse(owner.dollars, 0) for name, owner in self.file.owners.items()}
        return Purse(self.file.dollars, 0), owners

    def save(self) -> None:
        """Writes the study's file and its decisions. Raises `StorageFault`."""
        RunFolder(self.folder).write(FILE, to_json_file(self.file), durable=True)
        decisions.write(self.folder, self.decided)

    def _add(self, values: Values) -> list[StudyRun]:
        listed_setting = self.file.setting[len(self._asked)] if self.file.setting else None
        name = listed_setting.name if listed_setting else self._name(values)
        owner = (listed_setting.owner if listed_setting else None) or self.file.owner
        runs = [self._run(name, values, seed, owner) for seed in self.seeds]
        self._candidates[name] = _Candidate(runs)
        self._asked.append(name)
        self.decided.append(Asked(name=name, values=values))
        return runs

    def _scores_before(self, rung: int) -> dict[str, dict[int, float]]:
        halvings = [one for one in self.decided if isinstance(one, Halved) and one.rung == rung]
        return {name: scores for halving in halvings for name, scores in halving.scores.items()}

    def _coming(self, index: int) -> int:
        asked_settings = sum(
            one.passed < index or (one.passed == index and not _all_wait(one))
            for one in self._candidates.values()
            if not any(run.status in OVER for run in one.runs)
        )
        return asked_settings + (not self._exhausted)

    def _apply(self, decision: Halved) -> None:
        self.decided.append(decision)
        for name in decision.promoted:
            self._candidates[name].passed += 1
        for run in self.runs:
            if run.setting in decision.stopped:
                run.status = "stopped"
            elif run.setting in decision.promoted and run.status == "paused":
                run.status = "new"

    def _at_work(self) -> int:
        return sum(any(run.status not in OVER for run in one.runs) for one in self._candidates.values())

    def _refuse_too_many(self) -> None:
        """Counts the runs before any is made up: a grid grows with the product of its lists."""
        settings = len(self.file.setting) or searches.count(searches.space(self.file.vary), self.file.search)
        if (runs := settings * len(self.seeds)) > MOST_RUNS:
            each = f"{counted(settings, 'setting')} with {counted(len(self.seeds), 'seed')} each"
            raise ConfigError(
                f"{each}: {runs:,} runs, and a study has at most {MOST_RUNS:,}; list fewer values, or set"
                " search.rule=random with search.settings"
            )

    def _searcher(self) -> Searcher:
        if self.file.setting:
            return searches.Listed(flatten(setting.values) for setting in self.file.setting)
        return searches.searcher(searches.space(self.file.vary), self.file.search)

    def _run(self, name: str, values: Values, seed: int, owner: str) -> StudyRun:
        document = merge(with_new_names(self.file.base), with_new_names(nest(values)))
        where = f"the setting {name}"
        config = convert({**document, "seed": seed}, where)
        refuse_hold_outs(self.file.hold_outs, [config.task.name], self.seeds, where)
        loggers.require(config.log.to)
        if config.stop.seconds is not None:
            raise ConfigError(f"{where}: stop.seconds would count waiting for other runs; use stop.rounds")
        if self.file.halving:
            _require_evaluated(config, self.file.halving.rungs[0])
        return StudyRun(f"{name}-s{seed}", name, seed, owner, config, registration=self.registration)

    def _name(self, values: Values) -> str:
        """A name such as ``lr-0.001_clip_coef-0.2``."""
        last = [key.rpartition(".")[2] for key in values]
        keys = last if len(set(last)) == len(last) else list(values)
        parts = (f"{key}-{_slug(value)}" for key, value in zip(keys, values.values(), strict=True))
        name = "_".join(parts)[:60].strip("-._") or "base"
        return name if name not in self._candidates else f"{name}_{len(self._candidates)}"


def _require_evaluated(config: RunConfig, rung: int) -> None:
    """Raises `ConfigError` if every evaluation up to this round is of untrained policies: chance would choose."""
    if config.evaluation.every_steps is not None:
        raise ConfigError(
            "halving.rungs: halving compares after rounds, so set evaluation.every in place of every_steps"
        )
    every, lag = config.evaluation.every, config.pipeline.lag
    # The policies of a round are evaluated while the next is sampled. With a lag the first rounds learn nothing.
    first = every * -(-(lag + 1) // every) + 1
    if rung < first:
        run, why = ("run that has learned", " and pipeline.lag") if lag else ("run", "")
        raise ConfigError(
            f"halving.rungs: no {run} is evaluated before round {first} (evaluation.every{why}); compare later, or"
            " evaluate more often"
        )


def _all_wait(candidate: _Candidate) -> bool:
    return all(run.status == "paused" for run in candidate.runs)


def _slug(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text.rpartition("/")[2]).replace("+", "").strip("_")
