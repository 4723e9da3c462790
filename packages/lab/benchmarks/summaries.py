"""Cost of the learner summaries compared with training: one learner per agent, on one core."""

import argparse
import json
import time
from dataclasses import replace

from benchmarks.launch import measured
from benchmarks.learner import TASK, Array, Round
from benchmarks.table import Row, quotients
from marless.functions.algorithms.ppo import mappo
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.environments.base import EnvTask

# Task, environments, rollouts: the default round, two of its rollouts, and six agents with 5,000 steps each.
SCENES = {
    "3 agents, 1 rollout of 1,600 steps": (TASK, 64, 1),
    "3 agents, 2 rollouts of 1,600 steps": (TASK, 64, 2),
    "6 agents, 2 rollouts of 2,500 steps": (EnvTask(name="mpe/simple_spread", agents=6), 100, 2),
}
# Shares of the learner's time.
BARS = {"curvature": 0.05, "noise": 0.1}

Times = dict[str, list[float]]


def rows(repetitions: int) -> list[Row]:
    """Rows of each scene: the learner, then its summaries."""
    found: dict[str, Times] = measured("summaries", "--repetitions", repetitions)
    table = []
    for scene, times in found.items():
        learner = times.pop("learner")
        table.append(Row(f"learner of one agent, {scene}", learner, ".1f", "ms"))
        for name, values in times.items():
            shares = quotients(values, learner)
            table.append(Row(f"- {name}", values, ".2f", "ms", shares, "its learner", most=BARS.get(name)))
    return table


def milliseconds(round_: Round, repetitions: int) -> Times:
    """Milliseconds of the learner of agent 0 and of each of its summaries, in every round of a short training.

    Processor time, because wall time of the long learner step would include other work of the machine.
    """
    names = sorted(mappo.SUMMARIES)
    times: Times = {"learner": [], **{name: [] for name in names}}
    for _ in range(repetitions):
        context = round_.sample()  # comes before the learner in a worker as well, so caches are as warm as there
        began = time.process_time()
        made = round_.learn(context, [0]).tensors
        times["learner"].append((time.process_time() - began) * 1000)
        before = seen(context, made)
        for name in names:
            began = time.process_time()
            mappo.SUMMARIES[name](before, made, 0)
            times[name].append((time.process_time() - began) * 1000)
        round_.go_on(round_.learn(context).tensors)
    return times


def seen(context: Context[AlgorithmConfig], made: dict[str, Array]) -> Context[AlgorithmConfig]:
    """The context of the stage that trains the policy: with the outputs of earlier stages, and untrained weights."""
    passing = {name: array for name, array in made.items() if name not in context.tensors}
    return replace(context, tensors={**context.tensors, **passing})


def main() -> None:
    """Prints one JSON object: milliseconds by scene and summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summaries", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    print(json.dumps({scene: milliseconds(Round(*of), repetitions) for scene, of in SCENES.items()}))


if __name__ == "__main__":
    main()
