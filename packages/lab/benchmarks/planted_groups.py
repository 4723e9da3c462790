"""Recovery of planted groups of agents: ``python -m benchmarks.planted_groups`` prints a markdown table.

Six agents learn simple spread by IPPO with separate policies. At three stages of that training, three of the six
policies are drawn and copied twice, with a little noise on the weights: three pairs of twins. The six copies play
together, and each compared distance is used to group them.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from benchmarks.launch import environment
from benchmarks.training import NAME, UNEVALUATED, command
from marless.coordinator.rules.grouping import agglomerate, kmeans
from marless.coordinator.rules.similarity import DISTANCES, matrix
from marless.functions.actor.rollout import collect
from marless.functions.data.trajectory import rollout_prefix
from marless.functions.environments import registry as environments
from marless.functions.environments.base import EnvTask, Observation
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.functions.randomness import generator
from marless.reports.policy import FILE
from marless.reports.statistics import adjusted_rand
from marless.reports.text import markdown_table

Array = NDArray[Any]

SEED = 1
AGENTS = 6
TASK = EnvTask(name="mpe/simple_spread", agents=AGENTS)
ROUNDS = (10, 50, 200)
TRANSITIONS = (250, 1250)
COMPARED: tuple[str, ...] = ("jsd", "regret", "kde-kl")
PLANTED = (0, 0, 1, 1, 2, 2)
GROUPS = 3
# Standard deviation of the noise on a layer, in standard deviations of its weights.
NOISE = 0.05
REPETITIONS = 10
OBSERVATIONS = 256
COMPONENTS = 4
HEADER = (
    "rounds trained",
    "transitions per agent",
    "distance",
    "ARI, kmeans: mean (min)",
    "ARI, linkage: mean (min)",
    "min between / max within: median (min)",
    "ms per matrix",
)


@dataclass
class Found:
    """The results of one distance, one value per repetition."""

    kmeans: list[float] = field(default_factory=list)
    linkage: list[float] = field(default_factory=list)
    separation: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def train(folder: Path, rounds: int) -> dict[str, Array]:
    """The networks of the six agents after `rounds` rounds. Runs of the same seed are stages of the same training."""
    settings = (f"seed={SEED}", "task.agents=6", "algorithm.name=ippo", "sharing.rule=none", f"stop.rounds={rounds}")
    folder.mkdir()
    asked = command(2, *settings, *UNEVALUATED)
    subprocess.run(asked, check=True, cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
    return dict(load_file(folder / "runs" / NAME / FILE))


def twins(tensors: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return networks of six agents by `PLANTED`: three of the trained six, twice each, all with noise."""
    originals = rng.choice(AGENTS, GROUPS, replace=False)
    networks = {}
    for agent, planted in enumerate(PLANTED):
        original = f"policy/{group_name(int(originals[planted]))}/"
        for name in sorted(name for name in tensors if name.startswith(original)):
            weights = tensors[name]
            noise = NOISE * weights.std() * rng.standard_normal(weights.shape)
            networks[name.replace(original, f"policy/{group_name(agent)}/")] = (weights + noise).astype(np.float32)
    return networks


