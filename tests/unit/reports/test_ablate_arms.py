"""Arms, their products, and the settings that override the user's settings."""

import msgspec
import pytest

from marless.ablation.arms import ARMS, SHARING, arms_by_name, combined_names, configuration, controls, refuse_clashes
from marless.ablation.declaration import FILE, Declaration, merge, read, write
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError, Stop
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.scaling import SCALING_RULES

AXES = {"sharing": list(SHARING), "scaling": list(SCALING_RULES), "placement": list(PLACEMENTS)}
BASE = load(None, ["actors.rollouts=8", "algorithm.lr=0.002"])


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_a_configuration_that_can_run(name):
    found = configuration(ARMS[name], BASE)
    assert (found.actors.rollouts, found.algorithm.lr) == (8, 0.002)


def test_every_rule_combination_is_runnable_configuration():
    arms = arms_by_name(combined_names(AXES))
    assert len({arm.name for arm in arms}) == len({arm.slug for arm in arms}) == len(arms) == 5 * 13 * 6
    # The settings that `budget` and `adapt` need.
    base = msgspec.structs.replace(BASE, stop=Stop(rounds=5, dollars=1.0, return_=0.0))
    for arm in arms:
        configuration(arm, base)


def test_paper_arm_holds_rules_of_paper():
    found = configuration(ARMS["marless"], BASE)
    assert (found.trend.rule, found.trend.gamma, found.trend.window) == ("paper", 0.1, 10)
    sharing = found.sharing
    assert (sharing.rule, sharing.distance, sharing.grouping) == ("dynamic", "kde-kl", "kmeans")
    assert (sharing.cap, sharing.base, sharing.trial) == ("figure", "convexity", False)
    assert (found.scaling.rule, found.scaling.beta, found.placement.rule) == ("paper", 0.5, "split")


def test_figure_reading_differs_from_paper_in_four_settings():
    paper, figure = (configuration(ARMS[name], BASE) for name in ("marless", "paper-figure"))
    changed = msgspec.structs.replace(paper.sharing, rule="lasting", cap=2, rows="member")
    assert figure == msgspec.structs.replace(
        paper, sharing=changed, scaling=msgspec.structs.replace(paper.scaling, rule="offset")
    )


def test_controls_differ_in_one_setting():
    paper, shuffled, constant = (configuration(ARMS[name], BASE) for name in ("marless", "shuffled", "constant-mean"))
    assert msgspec.structs.replace(shuffled, scaling=paper.scaling) == paper
    assert msgspec.structs.replace(constant, scaling=paper.scaling) == paper
    packed, minus = configuration(ARMS["packed"], BASE), configuration(ARMS["marless-minus"], BASE)
    assert msgspec.structs.replace(packed, placement=minus.placement) == minus


def test_a_cross_is_named_after_its_rules():
    [arm] = arms_by_name(combined_names({"sharing": ["paper"], "scaling": ["shuffled:paper"], "placement": []}))
    assert (arm.name, arm.slug) == ("paper+shuffled:paper@split", "paper-shuffled-paper-split")
    assert arm.settings == ARMS["shuffled"].settings


def test_computed_rollouts_are_the_constant_number():
    found = configuration(ARMS["constant-mean"], BASE, rollouts=5)
    assert (found.scaling.rule, found.actors.rollouts) == ("constant", 5)


def test_mean_of_combination_is_its_control():
    tested, mean, lot = "roles+tradeoff@split", "roles+mean:tradeoff@split", "shuffled:roles+tradeoff@split"
    arms = arms_by_name([tested, mean, lot])
    assert (arms[1].rollouts_of, arms[1].settings["scaling.rule"]) == (tested, "constant")
    assert configuration(arms[1], BASE, rollouts=5).actors.rollouts == 5
    assert controls([tested, mean, lot]) == [(mean, tested), (lot, tested)]
    with pytest.raises(ConfigError, match=r"takes its number of rollouts from the arm roles\+tradeoff@split"):
        arms_by_name([mean])
    with pytest.raises(ConfigError, match="there is no scaling called 'some'"):
        arms_by_name(["roles+mean:some@split"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: arms_by_name(["marles"]),
            "there is no arm called 'marles'; did you mean marless.*marless-minus, marless, ours",
        ),
        (
            lambda: arms_by_name(["some+gns@split"]),
            "there is no sharing called 'some'.*none, all, paper, ours, paper-figure",
        ),
        (
            lambda: arms_by_name(["ours", "constant-mean"]),
            "constant-mean: it takes its number of rollouts from the arm marless",
        ),
    ],
)
def test_unknown_name_is_refused_with_known_names(call, says):
    with pytest.raises(ConfigError, match=says):
        call()


