"""``python -m benchmarks halving``: the savings of successive halving, and whether it keeps the winner of the full
grid.

Three learning rates of the default task with seeds 1 to 100 are trained to the end. Then every ten seeds are one study.
The decisions and costs of halving follow from the full grid, because a stopped run has the bytes and the evaluations of
the full run. The settings are compared twice, because the slowest rate is ahead at first. With seeds 201 to 216 the
best setting from round 18 on is also the best at the end. One study is trained with halving to confirm the result.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.pool.measurement import Measured, study_in
from benchmarks.table import Row
from marless.coordinator.core.state import RoundLine
from marless.reports.journal import read
from marless.runs import summary
from marless.runs.folder import METRICS, RunFolder
from marless.studies.halving import decide

RATES, ROUNDS, EVERY, RUNGS, KEEP = ("0.0001", "0.001", "0.01"), 60, 3, (7, 19), 2 / 3
_FILE = f"""
pool.workers = 2
base.stop.rounds = {ROUNDS}
base.placement.rule = "packed"
base.evaluation.every = {EVERY}
vary.algorithm.lr = [{", ".join(RATES)}]
"""


def rows(repetitions: int = 10) -> list[Row]:
    """The part of the dollars that halving spends, and how often it keeps the winner."""
    with tempfile.TemporaryDirectory(prefix="halving-") as folder:
        full = Path(folder) / "full"
        halved = Path(folder) / "halved"
        study_in(full, f'seeds = "1-{10 * repetitions}"\n{_FILE}', {})
        real = study_in(halved, f'seeds = "1-10"\nhalving.rungs = {list(RUNGS)}\nhalving.keep = {KEEP}\n{_FILE}', {})
        parts, kept = [], []
        for first in range(1, 10 * repetitions, 10):
            part, same = _replayed(full / "studies/measured/runs", range(first, first + 10))
            parts.append(part)
            kept.append(same)
        measured = _spent(real) / sum(_dollars(full, rate, seed) for rate in RATES for seed in range(1, 11))
    return [
        Row("halving: dollars of the full grid", parts, ".3f", most=0.5),
        Row("halving: the same, first ten seeds, trained", [measured], ".3f", "", [measured / parts[0]], "replayed"),
        Row(f"halving: winner kept, of {repetitions}", [sum(kept)], ".0f", least=0.9 * repetitions),
    ]


def _replayed(runs: Path, seeds: range) -> tuple[float, bool]:
    """The part of the full grid's dollars, and whether the winner is the full grid's."""
    lines = {rate: {seed: read(runs / _name(rate, seed) / METRICS) for seed in seeds} for rate in RATES}
    found = {rate: [summary.read(RunFolder(runs / _name(rate, seed))) for seed in seeds] for rate in RATES}
    spent, going = 0.0, set(RATES)
    for rung in RUNGS:
        scores = {
            rate: {seed: _last_return(lines[rate][seed][:rung]) for seed in seeds} for rate in RATES if rate in going
        }
        promoted = set(decide(scores, KEEP, coming=0).promoted)
        spent += sum(lines[rate][seed][rung - 1].dollars for rate in going - promoted for seed in seeds)
        going = promoted
    whole = {rate: sum(one.dollars.total for one in ended if one) for rate, ended in found.items()}
    finals = {
        rate: fmean(one.final_return.mean for one in ended if one and one.final_return) for rate, ended in found.items()
    }
    spent += sum(whole[rate] for rate in going)
    return spent / sum(whole.values()), max(finals, key=lambda rate: finals[rate]) in going


def _last_return(lines: Sequence[RoundLine]) -> float:
    return next(line.evaluation.mean for line in reversed(lines) if line.evaluation)


def _dollars(folder: Path, rate: str, seed: int) -> float:
    found = summary.read(RunFolder(folder / "studies/measured/runs" / _name(rate, seed)))
    assert found is not None
    return found.dollars.total


def _spent(measured: Measured) -> float:
    return float(measured.events[-1]["dollars"])


def _name(rate: str, seed: int) -> str:
    return f"lr-{float(rate):.6g}-s{seed}"
