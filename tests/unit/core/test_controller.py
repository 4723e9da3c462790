"""The controller as a whole. Each rule has separate tests."""

import numpy as np
import pytest
from msgspec.structs import replace

from marless.coordinator.config.loading import load
from marless.coordinator.core.controller import (
    ControllerState,
    RoundSignals,
    accept_proposal,
    initial_state,
    looks_at_rounds,
    plan_next_round,
    summaries,
)
from marless.coordinator.placement.list_price import RoundPrice
from marless.functions.codec import pack_table
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.keys import agent_name
from marless.functions.messages.team import Team

SPEC = EnvSpec(
    agents=("a", "b", "c", "d", "e"),
    classes=(AgentClass("good", (0, 1, 2, 3), 3, 2), AgentClass("bad", (4,), 4, 2)),
    horizon=5,
)
APART = Team(groups=(0, 1, 2, 3, 4), identity=True)
# Under this threshold every full window flips: gradients of normalised returns are far below 100.
ALWAYS = ("trend.rule=paper", "trend.gamma=100.0", "trend.window=3")
DYNAMIC = (*ALWAYS, "sharing.rule=dynamic", "sharing.start=apart")


def settings(*overrides):
    return load(None, ["actors.rollouts=8", *overrides])


def round_signals(probabilities=(0.1, 0.1, 0.9, 0.9, 0.1), returns=(1.0, 2.0, 3.0, 4.0, 5.0), **metrics):
    """A round with agents that take their first action with `probabilities[i]` (agent i) for every observation."""
    tables = {
        f"behaviour/{agent_name(agent)}": pack_table(np.tile([p, 1 - p], (16, 1)))
        for agent, p in enumerate(probabilities)
    }
    return RoundSignals(tuple(returns), {name.replace("__", "/"): value for name, value in metrics.items()}, tables)


def after(rounds, config, team=APART, controller=None, show=round_signals):
    controller, decision = controller or initial_state(config), None
    for round_ in range(rounds):
        decision = plan_next_round(config, SPEC, team, controller, show(), round_, price=RoundPrice(10.0))
        controller = decision.controller
    return decision


def test_nothing_is_proposed_before_the_window_is_full():
    assert after(2, settings(*DYNAMIC)).proposal is None
    assert after(2, settings(*DYNAMIC)).slope is None
    assert after(3, settings(*DYNAMIC)).proposal is not None


def test_similar_agents_share_and_classes_never_mix():
    proposal = after(3, settings(*DYNAMIC)).proposal
    # The adversary acts like agents 0 and 1, and belongs to another class.
    assert proposal.kind == "share"
    assert proposal.team.groups == (0, 0, 2, 2, 4)
    assert proposal.team.identity


def test_group_continues_from_member_with_highest_returns():
    assert after(3, settings(*DYNAMIC)).proposal.bases == {0: 1, 2: 3}


def test_base_convexity_continues_from_nearest_local_optimum():
    config = settings(*DYNAMIC, "sharing.base=convexity")
    curvature = {}
    for agent, smallest in enumerate((-1.0, -2.0, -4.0, -3.0, -1.0)):  # ratios 6, 3, 1.5, 2, 6
        curvature |= {f"curvature__largest__g{agent:02d}": 6.0, f"curvature__smallest__g{agent:02d}": smallest}
    assert after(3, config, show=lambda: round_signals(**curvature)).proposal.bases == {0: 0, 2: 3}


def test_sharing_waits_for_full_window_without_similar_agents():
    config = settings(*DYNAMIC, "sharing.epsilon=0.1")
    decision = after(3, config, show=lambda: round_signals(probabilities=(0.0, 0.35, 0.7, 1.0, 0.5)))
    assert (decision.proposal, decision.event) == (None, "alone")
    assert decision.controller.trend.window == ()


