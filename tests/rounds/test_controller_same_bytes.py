"""The controller's decisions depend on configuration and seed alone, not on placement or failures."""

import pytest
from driver import CONTROLLER, FLIPPING, ROLES, SMALL, part_of_run
from driver import train as drive

PAPER = (
    *FLIPPING,
    "sharing.distance=kde-kl",
    "sharing.grouping=kmeans",
    "sharing.base=convexity",
    "sharing.trial=false",
    "scaling.rule=paper",
    "actors.rollouts=5",
    "scaling.min_rollouts=2",
    "stop.rounds=7",
)
PLACEMENTS = [
    ("placement.rule=fused",),
    ("placement.rule=packed", "placement.pack=5"),
    ("placement.rule=whole",),
    ("placement.rule=whole", "placement.inline_objects=true", "checkpoint_every=3"),
    ("placement.rule=split", "placement.inline_objects=true"),
    ("placement.rule=auto",),
]


def decided(run):
    rounds = [(line.team, line.rollouts, line.event, line.trial_episodes, line.return_mean) for line in run.lines]
    return run.sha256, rounds, run.state.controller, run.state.final


def test_controlled_run_shares_tries_splits_and_changes_rollouts(train):
    run = train(*CONTROLLER, "placement.rule=split")
    assert [(line.round, line.event) for line in run.lines if line.event] == [(3, "shared"), (6, "split")]
    assert run.lines[2].trial_episodes > 0
    assert len({line.rollouts for line in run.lines}) > 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=" ".join)
def test_the_placement_changes_no_decision(train, placement):
    assert decided(train(*CONTROLLER, *placement)) == decided(train(*CONTROLLER, "placement.rule=split"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("placement", [("placement.rule=whole",), ("placement.rule=auto",)], ids=" ".join)
def test_placement_changes_no_decision_of_paper_rules(train, placement):
    split = train(*PAPER, "placement.rule=split")
    assert {line.event for line in split.lines} >= {"shared", "split"}
    assert decided(train(*PAPER, *placement)) == decided(split)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["tradeoff", pytest.param("shuffled:tradeoff", marks=pytest.mark.conformance)])
def test_placement_changes_no_decision_of_fixed_price_rule(train, rule):
    scaled = (*CONTROLLER, f"scaling.rule={rule}", "scaling.priced_as=split")
    split = train(*scaled, "placement.rule=split")
    assert len({line.rollouts for line in split.lines}) > 1
    assert decided(train(*scaled, "placement.rule=whole")) == decided(split)
    assert decided(train(*scaled, "placement.rule=fused", workers=2)) == decided(split)


def test_budget_divides_dollars_and_killed_run_is_equal(train, tmp_path):
    scaled = (*CONTROLLER, "scaling.rule=budget", "placement.rule=packed", "sharing.rule=none")
    budget = (*scaled, "stop.dollars=0.004", "stop.rounds=60", "stop.env_steps=6000")
    run = train(*budget)
    # A share of 0.004 / 60 is about 8 rollouts, less than the 12 that a round may have.
    assert 2 <= run.lines[0].rollouts < 12
    assert 0 < run.state.controller.scaling.spent <= 0.004
    options = [*SMALL, *budget]
    drive(
        tmp_path, options, leave=lambda state: state.round == 2 and part_of_run(state) == "learn" and bool(state.slots)
    )
    assert decided(drive(tmp_path, options)) == decided(run)


@pytest.mark.parametrize("paid, parted", [("own", 2), ("team", 3)])
@pytest.mark.parametrize("placement", [("placement.rule=whole",), ("placement.rule=auto",)], ids=" ".join)
def test_agents_split_by_role_in_same_round_everywhere(train, placement, paid, parted):
    roles = (*ROLES, f"task.options.pay={paid}")
    split = train(*roles, "placement.rule=split")
    assert [(line.round, line.event) for line in split.lines if line.event] == [(parted, "split")]
    assert split.state.team.groups == (0, 1, 0, 1)
    assert decided(train(*roles, *placement, workers=2)) == decided(split)


@pytest.mark.parametrize("paid, parted", [("own", 2), ("team", 3)])
@pytest.mark.parametrize("phase", ["learn", "regroup"])
def test_run_killed_during_split_continues_to_same_end(train, tmp_path, phase, paid, parted):
    def there(state):
        return state.round == parted - 1 and part_of_run(state) == phase and bool(state.slots)

    roles = (*ROLES, f"task.options.pay={paid}", "placement.rule=split")
    drive(tmp_path, [*SMALL, *roles], leave=there)
    assert decided(drive(tmp_path, [*SMALL, *roles])) == decided(train(*roles))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_decision(train, workers):
    assert decided(train(*CONTROLLER, "placement.rule=split", workers=workers)) == decided(
        train(*CONTROLLER, "placement.rule=split")
    )


# Every phase and every placement once in the quick tests.
KILLED = [
    pytest.param(phase, placement, marks=() if quick else pytest.mark.conformance, id=f"{phase} {' '.join(placement)}")
    for row, phase in enumerate(["sample", "learn", "regroup", "trial"])
    for column, placement in enumerate([("placement.rule=split",), PLACEMENTS[2], PLACEMENTS[3]])
    for quick in [row % 3 == column]
]


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "placement"), KILLED)
def test_run_killed_during_sharing_switch_continues_to_end(train, tmp_path, placement, phase):
    def there(state):
        return state.round == 2 and part_of_run(state) == phase and bool(state.slots)

    options = [*SMALL, *CONTROLLER, *placement]
    drive(tmp_path, options, leave=there)
    assert decided(drive(tmp_path, options)) == decided(train(*CONTROLLER, "placement.rule=split"))


def test_placement_change_during_switch_changes_no_decision(train, tmp_path):
    def trying(state):
        return state.phase == "trial" and bool(state.slots)

    drive(tmp_path, [*SMALL, *CONTROLLER, "placement.rule=split"], leave=trying)
    resumed = drive(tmp_path, [*SMALL, *CONTROLLER, "placement.rule=whole"])
    assert decided(resumed) == decided(train(*CONTROLLER, "placement.rule=split"))


def test_chained_rounds_give_lines_of_single_rounds(train):
    settings = ("stop.rounds=7", "evaluation.every=5", "checkpoint_every=4")
    together = train(*settings, "placement.rule=whole", "placement.chain=5")
    alone = train(*settings, "placement.rule=split")
    assert together.sha256 == alone.sha256
    recorded = [(line.round, line.env_steps, line.agent_returns, line.metrics, line.evaluation) for line in alone.lines]
    assert recorded == [(a.round, a.env_steps, a.agent_returns, a.metrics, a.evaluation) for a in together.lines]
    # Rounds 1-4 up to the checkpoint, 5 up to the evaluation, 6 and 7.
    assert together.state.meter.learner.invocations == 1 + 3
