"""A lower bound on the memory of a function that learns or plays, known before a run begins.

Networks, their optimiser state (`AlgorithmSpec.part_bytes`) and observations count. The interpreter, minibatches,
activations, a process's caches (`marless.functions.warm_cache`) and most memory of objects in transit do not. A
function needs more than this bound, unless a limit ends the run before its replay buffer has grown so far. Such limits
are `stop.seconds`, `stop.dollars` and `stop.return`. A function with more memory may still be too small. A local
machine enforces no such size, but the bill assumes functions of these sizes.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.placement.placement_rules import PACKED, PLACEMENTS, Work, halves_of
from marless.coordinator.platform import Platform
from marless.functions.algorithms.registry import algorithm
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team

Sizes = Mapping[int, Mapping[str, int]]
"""Bytes by group and part."""


class Footprint(NamedTuple):
    """Bytes of networks with their optimiser state, and of observations."""

    networks: int
    data: int = 0

    @property
    def megabytes(self) -> int:
        """Of both, rounded up."""
        return -(-sum(self) // 2**20)


def learner(config: RunConfig, spec: EnvSpec, team: Team, platform: Platform) -> Footprint:
    """Return the footprint of a learner's largest task: it draws all groups' first networks, then learns as placed.

    `auto` begins with one learner for all groups. `whole` has one learner too, and it also plays. A learner of
    `balanced` has all groups on a `platform` of one slot. Otherwise it has at least one group, or half if allowed.
    """
    algorithm_spec, rule, sizes = (
        algorithm(config.algorithm.name),
        config.placement.rule,
        part_sizes(config, spec, team),
    )
    placement = PLACEMENTS[rule]
    has_all = placement.planned or placement.one_function or (placement.balances and platform.concurrency == 1)
    place = PLACEMENTS[PACKED] if has_all else placement
    # All updates after the first need the same memory.
    updates = min(2, config.algorithm.updates_per_round)
    may_halve = not has_all and placement.packs_groups(len(team.learning), platform)
    is_halved = may_halve and halves_of(algorithm_spec.stages, updates)
    packs = tuple((group,) for group in team.learning) * 2 if is_halved else ()
    schedule = place(algorithm_spec.stages, team.learning, updates, packs)
    data, works = _data_bytes(config, spec), itertools.chain.from_iterable(schedule)
    tasks = [
        Footprint(_initialise_bytes(sizes)),
        *(
            Footprint(_training_bytes(algorithm_spec, sizes, work) + _sums_bytes(config, sizes, work), data)
            for work in works
        ),
    ]
    if placement.one_function:
        tasks.append(Footprint(_batched_bytes(sizes, team) + sum(sum(parts.values()) for parts in sizes.values())))
    return max(tasks, key=sum)


def player(config: RunConfig, spec: EnvSpec, team: Team) -> Footprint:
    """The footprint of an actor or evaluator: the policies as they are read, and batched, a copy for every agent."""
    sizes = part_sizes(config, spec, team)
    return Footprint(sum(parts.get("policy", 0) for parts in sizes.values()) + _batched_bytes(sizes, team))


def part_sizes(config: RunConfig, spec: EnvSpec, team: Team) -> Sizes:
    """Return part sizes in bytes by learning group.

    Empty without `part_bytes`, and if the algorithm rejects the task. Raises `ValueError` if a plug-in's fails.
    """
    part_bytes = algorithm(config.algorithm.name).part_bytes
    try:
        settings = config.algorithm.resolved(spec)
        sizes = {group: part_bytes(spec, team, settings, group) if part_bytes else {} for group in team.learning}
    except BadRequest:
        return {group: {} for group in team.learning}
    except Exception as error:
        problem = f"cannot compute the bytes of its state: {type(error).__name__}: {error}"
        raise ValueError(f"algorithm {config.algorithm.name} {problem}") from error
    if config.base.policies is None:
        return sizes
    # The moments of a difference may be as small as its rank.
    return {
        group: {part: 0 if part.endswith("_optimiser") else size for part, size in parts.items()}
        for group, parts in sizes.items()
    }


def _initialise_bytes(sizes: Sizes) -> int:
    """The arrays, and the object's bytes of all parts but the policies. The system allocates no memory for optimiser
    moments that are still zeros."""
    every = [item for parts in sizes.values() for item in parts.items()]
    arrays = sum(size for part, size in every if not part.endswith("_optimiser"))
    return arrays + sum(size for part, size in every if part != "policy")


def _batched_bytes(sizes: Sizes, team: Team) -> int:
    return sum(sizes[team.groups[agent]].get("policy", 0) for agent in team.learners)


def _training_bytes(algorithm_spec: AlgorithmSpec, sizes: Sizes, work: Work) -> int:
    """Return the bytes of the parts that the work's stages read, and of their new versions. The network in training
    needs another copy, a gradient and a scratch array. Untrained parts keep their arrays."""
    resident = peak = sum(sizes[group].get(part, 0) for part, group in {*work.reads(algorithm_spec.stages)})
    counted_parts = set[tuple[str, int]]()
    runs = [*work.runs(algorithm_spec.stages)]
    for stage, group in runs * work.updates:
        for part in stage.writes:
            network, moments = (sizes[group].get(name, 0) for name in (part, f"{part}_optimiser"))
            if moments:
                peak = max(peak, resident + 3 * network + moments)
                resident += 0 if (part, group) in counted_parts else network + moments
                counted_parts.add((part, group))
    return peak


def _sums_bytes(config: RunConfig, sizes: Sizes, work: Work) -> int:
    """A gradient of every network that the work's groups train, of each micro-batch."""
    gradients = sum(gradient_bytes(sizes[group]) for group in work.groups)
    return config.pipeline.micro_batches(config.actors.rollouts) * gradients


def gradient_bytes(parts: Mapping[str, int]) -> int:
    """A gradient of every network of a group that is trained, from the bytes of its `parts`."""
    return sum(size for part, size in parts.items() if f"{part}_optimiser" in parts)


def _data_bytes(config: RunConfig, spec: EnvSpec) -> int:
    """Return the bytes of a round's observations, and of the rounds in the replay buffer. Several rollouts are read and
    then joined. If the task has no state, observations are also concatenated."""
    observations = 4 * sum(len(kind.agents) * kind.observation_size for kind in spec.classes)
    step, rollouts = observations + 4 * spec.state_size, config.actors.rollouts
    batch_bytes = (step if rollouts > 1 else 0) + (0 if spec.state_size else observations)
    steps = rollouts * config.actors.num_envs * (config.actors.rollout_length or spec.horizon)
    return steps * (step + batch_bytes + step * _past_rounds(config, steps))


def _past_rounds(config: RunConfig, steps: int) -> int:
    replayed_steps = config.algorithm.replayed_steps
    return max(1, min(replayed_steps // steps, config.learned_rounds(steps))) if replayed_steps else 0
