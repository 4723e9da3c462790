"""A plan of a run: of its placements, which all train the same weights, the cheapest within the user's limits.

Each placement is simulated so often that the worst simulation bounds the next run with 95 % confidence.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from marless.coordinator.config.defaults import cheapest_in_cloud
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.estimation.estimate import config_for_recording, estimate, record_briefly
from marless.estimation.placements import plan_placement, with_placement
from marless.estimation.recording import Progress, Recording, unseen
from marless.estimation.targets import Target
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section
from marless.reports.text import money, placement_text, seconds, work_text

# Of 20 equal runs, the last is the worst with a probability of 1 in 20, for any distribution.
SIMULATIONS = 19
# Longer runs are extrapolated from these two numbers of rounds.
_ROUNDS = 50, 100


@dataclass(frozen=True)
class PlacementOffer:
    """A placement, the settings that choose it, and the most functions at once (`slots`).

    The run takes at most so many seconds and dollars, each with 95 % confidence."""

    placement: RoundPlacement
    settings: dict[str, Any]
    slots: int
    seconds: float
    dollars: float

    @property
    def text(self) -> str:
        """Dollars and seconds in words."""
        return f"{money(self.dollars)} in {seconds(self.seconds)}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The offer's row of a table, which fits into 80 columns."""
        placed = self.placement
        way = "messages" if placed.inline_objects else "storage"
        memory = " ".join(map(str, placed.memory_mb.values()))
        return (
            seconds(self.seconds),
            money(self.dollars),
            f"{self.slots:,}",
            placed.rule,
            work_text(placed),
            way,
            memory,
        )


@dataclass(frozen=True, repr=False)
class RunPlan(ShownResult):
    """The front of time against dollars, the cheapest offer first, and the chosen offer. `limits` are the user's, in
    words."""

    offers: list[PlacementOffer]
    choice: PlacementOffer
    limits: str

    @property
    def headline(self) -> str:
        """Return the chosen offer."""
        return f"at most {self.choice.text}{self.limits}, with 95 % confidence"

    @property
    def sections(self) -> list[Section]:
        """Return the table of the front."""
        rows = (("->" if offer is self.choice else "", *offer.cells) for offer in self.offers)
        return [Section("", ("", "time", "dollars", "slots", "rule", "a function", "through", "MB"), tuple(rows))]

    @property
    def sentences(self) -> list[str]:
        """Return the limit that binds, the savings of more time and money, and the commands of the plan."""
        number, choice = self.offers.index(self.choice), self.choice
        sentences = ["no limit binds: no placement is cheaper"]
        if number:
            cheaper = self.offers[number - 1]
            more_s, less = seconds(cheaper.seconds - choice.seconds), money(choice.dollars - cheaper.dollars)
            sentences = [f"the deadline binds: {more_s} more would save {less}"]
        for faster in self.offers[number + 1 : number + 2]:
            more, less_s = money(faster.dollars - choice.dollars), seconds(choice.seconds - faster.seconds)
            sentences.append(f"{more} more would save {less_s}")
        return [*sentences, *self._commands()]

    def _commands(self) -> Iterator[str]:
        settings = self.choice.settings
        if sizes := {key.split(".")[1]: value for key, value in settings.items() if key.endswith("memory_mb")}:
            yield f"deploy with: marless cloud deploy {' '.join(f'--{name}-memory {mb}' for name, mb in sizes.items())}"
        words = (f"{key}={value if isinstance(value, str) else toml_value(value)}" for key, value in settings.items())
        yield f"train with: {' '.join(words)}"


def plan_run(
    config: RunConfig,
    target: Target,
    workers: int,
    deadline_s: float | None = None,
    dollars: float | None = None,
    progress: Progress = unseen,
) -> RunPlan:
    """Plays a few rounds here in each efficient placement, and chooses the cheapest within the limits.

    Raises `UserError` if no placement keeps them.
    """
    target = dataclasses.replace(target, resizable=True)
    return choose([*_offers(config, target, workers, progress)], deadline_s, dollars)


def choose(offers: list[PlacementOffer], deadline_s: float | None = None, dollars: float | None = None) -> RunPlan:
    """Return the cheapest offer within the limits. Raises `UserError` if no offer keeps them."""
    ordered = sorted(offers, key=lambda offer: (offer.dollars, offer.seconds))
    front = [
        one for number, one in enumerate(ordered) if all(one.seconds < other.seconds for other in ordered[:number])
    ]
    limits = f" within {seconds(deadline_s)}" if deadline_s else ""
    limits += f" for at most {money(dollars)}" if dollars else ""
    for offer in front:
        if offer.seconds <= (deadline_s or offer.seconds) and offer.dollars <= (dollars or offer.dollars):
            return RunPlan(front, offer, limits)
    choices = ", ".join(offer.text for offer in front)
    raise UserError(f"no placement trains this run{limits} with 95 % confidence; possible are {choices}")


def _offers(config: RunConfig, target: Target, workers: int, progress: Progress) -> Iterator[PlacementOffer]:
    priced_config, present = cheapest_in_cloud(config), flatten(msgspec.to_builtins(config))
    planned = plan_placement(priced_config, workers, target, progress)
    recordings: dict[str, Recording] = {}
    for forecast, slots in zip(planned.pareto_front, planned.slots, strict=True):
        placed = forecast.round_placement
        # The cloud has no rule of halves for idle slots.
        if placed.packs:
            continue
        placed_config, placed_target = with_placement(priced_config, target, placed)
        # On this machine, the memory of functions changes nothing.
        form = placement_text(replace(placed, memory_mb={}))
        if form not in recordings:
            recordings[form] = record_briefly(config_for_recording(placed_target, placed_config), workers, progress)
        progress(f"simulating {placement_text(placed)}")
        runs = [estimate(placed_config, recordings[form], placed_target, seed, _ROUNDS) for seed in range(SIMULATIONS)]
        values = flatten(msgspec.to_builtins(placed_config))
        settings = {key: value for key, value in values.items() if present.get(key) != value}
        yield PlacementOffer(
            placed, settings, slots, max(run.seconds for run in runs), max(run.dollars for run in runs)
        )
