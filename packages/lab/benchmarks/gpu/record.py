"""The record of a measurement of learners on a GPU. This benchmark and its page print one table from it."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.table import verdict
from marless.reports.text import markdown_table

FILE = Path(__file__).resolve().parents[4] / "docs" / "results" / "gpu.json"
NUMPY, TORCH, CORES, GPU = "numpy", "torch", "torch, all cores", "torch, GPU"
LARGEST = (64_000, 1024)
"""Rows and width at which the GPU has to be `LEAST` times as fast as numpy on one core."""
LEAST = 5.0


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A learner of `rows` rows and two hidden layers of `width` units: its seconds by way, one of each repetition.

    `apart` is the largest difference between a weight that the GPU and one that numpy has learned.
    """

    rows: int
    width: int
    seconds: dict[str, list[float]]
    apart: float

    def ratios(self, way: str, base: str = NUMPY) -> list[float]:
        """Return the speed as a multiple of the base's speed, repetition by repetition."""
        return [other / own for own, other in zip(self.seconds[way], self.seconds[base], strict=True)]

    def ratio(self, way: str, base: str = NUMPY) -> float:
        """Their median."""
        return statistics.median(self.ratios(way, base))

    def cells(self) -> tuple[str, ...]:
        """The row of the table, in the order of `header`."""
        gpu = self.ratios(GPU)
        return (
            f"{self.rows:,}",
            f"{self.width}",
            f"{1000 * statistics.median(self.seconds[NUMPY]):,.1f}",
            f"{1000 * statistics.median(self.seconds[GPU]):,.1f}",
            f"{self.ratio(TORCH):.2f}",
            f"{self.ratio(CORES):.2f}",
            f"{self.ratio(GPU):.2f} ({min(gpu):.2f} to {max(gpu):.2f})",
            f"{self.apart:.0e}",
        )


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of a measurement, with its machine and its program. `kernel` computes numpy's matrix products."""

    commit: str | None
    date: str
    gpu: str
    torch: str
    numpy: str
    cores: int
    processor: str
    kernel: str
    seconds: float
    cells: list[Cell]

    def conditions(self) -> str:
        """Return place and time, in sentences."""
        return (
            f"Measured on {self.date}: {self.gpu}, torch {self.torch}; {self.cores} cores of {self.processor}, numpy"
            f" {self.numpy} with matrix products for {self.kernel}; in {self.seconds:.0f} s, commit"
            f" {(self.commit or 'unknown')[:8]}."
        )


def header(cores: int) -> tuple[str, ...]:
    """The heads of the columns."""
    return (
        "rows",
        "width",
        "numpy, one core, ms",
        "GPU, ms",
        "torch, one core",
        f"torch, {cores} cores",
        "GPU",
        "weights apart",
    )


def table(record: Record) -> str:
    """The cells as markdown."""
    return markdown_table(header(record.cores), [cell.cells() for cell in record.cells])


def findings(cells: Sequence[Cell]) -> list[str]:
    """Return sentences: the required speed, and the rows from which on the GPU is faster, by width."""
    largest = [cell for cell in cells if (cell.rows, cell.width) == LARGEST]
    found = [
        f"Asked for at {cell.rows:,} rows and {cell.width} x {cell.width}: at least {LEAST:g} times a core;"
        f" {cell.ratio(GPU):.1f} times, {verdict(cell.ratios(GPU), LEAST)}."
        f" This is {cell.ratio(GPU, CORES):.1f} times torch on all cores."
        for cell in largest
    ]
    for width in sorted({cell.width for cell in cells}):
        of_width = sorted((cell for cell in cells if cell.width == width), key=lambda cell: cell.rows)
        found.append(
            f"{width} wide: the GPU beats numpy on one core {_from(of_width, NUMPY)}, torch on all cores"
            f" {_from(of_width, CORES)}."
        )
    return found


def _from(cells: Sequence[Cell], base: str) -> str:
    """From how many rows on the GPU is faster than the base."""
    wins = [cell.ratio(GPU, base) > 1 for cell in cells]
    first = next((index for index in range(len(wins)) if all(wins[index:])), None)
    if first is None:
        return f"nowhere ({cells[-1].ratio(GPU, base):.2f} times as fast at {cells[-1].rows:,} rows)"
    return f"from {cells[first].rows:,} rows on" if first else "from the fewest rows on"


def write(record: Record) -> None:
    """Stores the record."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def stored() -> Record | None:
    """The record that was stored last. None before the first."""
    return msgspec.json.decode(FILE.read_bytes(), type=Record) if FILE.is_file() else None
