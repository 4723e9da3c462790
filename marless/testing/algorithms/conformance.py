"""The conformance suite: tests algorithms on random tasks against the rules of `marless.functions.algorithms.stage`.

Plug-in authors run ``check(SPEC)`` in their tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.config.config_keys import descriptions
from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec
from marless.functions.algorithms.stage import Context, Implementation
from marless.functions.algorithms.validation import missing_stages, violation
from marless.functions.data import batch
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey, rollout_keys
from marless.functions.data.trajectory import rollout_prefix, tensors_below
from marless.functions.encoding import from_json, to_json
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.keys import group_name
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.learner import Hyperparameters, Past, newest_rounds
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.testing.algorithms.check_merge import check_merge
from marless.testing.algorithms.check_schedule import check_placements, check_whole
from marless.testing.algorithms.check_stages import check_stages
from marless.testing.algorithms.check_sums import check_sums
from marless.testing.algorithms.random_tasks import TASKS, RandomTask, teams
from marless.testing.algorithms.tools import digest, expect, first, hint, instances, require

Tensors = dict[str, NDArray[Any]]

_SEED, _ROUNDS, _NUM_ENVS, _ROLLOUTS = 20, 2, 3, 2


@dataclass(frozen=True)
class _Case:
    algorithm: AlgorithmSpec
    code: Implementation
    config: AlgorithmConfig
    task: EnvSpec
    team: Team

    def __str__(self) -> str:
        identity = " with identities" if self.team.identity else ""
        return f"{len(self.task.agents)} agents in groups {self.team.groups}{identity}"

    @property
    def groups(self) -> list[int]:
        """The team's groups, ascending."""
        return sorted(set(self.team.groups))

    @property
    def resolved_config(self) -> AlgorithmConfig:
        """The configuration that stages receive."""
        return self.config.resolved(self.task)


def check(
    spec: AlgorithmSpec,
    hyperparameters: Hyperparameters | None = None,
    tasks: Sequence[EnvSpec] = tuple(TASKS.values()),
) -> tuple[str, ...]:
    """Trains two rounds of every task with every kind of team under every placement rule, and checks each stage alone.

    Small `hyperparameters` make it quick. Returns the messages of `BadRequest`, which `initialise` raises for
    unsupported spaces. One task must be accepted. Raises `AssertionError` naming the violated rule.
    """
    require(not (wrong := violation(spec)), f"the specification: {wrong}")
    code, config = _code(spec), _make_config(spec, hyperparameters or {})
    _check_config(spec, config, tasks[0])
    spec_of_config = spec.without(config.idle_parts)
    refusals = []
    for task in tasks:
        try:
            code.initialise(task, teams(task)[0], config.resolved(task), _SEED, 0)
        except BadRequest as refusal:
            refusals.append(str(refusal))
            continue
        for team in teams(task):
            _check_case(_Case(spec_of_config, code, config, task, team))
        if spec.summaries:
            _check_merges(_Case(spec_of_config, code, config, task, Team(groups=teams(task)[0].groups, identity=True)))
    require(len(refusals) < len(tasks), f"no task is good enough: {first(refusals)}")
    return tuple(refusals)


def _code(spec: AlgorithmSpec) -> Implementation:
    with expect(f"the implementation {spec.implementation}", BadRequest, MissingExtra):
        code = registry.implementation(spec)
    require(not (wrong := missing_stages(spec, code)), f"the implementation {spec.implementation}: {wrong}")
    return code


def _make_config(spec: AlgorithmSpec, hyperparameters: Hyperparameters) -> AlgorithmConfig:
    with expect("the configuration", BadRequest):
        return registry.configuration(spec, hyperparameters)


def _check_config(spec: AlgorithmSpec, config: AlgorithmConfig, task: EnvSpec) -> None:
    for name in spec.config.__struct_fields__:
        require(name in descriptions(spec.config), f"the configuration's {name} has no description")
    with expect("the configuration", BadRequest):
        payload = to_json(registry.hyperparameters(config))
        round_trip = registry.configuration(spec, from_json(payload, Hyperparameters))
    require(round_trip == config, f"the configuration is not the same after it travelled: {round_trip}, not {config}")
    require(config.updates_per_round >= 1, "the configuration's updates_per_round is less than 1")
    require(config.replayed_steps >= 0, "the configuration's replayed_steps is negative")
    require(isinstance(config.behaviour(0), Behaviour), "the configuration's behaviour(0) is no Behaviour")
    require(type(config.resolved(task)) is spec.config, "the configuration's resolved(task) is not of its own class")


