"""The controller decides after every round which agents share networks in the next one, and how many rollouts it has.

The rules of `trend`, `similarity`, `grouping` and `scaling` run in the order of the MARLess paper. Source: "Multi-Agent
Reinforcement Learning with Serverless Computing", SoCC 2025, section 4.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from msgspec import field
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.opponents import takes_identity
from marless.coordinator.core.sides import classes_by_side
from marless.coordinator.placement.list_price import RoundPrice
from marless.coordinator.rules import grouping, roles, scaling, similarity, trend
from marless.coordinator.rules.roles import RoleHistory
from marless.coordinator.rules.scaling_history import ScalingHistory, Signal, convexity
from marless.coordinator.rules.sharing import BASES, SHARING_MODES, all_
from marless.coordinator.rules.trend import TrendHistory
from marless.functions.algorithms.registry import algorithm
from marless.functions.codec import unpack_table
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import agent_name, group_name
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.message import Message, Ref, Table
from marless.functions.messages.team import Team
from marless.functions.randomness import generator

# Another trial begins only if the rejected trials cost at most this share of training's cost.
MAX_REJECTED_TRIALS_SHARE = 0.02


class ControllerState(Message, frozen=True, kw_only=True):
    """The history that the rules need."""

    rollouts: int = 0
    """Rollouts of the coming round."""
    trend: TrendHistory = TrendHistory()
    """Returns from which the rule of the trend decides."""
    scaling: ScalingHistory = ScalingHistory()
    """Measurements from which the scaling rule decides."""
    roles: RoleHistory = RoleHistory()
    """Tests of whether members of a group have different roles."""
    shared: bool = False
    """Whether sharing is on."""
    times_switched_on: int = field(default=0, name="times")
    """How often sharing was switched on."""
    lowest: float | None = None
    """The lowest mean return of a round so far."""
    highest: float | None = None
    """The highest mean return of a round so far."""
    training_cost: float = field(default=0.0, name="trained")
    """The list price of training so far, in prices of a rollout; known only where trials are played."""
    rejected_trials_cost: float = field(default=0.0, name="looked")
    """The list price of trials that were rejected since the team last changed, in prices of a rollout."""


class Proposal(Message, frozen=True, kw_only=True):
    """Another team, until it is accepted or rejected."""

    kind: Literal["share", "split"]
    """Whether groups merge or split."""
    team: Team
    """The new team."""
    bases: dict[int, int]
    """The old group from which each changed group starts."""
    margin: float | None = None
    """The loss of return against the present team that a trial accepts; None without a trial."""
    objects: tuple[Ref, ...] = ()
    """The objects of its state, once its networks exist; as in `State`."""
    parts: dict[str, int] = field(default_factory=dict)
    """The places of its parts in `objects`; as in `State`."""
    look: int = 0
    """Interim analyses of the trial so far."""
    differences: tuple[float, ...] = ()
    """Returns of the trial's episodes, new team minus old."""


@dataclass(frozen=True)
class RoundSignals:
    """Inputs of the rules from one round: mean returns per agent (empty if no episode ended), metrics, tables."""

    returns: tuple[float, ...]
    metrics: Mapping[str, float]
    tables: Mapping[str, Table]


class Decision(Message, frozen=True, kw_only=True):
    """The controller's decision after a finished round."""

    controller: ControllerState
    """The history, with this round."""
    proposal: Proposal | None = None
    """Another team, if the rules propose one."""
    slope: float | None = None
    """The slope of the trend, once its window is full."""
    diversity: float | None = None
    """The diversity of the agents' policies."""
    event: Literal["", "alone"] = ""
    """'alone' when sharing was due and no two policies are similar."""


def initial_state(config: RunConfig) -> ControllerState:
    """The controller before the first round."""
    together = SHARING_MODES[config.sharing.rule].switches and config.sharing.start == "together"
    return ControllerState(rollouts=config.actors.rollouts, shared=together)


def plan_first_round(config: RunConfig, agents: int, price: RoundPrice) -> ControllerState:
    """The controller before the first round, which has as many rollouts as the rule asks for without measurements."""
    controller, rng = initial_state(config), generator(config.seed, 0, "scaling", 0)
    limits = _bounds(config, agents, price, 0.0, 0)
    return replace(controller, rollouts=scaling.rollouts(config.scaling.rule, controller.scaling, limits, rng))


