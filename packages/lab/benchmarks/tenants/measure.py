"""Measures many tenants' runs together and one after another, and stores the record of a full measurement."""

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.comparisons.conditions import Measuring
from benchmarks.comparisons.measurement_record import Record
from benchmarks.language.launch import MODEL, smollm2
from benchmarks.pool.measurement import Measured, study
from benchmarks.table import Row
from benchmarks.tenants.record import FILE
from benchmarks.tenants.workload import EXAMPLE, Workload, computing, large, waiting
from marless.coordinator.config.loading import load as load_run
from marless.functions.environments.base import EnvTask
from marless.studies.study_file import load
from marless_language.runs.language_models import model_file, small_base

# The paper's rows: end-to-end time -85 %, utilisation 4.3 times; and what is asked of tokens a second.
_MAKESPAN, _BUSY, _TOKENS = 0.15, 4.3, 0.95
# Of the memory of workers: so many times one worker's, and MiB for each.
_TIMES, _EACH_MIB, _WORKERS = 1.2, 60, 4
_JUDGE_S = 0.2
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Trained:
    """All runs in one way, with the processor seconds of all processes."""

    measured: Measured
    processor_s: float


def table(is_record: bool) -> str:
    """Measures; the table as markdown, and where it was measured. A full one with SmolLM2 is stored."""
    measuring, model = Measuring(), smollm2()
    if model is None:
        print(f"        SmolLM2 is left out: say by {MODEL} where its .gguf file is", file=sys.stderr)
    rows = [
        *_rows(computing(30 if is_record else 5)),
        *_rows(waiting(6 if is_record else 2, _JUDGE_S), _MAKESPAN, _BUSY),
    ]
    rows += _memory(model.settings[-1].partition("=")[2]) if model else ()
    measured = Record(**msgspec.structs.asdict(measuring.conditions()), comparisons=rows)
    if is_record and model:
        FILE.write(measured)
    return FILE.text(measured)


def _rows(work: Workload, makespan: float | None = None, busy: float | None = None) -> Iterator[Row]:
    """One workload together, one run after another, and with a model for each tenant."""
    small_base(EnvTask(name=work.task))  # made for this machine before anything is measured
    together, one = _trained(work, work.file()), _trained(work, work.file(runs_at_once=1))
    apart = _with_models(work).measured
    pool, alone, cores = together.measured, one.measured, len(os.sched_getaffinity(0))
    least_s = max(together.processor_s / cores, pool.busy * pool.makespan_s)
    written = len(alone.seconds) * work.tokens_of_run
    rates = written / pool.makespan_s, written / sum(alone.seconds.values())
    run = _Comparison(work, "one after another")
    yield run.row("32 runs together", pool.makespan_s, alone.makespan_s, ".1f", "s", most=makespan)
    yield run.row("processor seconds and slots allow no less than", least_s, alone.makespan_s, ".1f", "s")
    yield run.row("busy share of slots", pool.busy, alone.busy, ".3f", least=busy)
    yield _Comparison(work, "one run alone").row("tokens/s written", *rates, ",.0f", least=_TOKENS)
    yield run.row("processor seconds", together.processor_s, one.processor_s, ".0f", "s")
    yield Row(f"{work.name}: weights as in the other ways, of 32", [_equal(pool, alone, apart)], ".0f", least=32)
    models = _Comparison(work, "a model for each tenant")
    yield models.row("32 runs by one model", pool.makespan_s, apart.makespan_s, ".1f", "s")
    yield models.row("memory of all processes", pool.peak_mib, apart.peak_mib, ",.0f", "MiB PSS")


@dataclass(frozen=True)
class _Comparison:
    """A workload against another way to train its runs."""

    work: Workload
    against: str

    def row(
        self,
        what: str,
        ours: float,
        theirs: float,
        form: str,
        unit: str = "",
        least: float | None = None,
        most: float | None = None,
    ) -> Row:
        """Our number, and its ratio to theirs."""
        return Row(f"{self.work.name}: {what}", [ours], form, unit, [ours / theirs], self.against, least, most)


def _equal(*ways: Measured) -> int:
    return sum(len({way.weights.get(run) for way in ways}) == 1 for run in ways[0].weights)


def _trained(work: Workload, file: str) -> Trained:
    before = _processor_s()
    measured = study(file, {**_ONE_THREAD, **work.environment})
    trained = Trained(measured, _processor_s() - before)
    print(
        f"        {work.name}: {measured.makespan_s:.0f} s, {trained.processor_s:.0f} of the processor",
        file=sys.stderr,
        flush=True,
    )
    return trained


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _with_models(work: Workload) -> Trained:
    """Each tenant by a copy of the model: the same numbers in another file, which has another hash."""
    model = small_base(EnvTask(name=work.task))
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / f"{number}.safetensors" for number in range(len(load(EXAMPLE).setting))]
        for number, copy in enumerate(copies):
            copy.write_bytes(padded(model.read_bytes(), number + 1))
        return _trained(work, work.file(models=copies))


def padded(body: bytes, words: int) -> bytes:
    """A model in the format safetensors with so many words of eight spaces behind its header."""
    end, more = 8 + int.from_bytes(body[:8], "little"), 8 * words
    return (end - 8 + more).to_bytes(8, "little") + body[8:end] + b" " * more + body[end:]


def _memory(source: str) -> Iterator[Row]:
    """What workers take together, of one and of several, by a large model whose file nobody else has mapped."""
    from benchmarks.tenants.workers import peak_mib

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.safetensors"
        config = load_run(None, ["task.name=text/relay", "algorithm.name=grpo", f"base.model={source}"])
        shutil.copy(model_file(config), model)
        one, several = (peak_mib(large(slots, model).file(), Path(folder)) for slots in (1, _WORKERS))
        whole = model.stat().st_size / 2**20
    yield Row("SmolLM2: one worker of a study", [one], ",.0f", "MiB PSS", [one / whole], "the model's file")
    most = _TIMES * one + _EACH_MIB * _WORKERS
    against = f"{_TIMES} of one's and {_EACH_MIB} MiB each"
    yield Row(
        f"SmolLM2: {_WORKERS} workers together", [several], ",.0f", "MiB PSS", [several / most], against, most=1.0
    )
