"""Play `channel/wall` with constant actions, random actions, the log law and a run, and write a table.

    python -m benchmarks.channel docs/results/channel.csv
    python -m benchmarks.channel docs/results/channel.csv --run RUN

Errors are means over the second half of an episode, in units of the right stress. `stress_error` is the error of the
mean stress, and `patch_stress_error` the error of the agents' stresses. The other columns describe the end of an
episode. `stress` is the mean stress, and `stress_rms` its deviation between agents. `speed_rms` is the deviation of u
from its mean at each height. `--run` adds rows of a run, and prints the distance of its neutral line from the log law.
The command continues where it stopped.
"""

import argparse
import csv
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.channel.neutral import law_line, neutral_line
from marless.environments import EnvTask, Observation
from marless.reports import provenance
from marless.reports.policy import TeamPolicy
from marless.run import load_policy
from marless_tasks.channel.environment import ChannelEnvironment, make
from marless_tasks.channel.solver import INSIDE, Array
from marless_tasks.channel.walls import MATCHED, log_law_stress

REYNOLDS = (2_000.0, 4_200.0, 8_000.0, 1e5, 1e6)
SEEDS = range(1, 6)
COLUMNS = ("arm", "reynolds", "seed", "stress_error", "patch_stress_error", "stress", "stress_rms", "speed_rms")
Act = Callable[[ChannelEnvironment, Observation, np.random.Generator], Any]


def constant(environment: ChannelEnvironment, observation: Observation, rng: np.random.Generator) -> Any:
    """Keep the first stress."""
    return np.ones((1, len(environment.spec.agents), 1))


def random(environment: ChannelEnvironment, observation: Observation, rng: np.random.Generator) -> Any:
    """Act uniformly."""
    return rng.uniform(0.9, 1.1, (1, len(environment.spec.agents), 1))


def log_law(environment: ChannelEnvironment, observation: Observation, rng: np.random.Generator) -> Any:
    """Go to the stress of the log law."""
    channel, speeds = environment.channels[0], environment.speeds(MATCHED)
    factors = log_law_stress(speeds, environment.height, channel.viscosity) / environment.stress()
    return factors.reshape(1, -1, 1)


def values_of(policy: TeamPolicy, agent: str, observations: Array) -> Array:
    """The greedy actions ``[N]`` of one agent's policy for observations ``[N, 2]``."""
    return np.asarray(policy.act({agent: observations.astype(np.float32)})[agent], np.float64).reshape(-1)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.channel", description=__doc__)
    parser.add_argument("table", type=Path, help="a CSV file")
    parser.add_argument("--run", help="a finished run of channel/wall, by its folder or name")
    options = parser.parse_args()
    arms: dict[str, Act] = {"constant": constant, "random": random, "log law": log_law}
    if options.run:
        policy = load_policy(options.run)

        def trained(environment: ChannelEnvironment, observation: Observation, rng: np.random.Generator) -> Any:
            return values_of(policy, environment.spec.agents[0], observation.values[0][0])[None, :, None]

        arms = {"trained": trained}
        print_neutral_line(policy)
    finished = set[tuple[str, ...]]()
    if options.table.exists():
        with options.table.open(newline="", encoding="utf-8") as file:
            finished = {(row["arm"], row["reynolds"], row["seed"]) for row in csv.DictReader(file)}
    with options.table.open("a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        if not file.tell():
            table.writerow([*COLUMNS, "milliseconds", "commit"])
        for seed, reynolds, (arm, act) in itertools.product(SEEDS, REYNOLDS, arms.items()):
            if (arm, f"{reynolds:.0f}", str(seed)) not in finished:
                table.writerow(row(arm, act, reynolds, seed))
                file.flush()


def row(arm: str, act: Act, reynolds: float, seed: int) -> list[object]:
    """Play an episode."""
    environment = make(EnvTask(name="channel/wall", options={"reynolds": reynolds}), 1)
    began = time.process_time()
    numbers = episode(environment, act, np.random.Generator(np.random.Philox(seed)))
    milliseconds = 1000 * (time.process_time() - began) / environment.spec.horizon
    commit = (provenance.commit() or "")[:8]
    return [arm, f"{reynolds:.0f}", seed, *(f"{number:.4f}" for number in numbers), f"{milliseconds:.1f}", commit]


def episode(environment: ChannelEnvironment, act: Act, rng: np.random.Generator) -> tuple[float, ...]:
    """The numbers of an episode, in the order of `COLUMNS`."""
    last = dict[str, Any]()

    def keep() -> None:
        last.update(environment.save(), stress=environment.stress()[0])

    environment.before_reset = keep
    observation = environment.reset(rng)
    for _ in range(environment.spec.horizon):
        step = environment.step((act(environment, observation, rng),))
        observation = step.observation
    channel = environment.channels[0]
    stress, u = last["stress"] / channel.stress, last["velocity"][0][0][INSIDE]
    errors = (float(step.env_metrics[name][0]) for name in ("stress_error", "patch_stress_error"))
    return *errors, stress.mean(), stress.std(), (u - u.mean(axis=(1, 2), keepdims=True)).std() / channel.speed


def print_neutral_line(policy: TeamPolicy) -> None:
    """Print the distance of the policy's neutral line from the log law's at the matched cell, in units of u_τ."""
    environment = make(EnvTask(name="channel/wall"), 1)
    slopes = np.linspace(1.5, 3.5, 9)
    own = neutral_line(lambda observations: values_of(policy, environment.spec.agents[0], observations), slopes)
    for reynolds in REYNOLDS:
        distance = np.abs(own - law_line(slopes, environment.height * reynolds))
        print(f"Re_tau {reynolds:,.0f}: neutral line {np.nanmean(distance):.2f} u_tau from the log law's")


if __name__ == "__main__":
    main()