def test_decline_while_sharing_gives_agents_own_copies():
    config, shared = settings(*DYNAMIC), Team(groups=(0, 0, 2, 0, 4), identity=True)
    decision = after(
        3, config, team=shared, controller=replace(initial_state(config), shared=True, times_switched_on=1)
    )
    assert decision.proposal.kind == "split"
    assert decision.proposal.team.groups == (0, 1, 2, 3, 4)
    # Agent 2 and the adversary already learn alone and stay unchanged.
    assert decision.proposal.bases == {0: 0, 1: 0, 3: 0}
    assert decision.proposal.margin is None


def test_trial_margin_is_share_of_gain():
    config = settings(*DYNAMIC, "sharing.margin=0.25")
    controller = replace(initial_state(config), lowest=-5.0, highest=7.0)
    # The rounds return 15 in all, so the run rose from -5 to 15.
    assert after(3, config, controller=controller).proposal.margin == pytest.approx(5.0)
    assert after(3, settings(*DYNAMIC, "sharing.trial=false")).proposal.margin is None


@pytest.mark.parametrize("rule", ["none", "all"])
def test_fixed_sharing_reports_trend_without_proposals(rule):
    decision = after(4, settings(*ALWAYS, f"sharing.rule={rule}"))
    assert decision.proposal is None
    assert decision.slope == pytest.approx(0.0)


def test_accepted_proposal_switches_sharing_and_is_counted():
    share = after(3, settings(*DYNAMIC)).proposal
    on = accept_proposal(ControllerState(times_switched_on=1), share)
    assert (on.shared, on.times_switched_on) == (True, 2)
    off = accept_proposal(on, replace(share, kind="split"))
    assert (off.shared, off.times_switched_on) == (False, 2)


def test_round_without_finished_episode_keeps_trend():
    config = settings(*DYNAMIC)
    before = after(2, config).controller
    assert after(1, config, controller=before, show=lambda: round_signals(returns=())).controller.trend == before.trend


def test_equal_rounds_give_equal_decisions():
    config = settings(*DYNAMIC, "sharing.grouping=kmeans")
    assert after(3, config) == after(3, config)


def test_diversity_is_mean_distance_of_largest_class():
    # sqrt(JSD) of (0.1, 0.9) and (0.9, 0.1): m = (0.5, 0.5), KL(p||m) = ln 2 - H(0.1).
    entropy = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    apart = np.sqrt(np.log(2) - entropy)
    assert after(1, settings()).diversity == pytest.approx(4 / 6 * apart, rel=1e-5)
    # Agents act alike, so learners make no tables.
    alike = settings("sharing.rule=all", "sharing.identity=false")
    assert after(1, alike, Team(groups=(0, 0, 0, 0, 4), identity=False), show=lambda: round_signals(())).diversity == 0
    assert summaries(alike, ControllerState()) == ()


def test_learners_compute_only_summaries_that_rules_read():
    assert summaries(settings(), ControllerState()) == ("behaviour",)
    assert summaries(settings("scaling.rule=gns"), ControllerState()) == ("behaviour", "noise")
    assert summaries(settings("scaling.rule=shuffled:paper"), ControllerState()) == ("behaviour", "curvature")
    config = settings(*DYNAMIC, "sharing.distance=kde-kl", "sharing.base=convexity")
    assert summaries(config, ControllerState()) == ("behaviour",)
    deciding = after(2, config).controller
    assert summaries(config, deciding) == ("behaviour", "curvature", "density")
    assert summaries(config, replace(deciding, shared=True)) == ("behaviour",)


def test_dynamic_sharing_and_scaling_rules_observe_rounds():
    assert not looks_at_rounds(settings()) and not looks_at_rounds(settings("sharing.rule=all"))
    assert looks_at_rounds(settings("sharing.rule=dynamic"))
    assert looks_at_rounds(settings("scaling.rule=shuffled:gns"))


def test_initially_shared_dynamic_sharing_is_on():
    assert initial_state(settings("sharing.rule=dynamic")).shared
    assert not initial_state(settings("sharing.rule=dynamic", "sharing.start=apart")).shared
    assert not initial_state(settings("sharing.rule=all")).shared