def played(policy: Policy, transitions: int, address: int) -> tuple[Array, Array]:
    """Observations ``[agents, transitions, features]`` and actions ``[agents, transitions]`` of whole episodes."""
    steps = policy.spec.horizon
    rollout = collect(environments.make(TASK, transitions // steps), policy, steps, SEED, address, rollout=0)
    observations, actions = (rollout.tensors[f"{rollout_prefix(0)}/{name}/0"] for name in ("observation", "action"))
    return observations.reshape(AGENTS, transitions, -1), actions.reshape(AGENTS, transitions)


def tables(policy: Policy, observations: Array, actions: Array, rng: np.random.Generator) -> dict[str, Array]:
    """The tables that distances need, by name."""
    pool = observations.reshape(-1, observations.shape[-1])
    common = pool[rng.choice(len(pool), OBSERVATIONS, replace=False)]
    (logits,) = policy.logits(
        Observation((np.repeat(common[:, np.newaxis], AGENTS, axis=1),), np.ones((OBSERVATIONS, AGENTS), np.bool_))
    )
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return {
        "behaviour": weights / weights.sum(axis=-1, keepdims=True),
        "values": logits,
        "density": compressed(np.concatenate([observations, np.eye(logits.shape[-1])[actions]], axis=-1)),
    }


def compressed(samples: Array) -> Array:
    """``[agents, K, features]`` in standard deviations over all agents, on their first principal components."""
    rows = samples.reshape(-1, samples.shape[-1]).astype(np.float64)
    rows = rows - rows.mean(axis=0)
    spread = rows.std(axis=0)
    rows = rows / np.where(spread > 0, spread, 1.0)
    _, axes = np.linalg.eigh(rows.T @ rows)  # ascending
    return np.asarray((rows @ axes[:, -COMPONENTS:]).reshape(*samples.shape[:-1], COMPONENTS))


def separation(distance: Array, truth: Sequence[int]) -> float:
    """The least distance between groups over the greatest within. Below 1 twins can be farther apart than non-twins."""
    same = np.equal.outer(truth, truth)
    within = distance[same].max()  # the diagonal is zero
    return float(distance[~same].min() / within) if within > 0 else float("inf")


def ask(name: str, table: Array, found: Found, rng: np.random.Generator) -> None:
    """Groups the agents by one distance and appends the results to `found`."""
    began = time.perf_counter()
    distance = matrix(DISTANCES[name], table)
    found.seconds.append(time.perf_counter() - began)
    found.kmeans.append(adjusted_rand(kmeans(distance, distance, GROUPS, 0.0, rng), PLANTED))
    found.linkage.append(adjusted_rand(agglomerate(distance, np.ones_like(distance, np.bool_), GROUPS), PLANTED))
    found.separation.append(separation(distance, PLANTED))


def stage(rounds: int, trained: Mapping[str, Array]) -> tuple[list[tuple[str, ...]], list[float]]:
    """Rows of the table for one stage of training, and for each pair of twins the share of observations with equal
    greedy actions."""
    spec, team = environments.spec(TASK), Team(groups=tuple(range(AGENTS)))
    rows, alike = [], []
    for transitions in TRANSITIONS:
        found = {name: Found() for name in COMPARED}
        for repetition in range(REPETITIONS):
            rng = generator(SEED, rounds, transitions, "planted", repetition)
            policy = Policy(spec, team, twins(trained, rng))
            inputs = tables(policy, *played(policy, transitions, repetition), rng)
            greedy = inputs["values"].argmax(axis=-1)
            alike += (greedy[0::2] == greedy[1::2]).mean(axis=-1).tolist()
            for name in COMPARED:
                ask(name, inputs[DISTANCES[name].needs], found[name], rng)
        rows += [(str(rounds), f"{transitions:,}", name, *cells(found[name])) for name in COMPARED]
    return rows, alike


def cells(found: Found) -> Iterator[str]:
    """The cells of one distance, in the order of the header."""
    for values in (found.kmeans, found.linkage):
        yield f"{statistics.mean(values):.2f} ({min(values):.2f})"
    yield f"{statistics.median(found.separation):.2f} ({min(found.separation):.2f})"
    yield f"{statistics.median(found.seconds) * 1000:.1f}"


def main() -> None:
    """Trains, groups and prints the table. Progress goes to standard error."""
    lines: list[tuple[str, ...]] = []
    alike = {}
    with tempfile.TemporaryDirectory() as folder:
        for rounds in ROUNDS:
            print(f"after {rounds} rounds", file=sys.stderr, flush=True)
            rows, alike[rounds] = stage(rounds, train(Path(folder) / str(rounds), rounds))
            lines += rows
    print(markdown_table(HEADER, lines, aligned=False))
    same = ", ".join(f"{statistics.mean(shares):.0%} after {rounds} rounds" for rounds, shares in alike.items())
    print(f"\nSeed {SEED}, {REPETITIONS} repetitions, noise {NOISE:g}. Twins would act the same in {same}.")


if __name__ == "__main__":
    main()
