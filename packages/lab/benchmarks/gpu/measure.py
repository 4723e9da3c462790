"""Time of a learner on a GPU, by rows of the round and width of the hidden layers, against the processor.

A learner computes the work of one function for one agent of simple spread with MAPPO and one epoch. It computes values,
advantages and targets, then eight minibatches of PPO's losses with Adam for the critic and as many for the policy. In
every repetition four learners learn from the same data, in turn: numpy on one core, torch on one core, torch on all
cores and torch on the GPU.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.gpu import record
from benchmarks.gpu.record import CORES, GPU, NUMPY, TORCH, Cell, Record
from benchmarks.learner import Array, Round
from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.ppo.specs import PpoConfig
from marless.functions.algorithms.stage import Context
from marless.functions.errors import BadRequest
from marless.reports.provenance import commit

ROWS = (200, 1600, 12_800, 64_000)
WIDTHS = (64, 128, 256, 512, 1024)
STEPS = 25  # of an episode: rows of one agent are steps times environments
# A cell with a slower slowest learner is measured twice, others as often as is asked for.
LONG_S = 2.0
SMALL = 200  # rows for the warm-up of a slow way

Learned = dict[str, Array]


@dataclass(frozen=True)
class Way:
    """The place of a learner's computation. `threads` are torch's."""

    engine: str
    device: str
    threads: int


def table(repetitions: int, is_record: bool) -> str:
    """Measure.

    Returns the table as markdown, its findings, and the place of the measurement. A record is stored in `record.FILE`.
    Raises `BadRequest` where torch finds no GPU.
    """
    if not torch.cuda.is_available():
        raise BadRequest(f"gpu: torch {torch.__version__} finds no GPU here, so nothing is measured")
    began = time.monotonic()
    with threadpool_limits(1, user_api="blas"):
        cells = [_cell(rows, width, repetitions) for width in WIDTHS for rows in ROWS]
    measured = record_of(cells, torch.cuda.get_device_name(), time.monotonic() - began)
    if is_record:
        record.write(measured)
    return "\n\n".join((record.table(measured), *record.findings(cells), measured.conditions()))


def record_of(cells: list[Cell], gpu: str, seconds: float) -> Record:
    """Return the measurement of this machine in `seconds`, with the GPU of this name."""
    return Record(
        commit=commit(),
        date=datetime.now(UTC).date().isoformat(),
        gpu=gpu,
        torch=str(torch.__version__),  # a special class, which is not written as text
        numpy=np.__version__,
        cores=_cores(),
        processor=_processor(),
        kernel=" ".join(sorted({str(each.get("architecture", "")) for each in threadpool_info()} - {""})) or "unknown",
        seconds=round(seconds, 1),
        cells=cells,
    )


def _cell(rows: int, width: int, repetitions: int) -> Cell:
    """Every way learns from the same round, in turn."""
    round_, small = (Round(num_envs=count // STEPS, hidden=width) for count in (rows, SMALL))
    context, warm_up = round_.sample(), small.sample()
    learners = {name: _learner(round_, context, way) for name, way in _ways().items()}
    for way in _ways().values():
        _learner(small, warm_up, way)()
    learners[GPU]()  # kernels are picked by the size of the products
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    while not _is_enough(seconds, repetitions):
        learned: dict[str, Learned] = {}
        for name, learn in learners.items():
            began = time.perf_counter()
            learned[name] = learn()
            seconds[name].append(time.perf_counter() - began)
    return Cell(rows=rows, width=width, seconds=seconds, apart=_apart(learned[NUMPY], learned[GPU]))


def _is_enough(seconds: dict[str, list[float]], repetitions: int) -> bool:
    count = len(seconds[NUMPY])
    return count >= repetitions or (count >= 2 and max(map(max, seconds.values())) > LONG_S)


def _ways() -> dict[str, Way]:
    return {
        NUMPY: Way("numpy", "cpu", 1),
        TORCH: Way("torch", "cpu", 1),
        CORES: Way("torch", "cpu", _cores()),
        GPU: Way("torch", "cuda", 1),
    }


def _learner(round_: Round, context: Context[PpoConfig], way: Way) -> Callable[[], Learned]:
    """Return a function that trains the first agent's networks. Its results are in this process's memory, so that the
    GPU has ended."""
    settings = {"engine": way.engine, "device": way.device, "epochs": 1}
    config = msgspec.structs.replace(round_.config, **settings)
    engine_of(config)  # sets torch's threads, once
    own = replace(context, config=config)

    def learn() -> Learned:
        torch.set_num_threads(way.threads)
        return round_.learn(own, groups=(0,)).tensors

    return learn


def _apart(one: Learned, other: Learned) -> float:
    """The largest difference between weights of the same name."""
    names = [name for name in one if name.startswith(("policy/", "critic/"))]
    return max(float(np.abs(one[name] - other[name]).max()) for name in names)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