def test_an_arm_that_cannot_be_is_named():
    with pytest.raises(ConfigError, match=r"^arm ours: scaling.min_rollouts"):
        configuration(
            ARMS["ours"], msgspec.convert(msgspec.to_builtins(BASE) | {"scaling": {"min_rollouts": 9}}, type(BASE))
        )


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (
            "scaling.rule=gns",
            "scaling.rule=gns clashes with the arm marless-minus, which sets scaling.rule to constant",
        ),
        ("sharing={rule='none'}", "clashes with the arm ours, which sets sharing.rule to dynamic"),
        ("seed=3", "`seeds`"),
    ],
)
def test_settings_that_an_arm_would_undo_are_refused(override, says):
    with pytest.raises(ConfigError, match=says):
        refuse_clashes(arms_by_name(["marless-minus", "ours"]), [override])


def test_settings_that_no_arm_undoes_are_let_through():
    refuse_clashes(
        arms_by_name(["marless-minus"]), ["scaling.rule=constant", "actors.rollouts=4", "sharing.epsilon=0.1"]
    )


def a_study(**changed):
    fields = {"settings": {"algorithm": {"lr": 0.1}, "attempts": 3}, "arms": {"ours": {"scaling.rule": "gns"}}}
    return Declaration(**(fields | changed))


def test_ablation_accepts_further_arms_and_keeps_results(tmp_path):
    write(tmp_path, a_study(rollouts={"constant-mean": 3}))
    found = merge(tmp_path, read(tmp_path), a_study(arms={"packed": {"placement.rule": "packed"}}))
    assert found.arms == {"ours": {"scaling.rule": "gns"}, "packed": {"placement.rule": "packed"}}
    assert found.rollouts == {"constant-mean": 3}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"settings": {"algorithm": {"lr": 0.2}, "attempts": 3}}, "algorithm.lr = 0.1, not 0.2; choose another `out`"),
        ({"settings": {"attempts": 3}}, "algorithm.lr = 0.1, not its default"),
        ({"arms": {"ours": {"scaling.rule": "paper"}}}, "scaling.rule = gns in the arm ours, not paper"),
    ],
)
def test_other_settings_are_refused_by_difference(tmp_path, changed, says):
    with pytest.raises(ConfigError, match=says):
        merge(tmp_path, a_study(), a_study(**changed))


def test_new_folder_is_empty_and_damaged_is_refused(tmp_path):
    assert read(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ConfigError, match=r"ablation\.json cannot be read"):
        read(tmp_path)


def test_signal_controls_belong_to_arm_and_packed_none():
    assert controls(ARMS) == [
        ("shuffled", "marless"),
        ("constant-mean", "marless"),
        ("ours-shuffled", "ours"),
        ("ours-fixed", "ours"),
    ]


def test_fixed_rollouts_can_be_named_in_combination():
    [arm] = arms_by_name(["all+constant:10@whole"])
    found = configuration(arm, BASE)
    assert (found.sharing.rule, found.scaling.rule, found.actors.rollouts) == ("all", "constant", 10)
    with pytest.raises(ConfigError, match="scaling called 'constant:0'"):
        arms_by_name(["all+constant:0@whole"])


def test_control_without_its_arm_reports_nothing():
    assert controls(["marless-minus", "shuffled", "ours", "none+shuffled:gns@split"]) == []


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["ours+gns@whole", "ours+shuffled:gns@whole"], [("ours+shuffled:gns@whole", "ours+gns@whole")]),
        (["ours+gns@whole", "ours+shuffled:gns@split"], []),
        (["ours", "ours+shuffled:gns@split"], [("ours+shuffled:gns@split", "ours")]),
        (["shuffled", "paper+paper@split"], [("shuffled", "paper+paper@split")]),
    ],
)
def test_shuffled_signal_controls_same_rules_in_order(names, found):
    assert controls(names) == found


def test_combination_controls_differ_only_in_scaling():
    arms = {arm.name: arm for arm in arms_by_name(combined_names(AXES))}
    pairs = controls(arms)
    assert len(pairs) == 5 * 6 * 6
    for name, tested in pairs:
        own, other = arms[name].settings, arms[tested].settings
        assert {key for key in own | other if own.get(key) != other.get(key)} == {"scaling.rule"}
        assert own["scaling.rule"] == f"shuffled:{other['scaling.rule']}"
