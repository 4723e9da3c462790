"""Measures how fast agents that speak learn, and stores the record of a full measurement."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.comparisons.conditions import Measuring
from benchmarks.comparisons.measurement_record import Record
from benchmarks.language import slow_judge
from benchmarks.language.launch import MODEL, RELAY, Looped, Task, Trained, looped, peak_mib, smollm2, trained
from benchmarks.language.record import FILE
from benchmarks.table import Row, quotients

# Asked for: of the tokens a second of the loop without functions.
LEAST = 0.8
_THREADS = (1, 2)
_WORKERS = 2


@dataclass(frozen=True)
class Repetition:
    """One seed, trained in every way, one after another."""

    loops: dict[int, Looped]
    """By their threads."""
    run: Trained

    @property
    def fastest(self) -> Looped:
        """The loop that a run is compared with."""
        return max(self.loops.values(), key=lambda loop: loop.tokens_per_second)


def table(repetitions: int, is_record: bool) -> str:
    """Measure. Returns the table as markdown, and the place of the measurement. A full one with both models is
    stored."""
    measuring, large = Measuring(), smollm2()
    if large is None:
        print(f"        SmolLM2 is left out: say by {MODEL} where its .gguf file is", file=sys.stderr)
    rows = [*_rows(RELAY, repetitions)]
    rows += _rows(large, repetitions) if large else ()
    rows += slow_judge.rows(repetitions)
    measured = Record(**msgspec.structs.asdict(measuring.conditions()), comparisons=rows)
    if is_record and large:
        FILE.write(measured)
    return FILE.text(measured)


def _rows(task: Task, repetitions: int) -> Iterator[Row]:
    every = [_repetition(task, seed) for seed in range(1, repetitions + 1)]
    yield from _rates(task, every)
    yield from _functions(task, every)
    yield from _processor(task, every)
    memory = {workers: peak_mib(task, workers) for workers in (0, 1, _WORKERS)}
    yield Row(f"{task.name}: peak memory, plain loop", [memory[0]], unit="MiB PSS")
    for workers in (1, _WORKERS):
        name = f"{task.name}: peak memory, coordinator and {workers} worker{'s' * (workers > 1)}"
        yield Row(name, [memory[workers]], unit="MiB PSS", ratios=[memory[workers] / memory[0]], against="plain loop")


def _repetition(task: Task, seed: int) -> Repetition:
    threads = [count for count in _THREADS if count <= len(os.sched_getaffinity(0))]
    loops = {count: looped(task, seed, count) for count in threads}
    run = trained(task, seed, _WORKERS)
    if run.adapters != loops[1].adapters:
        raise RuntimeError(f"{task.name}: the run and the loop end with different adapters")
    rates = [*(each.tokens_per_second for each in loops.values()), run.tokens_per_second(loops[1].tokens)]
    said = ", ".join(f"{rate:,.0f}" for rate in rates)
    print(f"        {task.name}: {said} tokens/s", file=sys.stderr, flush=True)
    return Repetition(loops, run)


def _rates(task: Task, every: Sequence[Repetition]) -> Iterator[Row]:
    fastest = [each.fastest.tokens_per_second for each in every]
    for threads in every[0].loops:
        values = [each.loops[threads].tokens_per_second for each in every]
        name = f"{task.name}: plain loop, {threads} thread{'s' * (threads > 1)}, tokens/s"
        yield Row(name, values, ratios=quotients(values, fastest), against="faster plain loop")
    values = [each.run.tokens_per_second(each.fastest.tokens) for each in every]
    name = f"{task.name}: marless train, {_WORKERS} workers, tokens/s"
    yield Row(name, values, ratios=quotients(values, fastest), against="faster plain loop", least=LEAST)
    wholes = [sum(each.fastest.tokens) / each.fastest.whole_s for each in every]
    values = [sum(each.fastest.tokens) / each.run.whole_s for each in every]
    name = f"{task.name}: the whole command, its start included, tokens/s"
    yield Row(name, values, ratios=quotients(values, wholes), against="faster plain loop, its start included")


def _functions(task: Task, every: Sequence[Repetition]) -> Iterator[Row]:
    """Yield the work of functions per busy second."""
    for kind, name in (("sample", "sampling"), ("learn", "training")):
        values = [each.fastest.tokens[-1] / each.run.busy_s(kind) for each in every]
        yield Row(f"{task.name}: functions at work, tokens/s of {name}", values)


def _processor(task: Task, every: Sequence[Repetition]) -> Iterator[Row]:
    loops = [each.loops[1].processor_s / task.rounds for each in every]
    runs = [each.run.processor_s / task.rounds for each in every]
    name = f"{task.name}: processor seconds a round, starts included"
    yield Row(f"{name}; plain loop, 1 thread", loops, ".3f", "s")
    yield Row(f"{name}; marless train", runs, ".3f", "s", quotients(runs, loops), "plain loop")
