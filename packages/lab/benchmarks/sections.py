"""The sections of the table: measurements, their baselines and the bars that they have to pass."""

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import emulated, memory, startup, summaries
from benchmarks.launch import ROOT, measured
from benchmarks.table import Row, quotients, share
from benchmarks.training import MAPPO, UNEVALUATED, command, trained
from marless.coordinator.pricing.prices import load_prices
from marless.functions.errors import MissingExtra
from marless.functions.native.kernels import kernels

PLAIN_RATE = 23_000  # measured for a plain loop on a 2-core AMD EPYC, and a limit for the plain loop here
INSTANCE = "c6a.large"  # the instance type that prices the plain loop
STEPS = 1600  # of a round
ROLLOUTS = (10, 100, 1000)
TARGETS = ("-46", "-36")
# Required shares of the plain loop's rate, with kernels. The rules are fixed here because picking the best
# of three measurements would be biased. On two workers it is that of the default; `fused` misses it.
BARS = {(1, "packed"): 1.8, (1, "fused"): 0.9, (2, "balanced"): 2.5}
# Evaluations as often as the plain loop's, and a minimal final one, which is not used.
LEARNING = ("evaluation.every=10", "evaluation.episodes=320", "evaluation.final_episodes=2")


@dataclass(frozen=True)
class Effort:
    """How long to measure: repetitions and steps of the timed runs, seeds and steps of the learning runs, and seconds
    per repetition of each subject in the actors' comparison."""

    repetitions: int
    steps: int
    seeds: tuple[int, ...]
    learning_steps: int
    seconds: float


QUICK = Effort(repetitions=2, steps=48_000, seeds=(1,), learning_steps=320_000, seconds=0.2)
FULL = Effort(repetitions=5, steps=128_000, seeds=(1, 2, 3, 4), learning_steps=400_000, seconds=0.5)


def sections() -> dict[str, Callable[[Effort], list[Row]]]:
    """The measurements by name, in the order of the table."""
    return {
        "rates": end_to_end,
        "returns": learning,
        "actors": actors,
        "learner": learner,
        "summaries": lambda effort: summaries.rows(4 * effort.repetitions),
        "startup": start_up,
        "memory": peak_memory,
        "emulated": lambda effort: emulated.rounds(effort.repetitions) + emulated.rollouts(ROLLOUTS),
    }


def end_to_end(effort: Effort) -> list[Row]:
    """Rates of the plain loop and of the system in turn, and the breakdown of a round's time with one worker."""
    systems = [(workers, rule) for workers in (1, 2) for rule in ("packed", "fused", "balanced", "split")]
    systems.remove((1, "balanced"))  # which is `packed`
    plain: list[float] = []
    our_loop: list[float] = []
    rates: dict[tuple[int, str], list[float]] = {system: [] for system in systems}
    times: list[dict[str, float]] = []
    for seed in range(1, effort.repetitions + 1):
        arguments = ("--seed", seed, "--steps", effort.steps, "--eval-every", 0, "--json")
        plain.append(measured("baseline.torch_form", *arguments)["env_steps_per_second"])
        our_loop.append(measured("baseline.kernel_form", *arguments)["env_steps_per_second"])
        run = (MAPPO, f"seed={seed}", f"stop.env_steps={effort.steps}")
        for workers, rule in systems:
            training = trained(workers, *UNEVALUATED, *run, f"placement.rule={rule}")
            rates[workers, rule].append(training.env_steps_per_second)
        alone = measured("learner", "--engine", engines_at_hand()[-1])
        proper = {name: statistics.median(alone[f"{name}_ms"]) for name in ("sampling", "learning")}
        times.append({**measured("system", *run, "placement.rule=packed"), **proper})
    return rates_of(plain, our_loop, rates) + _shares(times)


def rates_of(plain: list[float], our_loop: list[float], rates: Mapping[tuple[int, str], list[float]]) -> list[Row]:
    """Return the rows of rates, in which the plain loop guards the bars of the system."""
    rows = [Row("plain loop, env steps/s", plain, ratios=_over(plain, PLAIN_RATE), against="23,000/s", least=0.9)]
    name = "plain loop of our actor and our learner, env steps/s"
    rows.append(Row(name, our_loop, ratios=quotients(our_loop, plain), against="plain loop"))
    for (workers, rule), found in rates.items():
        least = BARS.get((workers, rule))
        name = f"marless train, {_workers(workers)}, {rule}, env steps/s"
        ratios = quotients(found, plain)
        rows.append(Row(name, found, ratios=ratios, against="plain loop", least=least, guard=rows[0]))
    return rows


def _workers(count: int) -> str:
    return f"{count} worker{'s' * (count > 1)}"


def _over(values: list[float], base: float) -> list[float]:
    return [value / base for value in values]


def _shares(times: list[dict[str, float]]) -> list[Row]:
    """The breakdown of a round's time on one worker. Functions include reading and writing their objects.

    The time outside sampling and learning proper includes that reading and writing too.
    """
    whole = [time["round"] for time in times]
    rows = [Row("round of 1,600 steps, 1 worker, packed", whole, ".1f", "ms")]
    for function in ("actor", "learner"):
        busy = [time[function] for time in times]
        rows.append(Row(f"- in the {function} function", busy, ".1f", "ms", quotients(busy, whole), "round"))
    rest = [time["round"] - time["actor"] - time["learner"] for time in times]
    rows.append(Row("- in neither (coordinator, hand-over)", rest, ".1f", "ms", quotients(rest, whole), "round"))
    outside = [time["round"] - time["sampling"] - time["learning"] for time in times]
    name = "- outside sampling and learning proper (objects, messages, coordinator)"
    return [*rows, Row(name, outside, ".1f", "ms", quotients(outside, whole), "round")]