def is_payable(config: RunConfig, controller: ControllerState, price: RoundPrice) -> bool:
    """Return whether `stop.dollars` pays the coming round at list prices. Always true if the rule does not spend."""
    cap = config.stop.dollars
    if cap is None or not scaling.SCALING_RULES[config.scaling.rule].spends:
        return True
    return controller.scaling.spent + price.dollars(controller.rollouts) <= cap


def summaries(config: RunConfig, controller: ControllerState) -> tuple[SummaryName, ...]:
    """The summaries that the learners of the coming round compute."""
    available = algorithm(config.algorithm.name).summaries
    names: set[SummaryName] = {*scaling.needs(config.scaling.rule)}
    mode = SHARING_MODES[config.sharing.rule]
    acts_alike = mode.initial is all_ and not mode.switches and not takes_identity(config.sharing)
    if "behaviour" in available and not acts_alike:
        names.add("behaviour")
    if mode.roles and not controller.roles.rounds_to_skip:
        names.add("rewards")
    deciding = len(controller.trend.window) + 1 >= config.trend.window and not controller.shared
    if mode.switches and deciding:
        names.add(cast(SummaryName, similarity.DISTANCES[config.sharing.distance].needs))  # checked with the config
        names |= {*BASES[config.sharing.base].needs}
    return tuple(sorted(names))


def looks_at_rounds(config: RunConfig) -> bool:
    """Return whether a rule needs the results of a round before the next round is sampled."""
    return SHARING_MODES[config.sharing.rule].switches or scaling.SCALING_RULES[config.scaling.rule].adapts


def plan_next_round(
    config: RunConfig,
    spec: EnvSpec,
    team: Team,
    controller: ControllerState,
    signals: RoundSignals,
    round_: int,
    price: RoundPrice,
) -> Decision:
    """The decision after round `round_`, with rounds of this team at that `price`."""
    if SHARING_MODES[config.sharing.rule].switches and config.sharing.trial:
        controller = replace(controller, training_cost=controller.training_cost + price.overhead + controller.rollouts)
    controller = _remember(config, team, controller, signals, price)
    proposal, slope = _propose_split_by_roles(config, team, controller, round_), None
    event: Literal["", "alone"] = ""
    if len(controller.trend.window) == config.trend.window:
        values = trend.values(controller.trend)
        slope = trend.slope(values)
        judge = trend.TRENDS[config.trend.rule]
        # Learners measure how similar policies are, so a round must have learners.
        due = proposal is None and round_ >= config.pipeline.lag and _may_switch(config, controller)
        if due and judge(values, config.trend.gamma, config.trend.alpha):
            proposal = _propose(config, spec, team, controller, signals, round_)
            event = "" if proposal else "alone"
            controller = replace(controller, trend=trend.clear_window(controller.trend))
    rng = generator(config.seed, round_, "scaling")
    limits = _bounds(config, len(spec.agents), price, controller.scaling.spent, round_ + 1)
    rollouts = scaling.rollouts(config.scaling.rule, controller.scaling, limits, rng)
    return Decision(
        controller=replace(controller, rollouts=rollouts),
        proposal=proposal,
        slope=slope,
        diversity=_diversity(spec, team, signals),
        event=event,
    )


def _may_switch(config: RunConfig, controller: ControllerState) -> bool:
    """Return whether the trend may switch sharing on or off now.

    Another trial waits until rejected trials cost at most `MAX_REJECTED_TRIALS_SHARE` of the bill. A split needs no
    trial.
    """
    mode = SHARING_MODES[config.sharing.rule]
    if controller.shared:
        return mode.switches and not mode.never_switches_off
    return mode.switches and controller.rejected_trials_cost <= MAX_REJECTED_TRIALS_SHARE * controller.training_cost


def accept_proposal(controller: ControllerState, proposal: Proposal) -> ControllerState:
    """The controller's state once the proposal is accepted."""
    sharing = proposal.kind == "share"
    return replace(
        controller,
        shared=sharing,
        times_switched_on=controller.times_switched_on + sharing,
        scaling=scaling.clear_windows(controller.scaling),
        roles=roles.restart(controller.roles),
        rejected_trials_cost=0.0,
    )


