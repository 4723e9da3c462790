"""README's chart of returns. Its cells are cells of `benchmarks.conformance`, trained again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.conformance import outcomes, report
from benchmarks.conformance.campaign import Folders, ProtocolCampaign
from benchmarks.conformance.cases import Protocol
from benchmarks.conformance.outcomes import Outcome
from benchmarks.conformance.record import Record
from benchmarks.reproduce.numbers import Cell, OnValues, Published
from marless.functions.algorithms.registry import ALGORITHMS
from marless.signals import Signals
from scripts.reference.returns import RESULTS, TASK, treatments


class Returns:
    """A number for each algorithm: its mean return over five seeds. A cell is one seed."""

    is_parallel = True

    def __init__(self) -> None:
        everything = report.read(RESULTS)
        names, measured = outcomes.names_of(everything), outcomes.layout(everything)[TASK]
        by_key = {
            names[outcome.case.arm.name]: outcome
            for outcome in everything
            if outcome.case.task == TASK and outcome.protocol == "full" and outcome.returns
        }
        found = {spec.name: [key for _, key in treatments(spec.name, measured)] for spec in ALGORITHMS.ours()}
        best = {name: max(keys, key=lambda key: measured[key]["mean"]) for name, keys in found.items() if keys}
        self._outcomes: Mapping[str, Outcome] = {f"returns/{name}": by_key[key] for name, key in best.items()}

    def published(self) -> Mapping[str, Published]:
        """See `Table`."""
        return {
            name: Published(outcome.mean, *(outcome.ci95 or (outcome.mean, outcome.mean)), len(outcome.returns))
            for name, outcome in self._outcomes.items()
        }

    def cells(self) -> Sequence[Cell]:
        """See `Table`."""
        cells = [
            Cell(f"{name}/{record.seed}", record.seconds, (name,))
            for name, outcome in self._outcomes.items()
            for record in outcome.finished
        ]
        return sorted(cells, key=lambda cell: cell.seconds)

    def measure(self, cells: Sequence[Cell], folder: Path, jobs: int, signals: Signals, on_values: OnValues) -> None:
        """See `Table`."""
        by_key, blocks = {}, []
        for cell in cells:
            number, _, seed = cell.name.rpartition("/")
            case = replace(self._outcomes[number].case, seeds=(int(seed),))
            by_key[case.arm.name, int(seed)] = cell
            blocks.append((case,))

        def _on_record(record: Record) -> None:
            cell = by_key[record.key]
            if record.absolute is not None:
                on_values(cell, {cell.numbers[0]: record.absolute.mean}, record.seconds)

        folders = Folders(folder / "results", folder / "work")
        ProtocolCampaign(Protocol("full", tuple(blocks)), lambda case: True, folders, _on_record).run(jobs, signals)
