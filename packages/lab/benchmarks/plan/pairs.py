"""Measures the pairs of a task: the plan, and each placement in the account of the pair."""

import math
import os
from collections.abc import Callable, Mapping
from unittest.mock import patch

from benchmarks.entities.runs import conditions
from benchmarks.plan.account import HeavyTailedAccount, Tails
from benchmarks.plan.registered import File, Origin, Pair, draw
from marless.backends import registry
from marless.cli.commands.estimate import CONCURRENCY
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.estimation import run_plan
from marless.estimation.estimate import config_for_recording, estimate, record_briefly
from marless.estimation.recording import Progress, Recording, unseen
from marless.estimation.run_plan import PlacementOffer, RunPlan, choose
from marless.estimation.targets import Target
from marless.reports import provenance
from marless.reports.text import placement_text

PROGRAM = (*provenance.COMPUTING, "marless/estimation")
_SHARES = {"{all}": 1, "{quarter}": 4}
# The planner simulates with the seeds 0 to 18.
_WITHOUT_TAILS = 1000


class Placements:
    """The placements of a task, and the recordings of `record`. A recording serves all that differ in memory alone."""

    def __init__(self, words: list[str], workers: int, target: Target) -> None:
        self._words, self._workers, self._target = words, workers, target
        self._configs: dict[str, RunConfig] = {}
        self._recordings: dict[tuple[str, int], Recording] = {}

    def record(self, config: RunConfig, workers: int, progress: Progress = unseen) -> Recording:
        """Return the one recording of this form. See `record_briefly`."""
        if self._form(config) not in self._recordings:
            self._recordings[self._form(config)] = record_briefly(config, workers, progress)
        return self._recordings[self._form(config)]

    def add(self, name: str, words: list[str]) -> None:
        """Record the placement here."""
        config = self._configs[name] = load(None, [*self._words, *words])
        self.record(config_for_recording(self._target, config), self._workers)

    def ends(self, account: Target, seed: int) -> dict[str, tuple[float, float] | None]:
        """Return seconds and dollars of each placement in an account."""
        return {name: self._end(config, account, seed) for name, config in self._configs.items()}

    def _end(self, config: RunConfig, account: Target, seed: int) -> tuple[float, float] | None:
        try:
            recording = self._recordings[self._form(config_for_recording(self._target, config))]
            end = estimate(config, recording, account, seed)
        except UserError:
            return None
        return round(end.seconds, 3), float(f"{end.dollars:.6g}")

    @staticmethod
    def _form(config: RunConfig) -> tuple[str, int]:
        placement = config.placement
        is_one = PLACEMENTS[placement.rule].one_function
        # One function plays all rollouts. Others play one round. Recordings store all objects.
        return placement.rule, placement.chain if is_one else placement.pack


def measure(file: File, seed: int, task: str, say: Callable[[str], None]) -> list[Pair]:
    """Return the pairs of a task."""
    before, words = os.getloadavg()[0], [*file.settings, *file.tasks[task]]
    config, target = load(None, words), Target(registry.backend("aws"), CONCURRENCY)
    placements = Placements(words, file.workers, target)
    with patch.object(run_plan, "record_briefly", placements.record):
        plan = run_plan.plan_run(config, target, file.workers)
    say(f"{len(plan.offers)} offers, {plan.offers[0].text} to {plan.offers[-1].text}")
    for offer in plan.offers:
        placements.add(name_of(offer), words_of(offer.settings))
    for name, constant in constants_of(file, config.actors.rollouts).items():
        placements.add(name, constant)
    usual = placements.ends(target, _WITHOUT_TAILS)
    draws = [draw(file, seed, task, number) for number in range(file.deadlines)]
    origin = Origin(registration=file.registration, program=program(), **conditions(before))
    pairs = []
    for number, drawn in enumerate(draws):
        deadline_s = deadline(usual, drawn.place, file.slack)
        choice = chosen(plan, deadline_s)
        account = HeavyTailedAccount(target.backend, CONCURRENCY, tails=Tails(drawn.sigma, drawn.alpha))
        pair = Pair(
            task=task,
            number=number,
            sigma=round(drawn.sigma, 3),
            alpha=round(drawn.alpha, 3),
            deadline_s=round(deadline_s, 3),
            chosen=name_of(choice) if choice else "",
            promised=(round(choice.seconds, 3), float(f"{choice.dollars:.6g}")) if choice else None,
            settings=choice.settings if choice else {},
            runs=placements.ends(account, drawn.seed),
            constants=list(file.constants),
            origin=origin,
        )
        pairs.append(pair)
    return pairs


def program() -> str:
    """Return the hash of the planner that runs now."""
    return provenance.code_sha256(provenance.ROOT, PROGRAM)


def deadline(usual: Mapping[str, tuple[float, float] | None], place: float, slack: float) -> float:
    """Return the deadline at a place from 0, the fastest placement, to 1, the cheapest."""
    ends = [end for end in usual.values() if end]
    fastest, cheapest = min(ends)[0], min(ends, key=lambda end: (end[1], end[0]))[0]
    return slack * fastest * math.exp(place * math.log(cheapest / fastest))


def chosen(plan: RunPlan, deadline_s: float) -> PlacementOffer | None:
    """Return the plan's placement, or None if it refuses."""
    try:
        return choose(plan.offers, deadline_s).choice
    except UserError:
        return None


def name_of(offer: PlacementOffer) -> str:
    """Return the placement in words."""
    return placement_text(offer.placement)


def words_of(settings: Mapping[str, object]) -> list[str]:
    """Return the settings as a command takes them."""
    return [f"{key}={value if isinstance(value, str) else toml_value(value)}" for key, value in settings.items()]


def constants_of(file: File, rollouts: int) -> dict[str, list[str]]:
    """Return the settings of the constants for a task with so many rollouts."""
    return {name: [_share(word, rollouts) for word in words] for name, words in file.constants.items()}


def _share(word: str, rollouts: int) -> str:
    for name, divisor in _SHARES.items():
        word = word.replace(name, str(max(1, rollouts // divisor)))
    return word