def reject_proposal(controller: ControllerState, overhead: float, rollouts: float) -> ControllerState:
    """Return the controller's state after a rejected proposal. Its trial cost as much as `rollouts` rollouts."""
    cost = controller.rejected_trials_cost + overhead + rollouts
    return replace(controller, rejected_trials_cost=cost, roles=roles.restart(controller.roles))


def _remember(
    config: RunConfig, team: Team, controller: ControllerState, signals: RoundSignals, price: RoundPrice
) -> ControllerState:
    by_group, rule = {group: _signal(signals.metrics, group) for group in team.learning}, config.scaling.rule
    learner_returns = [signals.returns[agent] for agent in team.learners] if signals.returns else []
    mean = sum(learner_returns) / len(learner_returns) if learner_returns else None
    history = scaling.add_round(controller.scaling, by_group, config.trend.window, rule, mean)
    if scaling.SCALING_RULES[rule].spends:
        history = replace(history, spent=history.spent + price.dollars(controller.rollouts))
    controller = replace(controller, scaling=history, roles=_updated_roles(config, team, controller, signals))
    if not signals.returns:
        return controller
    returns = [signals.returns[agent] for agent in team.learners]
    total = sum(returns)
    return replace(
        controller,
        trend=trend.add_round(controller.trend, returns, config.trend.window),
        lowest=total if controller.lowest is None else min(controller.lowest, total),
        highest=total if controller.highest is None else max(controller.highest, total),
    )


def _updated_roles(config: RunConfig, team: Team, controller: ControllerState, signals: RoundSignals) -> RoleHistory:
    """Return the updated history of the members' roles. Learners report errors unless the rule pauses."""
    history, agents = controller.roles, range(len(team.groups))
    if history.rounds_to_skip:
        return roles.skip_round(history)
    errors = {}
    for group in team.learning:
        members = [agent for agent in agents if team.groups[agent] == group]
        if all(f"rewards/{agent_name(agent)}" in signals.tables for agent in members):
            errors[tuple(members)] = _stack(signals, "rewards", members).swapaxes(0, 1)
    if not errors:
        return history
    blocks = {error.shape[-1] for error in errors.values()}
    joint_errors = np.zeros((len(agents), len(agents), *blocks))
    for group_members, error in errors.items():
        joint_errors[np.ix_(group_members, group_members)] = error
    return roles.update_role_test(history, team.groups, joint_errors, config.sharing.error)


def _propose_split_by_roles(config: RunConfig, team: Team, controller: ControllerState, round_: int) -> Proposal | None:
    if not roles.rejects_equal_roles(controller.roles, config.sharing.error):
        return None
    groups = roles.proposed_groups(controller.roles, team.groups)
    if SHARING_MODES[config.sharing.rule].random_groups:
        groups = roles.random_groups(team.groups, groups, generator(config.seed, round_, "roles"))
    bases = _bases_of_finer(team.groups, groups)
    return Proposal(kind="split", team=replace(team, groups=groups), bases=bases) if bases else None


def _bases_of_finer(before: Sequence[int], groups: Sequence[int]) -> dict[int, int]:
    """Map each new group among `groups`, finer than `before`, to the old group that it was split from."""
    return {group: before[group] for group in sorted(set(groups)) if groups.count(group) < before.count(before[group])}


def _signal(metrics: Mapping[str, float], group: int) -> Signal:
    metric_names = {
        "largest": "curvature/largest",
        "smallest": "curvature/smallest",
        "trace": "noise/trace",
        "square": "noise/square",
    }
    return Signal(**{field: metrics.get(f"{name}/{group_name(group)}") for field, name in metric_names.items()})


