"""What a function must hold at the least to learn or to play, known before anything of it is made.

Counted is what is surely there at one moment: networks and what trains them, as `AlgorithmSpec.part_bytes` tells, and
what agents saw. Not counted are the interpreter, minibatches, activations, and most of what objects take on their way.
So a function comes to need more than is said here, unless `stop.seconds`, `stop.dollars` or `stop.return` end the run
before its window has grown so far; one that has more may still be too small. On a machine of one's own nothing enforces
these sizes. They hold there, too, because the bill is that of functions of these sizes.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from coordinator.config.schema import RunConfig
from coordinator.placement.rules import LEARNER_PLACEMENTS, Work
from functions.algorithms.base import AlgorithmSpec
from functions.algorithms.registry import algorithm
from functions.contract import BadRequest, Team
from functions.environments.base import EnvSpec

Sizes = Mapping[int, Mapping[str, int]]
"""Bytes by group and part."""


class Footprint(NamedTuple):
    """Bytes of networks with what trains them, and of what agents saw."""

    networks: int
    data: int = 0

    @property
    def megabytes(self) -> int:
        """Of both, rounded up."""
        return -(-sum(self) // 2**20)


def learner(config: RunConfig, spec: EnvSpec, team: Team) -> Footprint:
    """Of the largest task of a learner: it draws the first networks of all groups, and then learns as the rule of
    placement has it. `auto` begins with one learner for all; so does `whole`, whose learner plays, too.
    """
    own, rule, sizes = algorithm(config.algorithm.name), config.placement.rule, _sizes(config, spec, team)
    place = LEARNER_PLACEMENTS["packed" if rule == "auto" or rule == "whole" else rule]
    # What is true of the second update is true of all others.
    waves = place(own.stages, team.learning, min(2, config.algorithm.updates_per_round))
    seen, works = _learned_from(config, spec), itertools.chain.from_iterable(waves)
    tasks = [Footprint(_drawing(sizes)), *(Footprint(_training(own, sizes, work), seen) for work in works)]
    if rule == "whole":
        tasks.append(Footprint(_stacked(sizes, team) + sum(sum(parts.values()) for parts in sizes.values())))
    return max(tasks, key=sum)


def player(config: RunConfig, spec: EnvSpec, team: Team) -> Footprint:
    """Of an actor or evaluator: the policies as they come, and stacked, a copy for every agent."""
    sizes = _sizes(config, spec, team)
    return Footprint(sum(parts.get("policy", 0) for parts in sizes.values()) + _stacked(sizes, team))


def _sizes(config: RunConfig, spec: EnvSpec, team: Team) -> Sizes:
    """Nothing where the algorithm does not tell, or is not made for the task, which is said when networks are drawn.

    Raises `ValueError` where an algorithm of another package fails to tell.
    """
    told = algorithm(config.algorithm.name).part_bytes
    try:
        resolved = config.algorithm.resolved(spec)
        return {group: told(spec, team, resolved, group) if told else {} for group in team.learning}
    except BadRequest:
        return {group: {} for group in team.learning}
    except Exception as error:
        problem = f"does not tell how large its state is: {type(error).__name__}: {error}"
        raise ValueError(f"algorithm {config.algorithm.name} {problem}") from error


def _drawing(sizes: Sizes) -> int:
    """The arrays, and of all but the policies the bytes of their object; moments are zeros that were never written, for
    which the system gives no memory."""
    every = [item for parts in sizes.values() for item in parts.items()]
    arrays = sum(size for part, size in every if not part.endswith("_optimiser"))
    return arrays + sum(size for part, size in every if part != "policy")


def _stacked(sizes: Sizes, team: Team) -> int:
    return sum(sizes[team.groups[agent]].get("policy", 0) for agent in team.learners)


def _training(own: AlgorithmSpec, sizes: Sizes, work: Work) -> int:
    """What the work's stages read, what of it they have made anew, and at the network whose turn it is another copy, a
    gradient and a scratch; other parts may go on as the arrays that they were."""
    stages = [own.stage(name) for name in work.stages]
    reads = {part for stage in stages for part in stage.reads}
    held = most = sum(sizes[group].get(part, 0) for group in work.groups for part in reads)
    made = set[tuple[str, int]]()
    for _, stage, group in itertools.product(range(work.updates), stages, work.groups):
        for part in stage.writes:
            network, moments = (sizes[group].get(name, 0) for name in (part, f"{part}_optimiser"))
            if moments:
                most = max(most, held + 3 * network + moments)
                held += 0 if (part, group) in made else network + moments
                made.add((part, group))
    return most


def _learned_from(config: RunConfig, spec: EnvSpec) -> int:
    """What agents saw in a round: as it is read, joined where there are several units, and side by side where the task
    has no state of its own; and in the rounds that are remembered."""
    observations = 4 * sum(len(kind.agents) * kind.observation_size for kind in spec.classes)
    step, rollouts = observations + 4 * spec.state_size, config.scaling.rollouts
    joined = (step if rollouts > 1 else 0) + (0 if spec.state_size else observations)
    steps = rollouts * config.actors.num_envs * (config.actors.rollout_length or spec.horizon)
    return steps * (step + joined + step * _remembered(config, steps))


def _remembered(config: RunConfig, steps: int) -> int:
    """How many rounds of so many steps the window holds when the run has gone as far as `stop.rounds` and
    `stop.env_steps` let it; where neither is given, only the first is sure."""
    if not config.algorithm.replayed_steps:
        return 0
    stop = config.stop
    rounds_of_steps = None if stop.env_steps is None else -(-stop.env_steps // steps)
    limits = [rounds for rounds in (stop.rounds, rounds_of_steps) if rounds is not None] or [1]
    return max(1, min(config.algorithm.replayed_steps // steps, *limits))