def learning(effort: Effort) -> list[Row]:
    """Training seconds and dollars to greedy returns, of the plain loop (without evaluations) and the system."""
    plain, kernels, system = [], [], []
    for seed in effort.seeds:
        options = ("--seed", seed, "--steps", effort.learning_steps, "--json")
        plain.append(measured("baseline.torch_form", *options))
        kernels.append(measured("baseline.kernel_form", *options))
        system.append(trained(2, MAPPO, f"seed={seed}", f"stop.env_steps={effort.learning_steps}", *LEARNING))
    hourly = float(load_prices().ec2[INSTANCE])
    rows = []
    for target in TARGETS:
        name = f"greedy return {target}, {len(effort.seeds)} seed{'s' * (len(effort.seeds) > 1)}"
        base = [run["seconds_to"][target] for run in plain]
        own = [run["seconds_to"][target] for run in kernels]
        reached = [run.seconds_to(float(target)) for run in system]
        dollars = [run.dollars_to(float(target)) for run in system]
        rented = [seconds and seconds / 3600 * hourly for seconds in base]
        rows += [
            _compared(f"{name}: plain loop", base, [], "s", ".1f"),
            _compared(f"{name}: plain loop of our actor and our learner", own, base, "s", ".1f"),
            _compared(f"{name}: marless train, 2 workers", reached, base, "s", ".1f"),
            _compared(f"{name}: plain loop on {INSTANCE}", rented, [], "$", ".6f"),
            _compared(f"{name}: marless train on Lambda", dollars, rented, "$", ".6f"),
        ]
    return rows


def _compared(name: str, values: list[float | None], base: list[float | None], unit: str, fmt: str) -> Row:
    """Return the row of all seeds. A seed that did not reach the target counts as infinite."""
    reached = sum(value is not None for value in values)
    label = f"{name} (reached in {reached} of {len(values)})" if reached < len(values) else name
    ratios = [share(*pair) for pair in zip(values, base, strict=False)]
    numbers = [math.inf if value is None else value for value in values]
    return Row(label, numbers, fmt, unit, ratios, "plain loop" if ratios else "")


def actors(effort: Effort) -> list[Row]:
    """Actor-only rates on one core, compared with raw `mpe2`."""
    rates = measured("actor", "--repetitions", effort.repetitions + 2, "--seconds", effort.seconds)
    raw = rates.pop("mpe2")
    rows = [Row("mpe2 parallel_env, random stepping, env steps/s", raw)]
    names = {
        "adapter stepping": "our adapter of mpe2, random stepping",
        "adapter rollout": "actor, adapter, rollout of 16",
    }
    for name, found in rates.items():
        label = names.get(name, f"actor, batched engine, {name}")
        plain, by, _ = name.partition(" by kernels")
        if by:
            ratios = quotients(found, rates[plain])
            rows.append(Row(f"{label}, env steps/s", found, ratios=ratios, against="in numpy", least=1.3))
            continue
        least = {"rollout of 160": 100.0, "adapter stepping": 0.8}.get(name)
        rows.append(Row(f"{label}, env steps/s", found, ratios=quotients(found, raw), against="mpe2", least=least))
    return rows


def learner(effort: Effort) -> list[Row]:
    """The learner's computation alone, compared with its matrix products alone, by what computes networks."""
    rows = list[Row]()
    for engine in engines_at_hand():
        found = measured("learner", "--repetitions", 4 * effort.repetitions, "--engine", engine)
        whole, products = found["learning_ms"], found["products_ms"]
        peak = [found["flops"] / ms / 1e6 for ms in products]
        name = f"learner ({engine}), a round of {STEPS:,} steps ({found['flops'] / 1e9:.2f} GFLOP of products)"
        rows += [
            Row(f"matrix products of these shapes alone, beside {engine}, GFLOP/s", peak, ".1f"),
            Row(f"one large product, beside {engine}, GFLOP/s", found["large_gflops"], ".1f"),
            Row(name, whole, ".1f", "ms", quotients(products, whole), "products alone"),
        ]
    return rows


def engines_at_hand() -> tuple[str, ...]:
    """What computes a learner's networks here without torch, the fastest last."""
    try:
        kernels()
    except MissingExtra:
        return ("numpy",)
    return "numpy", "native"


def start_up(effort: Effort) -> list[Row]:
    """Seconds from the command to the first rollout."""
    rows = []
    for name, cold, most in (("cold", True, None), ("warm", False, 2.0)):
        times = [startup.seconds_to_first_rollout(2, cold) for _ in range(effort.repetitions)]
        rows.append(Row(f"command to first rollout, {name}", times, ".2f", "s", most=most))
    return rows


def peak_memory(effort: Effort) -> list[Row]:
    """Peak memory of coordinator and workers together."""
    rows = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            peak = memory.peak_mib(command(workers, MAPPO, f"stop.env_steps={effort.steps}"), Path(folder))
        rows.append(Row(f"peak memory, coordinator and {_workers(workers)}", [peak], unit="MiB PSS"))
    plain = [sys.executable, "-m", "benchmarks.baseline.torch_form", "--steps", str(effort.steps)]
    return [*rows, Row("peak memory, plain loop", [memory.peak_mib(plain, ROOT)], unit="MiB PSS")]
