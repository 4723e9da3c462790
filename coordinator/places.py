"""Where the coming round runs: as the user set it, or as the planner finds cheapest."""

from coordinator import planner
from coordinator.config import RunConfig
from coordinator.homes import spec_of
from coordinator.layout import Workload
from coordinator.placing import Placing
from coordinator.planner import Terms
from coordinator.state import Plan, State
from coordinator.tasks import undisturbed, unit_steps
from functions.environments.base import Spec

# What stages pass on for every row: advantage, target and value.
_PASSED_BYTES = 12


def placed(plan: Plan, state: State) -> Placing:
    """The placement of the round that begins."""
    if plan.config.placement.rule != "auto":
        return fixed(plan.config)
    return planner.plan(state.round, workload(plan, state), state.timings, terms(plan, state), state.placing)


def changed(plan: Plan, state: State) -> bool:
    """Whether the user has set another placement than the round in flight began with."""
    return plan.config.placement.rule != "auto" and state.placing != fixed(plan.config)


def fixed(config: RunConfig) -> Placing:
    """What the user set."""
    chosen = config.placement
    assert chosen.rule != "auto"
    return Placing(
        rule=chosen.rule,
        units_per_invocation=chosen.units_per_invocation,
        rounds=chosen.rounds,
        carry=chosen.carry,
        checkpoint_every=config.checkpoint_every,
        memory_mb={},
    )


def workload(plan: Plan, state: State) -> Workload:
    """What the coming round is."""
    assert state.team is not None
    groups = state.team.groups
    policies = {index for part, index in state.parts.items() if part.startswith("policy/")}
    steps = unit_steps(plan, state)
    return Workload(
        agents=len(groups),
        members={group: groups.count(group) for group in state.groups},
        stages=spec_of(plan).stages,
        units=state.mind.units,
        unit_steps=steps,
        most_rounds=undisturbed(plan, state),
        unit_bytes=_unit_bytes(state.task, steps),
        policy_bytes=sum(ref.size for index, ref in enumerate(state.objects) if index in policies),
        learner_bytes=sum(ref.size for index, ref in enumerate(state.objects) if index not in policies),
        ledger_bytes=state.item_bytes,
        width=plan.width,
        tensor_bytes=_PASSED_BYTES * steps * state.mind.units * len(groups),
    )


def terms(plan: Plan, state: State) -> Terms:
    """What the planner may do, and at what prices."""
    config, sizes = plan.config, plan.config.functions
    functions = {"actor": sizes.actor, "learner": sizes.learner}
    return Terms(
        prices=plan.prices,
        architecture=config.pricing.architecture,
        storage=config.pricing.storage,
        memory_mb={name: size.memory_mb for name, size in functions.items()},
        timeout_s={name: size.timeout_s for name, size in functions.items()},
        checkpoint_every=config.checkpoint_every,
        peak_mb=state.peaks,
        deadline_s=config.placement.deadline_s,
        dollars_per_hour=config.placement.dollars_per_hour,
    )


def _unit_bytes(spec: Spec, steps: int) -> float:
    """Bytes of a unit's trajectory as `functions.actor.trajectory` lays it out, what follows its cuts left out."""
    row = float(4 * spec.state_size + 1)
    for kind in spec.classes:
        # Observation, action, log-probability, reward; terminated, alive; the mask.
        row += len(kind.agents) * (4 * kind.observation_size + 12 + 2 + (kind.actions if spec.masked else 0))
    return row * steps
