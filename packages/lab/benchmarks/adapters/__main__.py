"""Measures one entry: an adapter and the plain loops over its package in turn, in this process."""

import argparse
import json
import time

import numpy as np

from benchmarks.adapters.entries import ENTRIES, Entry
from benchmarks.adapters.plan import SEED, Plan, draw
from benchmarks.adapters.raw import Stepper
from marless.functions.environments import registry
from marless.functions.environments.base import VectorEnvironment
from marless.functions.errors import MissingExtra

Rates = dict[str, list[float]]


def subjects(entry: Entry) -> dict[str, Stepper]:
    """The adapter and the plain loops, by name. Raises `MissingExtra` and `ModuleNotFoundError`."""
    environment = registry.make(entry.task, entry.num_envs)
    plan = draw(environment, entry.steps)
    found = {"raw": entry.raw(plan)}
    if entry.raw_with_state is not None and environment.spec.state_size:
        found["raw with state"] = entry.raw_with_state(plan)
    return {**found, "adapter": _adapter(environment, plan)}


def _adapter(environment: VectorEnvironment, plan: Plan) -> Stepper:
    def play() -> None:
        environment.reset(np.random.default_rng(SEED))
        for actions in plan.actions:
            environment.step(actions)

    return Stepper(environment.num_envs * len(plan.actions), play)


def rates(found: dict[str, Stepper], repetitions: int, seconds: float) -> Rates:
    """Return env steps per second of processor time, one number per repetition. All play in turn for `seconds` each.

    Processor time, because other processes of a busy machine would count in the wall time of either.
    """
    for stepper in found.values():
        stepper.play()
    measured: Rates = {name: [] for name in found}
    for _ in range(repetitions):
        steps, spent = dict.fromkeys(found, 0), dict.fromkeys(found, 0.0)
        while min(spent.values()) < seconds:
            for name, stepper in found.items():
                began = time.process_time()
                stepper.play()
                spent[name] += time.process_time() - began
                steps[name] += stepper.steps
        for name in found:
            measured[name].append(steps[name] / spent[name])
    return measured


def main() -> None:
    """Prints one JSON object: rates by subject, or the error's name under "missing"."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters", description=__doc__)
    parser.add_argument("name", choices=[*ENTRIES])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each subject in each repetition")
    args = parser.parse_args()
    try:
        found = subjects(ENTRIES[args.name])
    except (MissingExtra, ModuleNotFoundError) as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps(rates(found, args.repetitions, args.seconds)))


if __name__ == "__main__":
    main()
