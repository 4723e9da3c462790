"""``python -m benchmarks pool``: the table."""

import json
from dataclasses import replace
from threading import Thread

from benchmarks.pool import skew
from benchmarks.pool.measurement import Measured, processes, shell_loop, study
from benchmarks.pool.workloads import Workload, computing, waiting
from benchmarks.table import Row
from marless.studies.owners import jain

WEIGHTS = (1, 2, 4)
# Workers have one thread each, and so have separate processes.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def rows() -> list[Row]:
    """All measurements, one after the other."""
    return [
        *_rows("waiting", waiting(), busy=4.3, alone=0.15, processes_=1.05, memory=0.25),
        *_rows("computing", computing(), busy=None, alone=0.75, processes_=1.0, memory=0.125),
        *looped(),
        *weighted(),
        *skew.rows(),
    ]


def _rows(name: str, work: Workload, busy: float | None, alone: float, processes_: float, memory: float) -> list[Row]:
    """One workload on the pool, against one run after another, static halves, and a process for each run."""
    pool = study(work.file(work.shared), _ONE_THREAD)
    one = study(work.file(work.alone, runs_at_once=1), _ONE_THREAD)
    halves = _halves(work)
    commands = {run: _arguments(values, work.shared) for run, values in work.runs}
    each = processes(commands, _ONE_THREAD)
    single = processes(commands, _ONE_THREAD, "--workers", "1")
    # Commands with a worker each have as many slots as there are runs.
    wide = study(work.file(work.shared, slots=len(work.runs)), _ONE_THREAD) if work.waits else None
    ways = (one, each, single)
    equal = sum(all(pool.weights.get(run) == way.weights.get(run) for way in ways) for run, _ in work.runs)
    slowdowns = [pool.seconds[run] / one.seconds[run] for run, _ in work.runs]
    return [
        Row(f"{name}: 32 runs on one pool", [pool.makespan_s], ".1f", "s"),
        _ratio(f"{name}: makespan", pool.makespan_s, one.makespan_s, "one after another", most=alone),
        _ratio(f"{name}: makespan", pool.makespan_s, halves, "static halves"),
        _ratio(f"{name}: makespan", pool.makespan_s, each.makespan_s, "32 commands", most=processes_),
        _ratio(f"{name}: makespan", pool.makespan_s, single.makespan_s, "32 commands of one worker each"),
        Row(f"{name}: busy share", [pool.busy], ".3f", "", [pool.busy / one.busy], "one after another", least=busy),
        Row(
            f"{name}: slot seconds",
            [_work(pool, work)],
            ".0f",
            "s",
            [_work(pool, work) / _work(one, work)],
            "one after another",
        ),
        _memory(f"{name}: memory", pool, each, "32 commands", most=memory),
        _memory(f"{name}: memory", pool, single, "32 commands of one worker each"),
        *(_wide(name, wide, single) if wide else ()),
        Row(f"{name}: fairness of slowdowns (Jain)", [jain(slowdowns)], ".3f", least=0.9),
        Row(f"{name}: weights as in the other ways, of 32", [equal], ".0f", least=32),
    ]


def _wide(name: str, wide: Measured, single: Measured) -> list[Row]:
    against = "32 commands of one worker each"
    return [
        _ratio(f"{name}: makespan with 32 slots", wide.makespan_s, single.makespan_s, against),
        _memory(f"{name}: memory with 32 slots", wide, single, against),
    ]


def looped() -> list[Row]:
    """30 default runs of 40 rounds, three settings with ten seeds, against a shell: a loop, and all at once."""
    rates = (3e-4, 1e-3, 3e-3)
    work = Workload(
        2,
        tuple(range(1, 11)),
        {f"lr{rate:g}": {"algorithm.lr": rate, "stop.rounds": 40} for rate in rates},
        alone="fused",
        shared="packed",
        waits=False,
    )
    pool = study(work.file(work.shared), _ONE_THREAD)
    commands = {run: _arguments(values, work.alone) for run, values in work.runs}
    loop = shell_loop(commands, _ONE_THREAD)
    beside = processes(commands, _ONE_THREAD).makespan_s
    name = "30 runs, three settings with ten seeds"
    return [
        _ratio(name, pool.makespan_s, loop, "a loop in a shell"),
        _ratio(name, pool.makespan_s, beside, "30 commands at once"),
    ]


def weighted() -> list[Row]:
    """Measure the service of owners with weights 1, 2 and 4 while all had waiting tasks: until the first run ended."""
    work = waiting()
    settings = list(work.settings.items())[:3]
    lines = ["seeds = [1, 2, 3, 4, 5, 6, 7, 8]", "pool.workers = 7", 'base.placement.rule = "packed"']
    lines += [f"owners.o{weight}.weight = {weight}" for weight in WEIGHTS]
    for (name, values), weight in zip(settings, WEIGHTS, strict=True):
        lines += ["[[setting]]", f'name = "{name}"', f'owner = "o{weight}"']
        lines += [f"values.{key} = {json.dumps(value)}" for key, value in {**values, "stop.rounds": 20}.items()]
    found = study("\n".join(lines) + "\n", _ONE_THREAD)
    ends = [event for event in found.events if event["event"] == "run"]
    served = ends[0]["owners_s"]
    total, parts = sum(served.values()), sum(WEIGHTS)
    shares = [served[f"o{weight}"] / total / (weight / parts) for weight in WEIGHTS]
    return [
        Row(
            f"weights 1:2:4: served to weight {weight}",
            [share],
            ".2f",
            "of its share",
            least=0.9 if share < 1 else None,
            most=None if share < 1 else 1.1,
        )
        for weight, share in zip(WEIGHTS, shares, strict=True)
    ]


def _halves(work: Workload) -> float:
    """The makespan of two pools of half the size, each with half of the runs one after another."""
    if len(work.settings) > 1:
        middle = len(work.settings) // 2
        files = [work.file(work.alone, 1, work.slots // 2, part) for part in (slice(middle), slice(middle, None))]
    else:
        middle = len(work.seeds) // 2
        files = [
            replace(work, seeds=seeds).file(work.alone, 1, work.slots // 2)
            for seeds in (work.seeds[:middle], work.seeds[middle:])
        ]
    found: list[Measured] = []
    threads = [Thread(target=lambda file=file: found.append(study(file, _ONE_THREAD))) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(measured.makespan_s for measured in found)


def _arguments(values: dict[str, object], placement: str) -> list[str]:
    settings = {**values, "placement.rule": placement}
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]


def _work(measured: Measured, work: Workload) -> float:
    return measured.busy * work.slots * measured.makespan_s


def _memory(name: str, value: Measured, base: Measured, against: str, most: float | None = None) -> Row:
    return Row(name, [value.peak_mib], ".0f", "MiB", [value.peak_mib / base.peak_mib], against, most=most)


def _ratio(name: str, value: float, base: float, against: str, most: float | None = None) -> Row:
    return Row(name, [value], ".1f", "s", [value / base], against, most=most)