def _check_case(case: _Case) -> None:
    with hint(str(case)):
        state, trajectories = _initial(case), dict[int, Tensors]()
        whole = state
        for round_ in range(_ROUNDS):
            trajectories[round_] = _play(case, state, round_)
            context = _context(case, state, trajectories)
            with hint(f"round {round_}"):
                state = check_stages(case.algorithm, case.code, context)
                check_placements(case.algorithm, case.code, context, state)
                whole = check_whole(case.algorithm, case.code, context, whole, state)
        if case.algorithm.sum_parts and not case.config.passes:
            with hint("a round that is summed part by part"):
                context, newest = _context(case, state, trajectories), trajectories[max(trajectories)]
                check_sums(case.algorithm, case.code, context, newest, range(_ROLLOUTS))
        if case.config.stale_reads:
            _check_old_data(case, state, trajectories)


def _check_old_data(case: _Case, state: Tensors, trajectories: dict[int, Tensors]) -> None:
    """A round that learns from the newest trajectories, which the policies before the last round sampled."""
    algorithm = case.algorithm.reading(case.config.stale_reads)
    context = replace(_context(case, state, trajectories), round=_ROUNDS, age=1)
    with hint("a round that learns from the round before"):
        check_placements(algorithm, case.code, context, check_stages(algorithm, case.code, context))


def _check_merges(case: _Case) -> None:
    """Applies only to algorithms with summaries, because merges are decided from summaries."""
    with hint(str(case)):
        state = _initial(case)
        check_merge(case.code, _context(case, state, {0: _play(case, state, 0)}))


def _initial(case: _Case) -> Tensors:
    state: Tensors = {}
    for group in case.groups:
        where = f"initialise, group {group}"
        tensors, again = (
            case.code.initialise(case.task, case.team, case.resolved_config, _SEED, group) for _ in range(2)
        )
        require(digest(tensors) == digest(again), f"{where}: another call gives other bytes; draw from generator(...)")
        of_group = instances(tensors, case.algorithm.parts, [group])
        foreign = sorted(tensors.keys() - of_group.keys())
        require(not foreign, f"{where}: gives {first(foreign)}, which is no <part>/{group_name(group)}")
        require(any(name.startswith("policy/") for name in of_group), f"{where}: gives no policy")
        non_finite = [
            name for name, array in of_group.items() if array.dtype.kind == "f" and not np.isfinite(array).all()
        ]
        require(not non_finite, f"{where}: {first(non_finite)} holds NaN or infinity")
        _check_bytes(case, group, of_group)
        state |= tensors
    return state


def _check_bytes(case: _Case, group: int, tensors: Tensors) -> None:
    """Raises `AssertionError` for overstated bytes: runs that fit would be refused."""
    part_bytes = case.algorithm.part_bytes
    for part, size in part_bytes(case.task, case.team, case.resolved_config, group).items() if part_bytes else ():
        stored_bytes = sum(array.nbytes for array in instances(tensors, (part,), [group]).values())
        require(size <= stored_bytes, f"part_bytes, group {group}: {size} bytes for {part!r}, which has {stored_bytes}")


def _play(case: _Case, state: Tensors, round_: int) -> Tensors:
    tensors: Tensors = {}
    with expect("actors cannot play with the policies", Exception):
        policy = Policy(case.task, case.team, instances(state, ("policy",), case.groups))
        for rollout in range(_ROLLOUTS):
            environment = RandomTask(case.task, _NUM_ENVS)
            behaviour = case.resolved_config.behaviour(round_ * _ROLLOUTS * _NUM_ENVS * _steps(case))
            tensors |= collect(environment, policy, _steps(case), _SEED, round_, rollout, behaviour).tensors
    return tensors


def _steps(case: _Case) -> int:
    return case.task.horizon + 2


def _context(case: _Case, state: Tensors, trajectories: dict[int, Tensors]) -> Context[AlgorithmConfig]:
    round_ = max(trajectories)
    rollouts = tuple(range(_ROLLOUTS))
    return Context(
        spec=case.task,
        team=case.team,
        config=case.resolved_config,
        seed=_SEED,
        round=round_,
        batch=batch.join(case.task, trajectories[round_], rollouts),
        tensors=state,
        replay_buffer=_replay_buffer(case, trajectories) if case.config.replayed_steps else None,
    )


def _replay_buffer(case: _Case, trajectories: dict[int, Tensors]) -> ReplayBuffer:
    replay_buffer = ReplayBuffer(case.task)
    rounds = [Past(round=round_, rollouts=_ROLLOUTS, trajectories=()) for round_ in sorted(trajectories)]

    def read(rollouts: Sequence[RolloutKey]) -> dict[RolloutKey, Tensors]:
        return {
            rollout: tensors_below(trajectories[rollout.round], f"{rollout_prefix(rollout.rollout)}/")
            for rollout in rollouts
        }

    replay_buffer.load(rollout_keys(newest_rounds(rounds, _NUM_ENVS * _steps(case), case.config.replayed_steps)), read)
    return replay_buffer