def _bounds(
    config: RunConfig, agents: int, price: RoundPrice, spent_dollars: float, finished_rounds: int
) -> scaling.Bounds:
    most, rule = config.actors.rollouts, scaling.SCALING_RULES[config.scaling.rule]
    least = config.scaling.min_rollouts or rule.floor or -(-most // agents)
    if "noise" in rule.needs:
        least = max(2, least)  # the variance over rollouts needs two
    limits = scaling.Bounds(
        most=most,
        least=min(least, most),
        beta=config.scaling.beta,
        overhead=price.overhead,
        target=math.inf if config.stop.return_ is None else config.stop.return_,
    )
    dollars, rounds = config.stop.dollars, config.stop.rounds
    if not rule.spends or dollars is None or rounds is None:
        return limits
    return dataclasses.replace(limits, left=(dollars - spent_dollars) / price.rollout, rounds=rounds - finished_rounds)


def _propose(
    config: RunConfig, spec: EnvSpec, team: Team, controller: ControllerState, signals: RoundSignals, round_: int
) -> Proposal | None:
    if controller.shared:
        apart = tuple(range(len(spec.agents)))
        bases = _bases_of_finer(team.groups, apart)
        return Proposal(kind="split", team=replace(team, groups=apart), bases=bases) if bases else None
    groups = _group_agents(config, spec, team, controller, signals, round_)
    if SHARING_MODES[config.sharing.rule].roles and roles.separate_pairs(team.groups, groups):
        return None
    bases = {}
    for group in sorted(set(groups)):
        members = [agent for agent, of in enumerate(groups) if of == group]
        if len({team.groups[member] for member in members}) > 1:
            bases[group] = team.groups[grouping.choose_base(members, _scores(config, team, controller, signals))]
    if not bases:
        return None
    return Proposal(kind="share", team=replace(team, groups=groups), bases=bases, margin=_margin(config, controller))


def _margin(config: RunConfig, controller: ControllerState) -> float | None:
    if not config.sharing.trial or controller.lowest is None or controller.highest is None:
        return None
    return config.sharing.margin * (controller.highest - controller.lowest)


def _group_agents(
    config: RunConfig, spec: EnvSpec, team: Team, controller: ControllerState, signals: RoundSignals, round_: int
) -> tuple[int, ...]:
    sharing = config.sharing
    distance, rule = similarity.DISTANCES[sharing.distance], grouping.GROUPINGS[sharing.grouping]

    def label(agents: Sequence[int]) -> Sequence[int]:
        """Labels of the agents of one class and side."""
        tables = _stack(signals, distance.needs, agents)
        rng = generator(config.seed, round_, "grouping", agents[0])
        return rule(
            similarity.matrix(distance, tables),
            similarity.upper(distance, tables, sharing.confidence, rng),
            grouping.policy_count(controller.times_switched_on + 1, len(agents), sharing.cap),
            sharing.epsilon,
            rng,
        )

    # Every opponent is a class by itself, so that its group stays its own.
    classes = [-agent - 1 if agent in team.fixed else kind for agent, kind in enumerate(classes_by_side(spec))]
    return grouping.groups_of(classes, label)


def _scores(config: RunConfig, team: Team, controller: ControllerState, signals: RoundSignals) -> Mapping[int, float]:
    base, by_agent = BASES[config.sharing.base], dict[int, float]()
    if "curvature" in base.needs:
        ratios = {group: convexity(_signal(signals.metrics, group)) for group in set(team.groups)}
        by_agent = {agent: ratios[group] for agent, group in enumerate(team.groups)}
    means = np.mean(controller.trend.window, axis=0)
    return base.score(dict(zip(team.learners, means.tolist(), strict=True)), by_agent)


def _diversity(spec: EnvSpec, team: Team, signals: RoundSignals) -> float | None:
    """System neural diversity of the largest class of agents that learn, by the Jensen-Shannon distance."""
    agents = max((tuple(sorted({*kind.agents} & {*team.learners})) for kind in spec.classes), key=len)
    if len({team.groups[agent] for agent in agents}) == 1 and not team.identity:
        return 0.0
    if not all(f"behaviour/{agent_name(agent)}" in signals.tables for agent in agents):
        return None
    distance = similarity.DISTANCES["jsd"]
    return similarity.diversity(similarity.matrix(distance, _stack(signals, distance.needs, agents)))


def _stack(signals: RoundSignals, summary: str, agents: Sequence[int]) -> NDArray[np.float32]:
    return np.stack([unpack_table(signals.tables[f"{summary}/{agent_name(agent)}"]) for agent in agents])
