"""The weights depend only on the learning configuration and the seed."""

import pytest
from driver import SMALL, part_of_run
from driver import train as drive

FIVE = "actors.rollouts=5"
VARIANTS = ["algorithm.name=mappo", "algorithm.name=ippo"]
PAIR, PAIR_TURNED = '[["agent_0", "agent_2"]]', '[["agent_1"], ["agent_2", "agent_0"]]'
PLACEMENTS = ["placement.rule=split", "placement.rule=fused", "placement.rule=packed"]
SPLIT, WHOLE = PLACEMENTS[0], "placement.rule=whole"
# The effect of a setting is compared between the two most different placements. Slow tests compare the others.
ELSEWHERE = pytest.mark.parametrize(
    "elsewhere",
    [(WHOLE,), pytest.param(tuple(PLACEMENTS[1:]), marks=pytest.mark.conformance)],
    ids=["whole", "between"],
)
# Of learners from replay: by default a round has some hundred updates, each an invocation.
SMALL_UPDATES = ("algorithm.batch_size=16", "algorithm.updates_per_round=2")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workers", [2, 5])
def test_the_number_of_workers_changes_no_weight(train, workers):
    options = (FIVE, "placement.rule=split")
    assert train(*options, workers=workers).sha256 == train(*options).sha256


@pytest.mark.parametrize("packing", [2, 5])
def test_the_packing_of_rollouts_changes_no_weight(train, packing):
    packed = train(FIVE, "placement.rule=split", f"placement.pack={packing}")
    alone = train(FIVE, "placement.rule=split")
    assert packed.sha256 == alone.sha256
    assert packed.lines[-1].invocations < alone.lines[-1].invocations
    assert packed.lines[-1].env_steps == alone.lines[-1].env_steps == 4 * 5 * 8 * 25


@pytest.mark.parametrize(
    ("algorithm", "sharing"),
    [
        ("algorithm.name=mappo", "sharing.rule=none"),
        ("algorithm.name=ippo", "sharing.rule=all"),
        pytest.param("algorithm.name=mappo", "sharing.rule=all", marks=pytest.mark.conformance),
        pytest.param("algorithm.name=ippo", "sharing.rule=none", marks=pytest.mark.conformance),
    ],
)
def test_the_placement_of_learners_changes_no_weight(train, algorithm, sharing):
    runs = [train(algorithm, sharing, placement) for placement in PLACEMENTS]
    assert len({run.sha256 for run in runs}) == 1
    groups = 3 if sharing == "sharing.rule=none" else 1
    assert [run.lines[-1].learners for run in runs] == [1 + 2 * groups, groups, 1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", VARIANTS)
def test_manual_groups_are_fixed_in_any_order(train, algorithm):
    one, other = (train(algorithm, f"sharing.groups={groups}") for groups in (PAIR, PAIR_TURNED))
    assert one.sha256 == other.sha256 == train(algorithm, f"sharing.groups={PAIR}", SPLIT).sha256
    assert [line.team for line in one.lines] == [(0, 1, 0)] * 4
    whole = 'sharing.groups=[["agent_2", "agent_0", "agent_1"]]'
    assert train(algorithm, whole).sha256 == train(algorithm, "sharing.rule=all").sha256


MEMBER, NORMALISED = ("sharing.rows=member",), ("algorithm.normalise_observations=true",)
NORMS = ("sharing.rule=all", "actors.rollouts=2", "algorithm.hidden=[16,16]", "stop.rounds=3")
ROWS = (f"sharing.groups={PAIR}", "actors.rollouts=3")
# Settings of a run, and the settings that are added to them.
LEARNING = {
    "own observation": (("algorithm.name=mappo", "sharing.rule=none"), ("algorithm.critic_input=state+observation",)),
    "ippo's member rows": (("algorithm.name=ippo", *ROWS), MEMBER),
    "mappo's member rows": (("algorithm.name=mappo", *ROWS), MEMBER),
    "ippo normalised": (("algorithm.name=ippo", *ROWS, *MEMBER), NORMALISED),
    "mappo normalised": (("algorithm.name=mappo", *ROWS), NORMALISED),
    "happo normalised": (("algorithm.name=happo", *ROWS), NORMALISED),
    "mappo's norms": (("algorithm.name=mappo", *NORMS), ("algorithm.layer_norm=true",)),
    "recurrent norms": (("algorithm.name=ippo", "algorithm.recurrent=true", *NORMS), ("algorithm.layer_norm=true",)),
    "qmix's norms": (("algorithm.name=qmix", *SMALL_UPDATES, *NORMS), ("algorithm.layer_norm=true",)),
    "maddpg's norms": (("algorithm.name=maddpg", *SMALL_UPDATES, *NORMS), ("algorithm.layer_norm=true",)),
    "ippo's schedules": (
        ("algorithm.name=ippo", "sharing.rule=none", "algorithm.hidden=[8,8]"),
        ("algorithm.lr_schedule=linear", "algorithm.ent_schedule=cosine"),
    ),
    "maddpg's schedule": (
        ("algorithm.name=maddpg", "sharing.rule=none", "algorithm.hidden=[8,8]", *SMALL_UPDATES),
        ("algorithm.lr_schedule=cosine",),
    ),
}


@ELSEWHERE
@pytest.mark.parametrize("name", LEARNING)
def test_additions_are_same_in_every_placement(train, name, elsewhere):
    plain, more = LEARNING[name]
    runs = [train(*plain, *more, placement) for placement in (SPLIT, *elsewhere)]
    runs.append(train(*plain, *more, SPLIT, "placement.pack=2", workers=2))
    assert len({run.sha256 for run in runs}) == len({run.state.final for run in runs}) == 1
    assert runs[0].sha256 != train(*plain).sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", VARIANTS)
@pytest.mark.parametrize("rule", ["whole", "auto"])
def test_rounds_inside_one_function_change_no_weight(train, algorithm, rule):
    alone = train(algorithm, "sharing.rule=none", SPLIT)
    assert train(algorithm, "sharing.rule=none", f"placement.rule={rule}").sha256 == alone.sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", VARIANTS)
@pytest.mark.parametrize(("workers", "learners"), [(1, 1), (2, 2), (3, 3)])
def test_packs_of_groups_change_no_weight(train, algorithm, workers, learners):
    balanced = train(algorithm, "sharing.rule=none", "placement.rule=balanced", workers=workers)
    assert balanced.sha256 == train(algorithm, "sharing.rule=none", SPLIT).sha256
    assert balanced.lines[-1].learners == learners


@pytest.mark.parametrize("algorithm", VARIANTS)
@pytest.mark.parametrize(
    ("sharing", "workers"),
    [("sharing.rule=all", 2), pytest.param("sharing.rule=none", 6, marks=pytest.mark.conformance)],
)
def test_halved_groups_change_no_weight_and_metric(train, algorithm, sharing, workers):
    halved = train(algorithm, sharing, "placement.rule=balanced", workers=workers)
    fused = train(algorithm, sharing, PLACEMENTS[1])
    assert halved.sha256 == fused.sha256
    assert halved.lines[-1].learners == workers
    assert [line.metrics for line in halved.lines] == [line.metrics for line in fused.lines]


def test_other_workers_keep_the_packs_in_flight(train, tmp_path):
    def one_answered(state):
        return state.round == 2 and part_of_run(state) == "learn" and any(slot.done for slot in state.slots.values())

    options = [*SMALL, "stop.rounds=4", "task.agents=4", "sharing.rule=none", "placement.rule=balanced"]
    before = drive(tmp_path, options, workers=2, leave=one_answered).state
    assert before.placement.packs == ((0, 2), (1, 3))
    resumed = drive(tmp_path, options, workers=3)
    assert [line.learners for line in resumed.lines] == [2, 2, 2, 3]
    assert resumed.sha256 == train("task.agents=4", "sharing.rule=none", PLACEMENTS[2]).sha256


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "learning",
    [
        ("algorithm.name=mappo", "algorithm.recurrent=true", "algorithm.epochs=1"),
        ("algorithm.name=happo", "algorithm.epochs=1"),
        ("algorithm.name=qmix", *SMALL_UPDATES),
        ("algorithm.name=maddpg", *SMALL_UPDATES),
    ],
)
def test_placement_and_workers_change_no_weight_with_torch(train, learning):
    options = (*learning, "sharing.rule=none", "actors.rollouts=2", "algorithm.hidden=[16,16]", "stop.rounds=2")
    runs = [train(*options, "algorithm.engine=torch", rule) for rule in (*PLACEMENTS[::2], WHOLE)]
    runs.append(train(*options, "algorithm.engine=torch", SPLIT, workers=2))
    assert len({run.sha256 for run in runs}) == 1
    assert runs[0].sha256 != train(*options, SPLIT).sha256


@pytest.mark.parametrize("name", ["ippo's schedules", "maddpg's schedule"])
def test_schedules_fall_by_steps_as_by_rounds(train, name):
    """A round has 8 times 25 steps."""
    options = (*LEARNING[name][0], *LEARNING[name][1])
    assert train(*options, "stop.env_steps=800", "stop.rounds=100").sha256 == train(*options, SPLIT).sha256


def test_placement_changes_no_evaluation(train):
    split, packed = (train("algorithm.name=mappo", "sharing.rule=none", placement) for placement in PLACEMENTS[::2])
    assert split.state.final == packed.state.final
    assert split.state.absolute == packed.state.absolute
    assert [line.evaluation for line in split.lines] == [line.evaluation for line in packed.lines]


def test_placement_changes_no_environment_metric(train):
    toy = ("task.name=toy/signal", "evaluation.episodes_per_invocation=3")
    first, second = train(*toy, SPLIT), train(*toy, PLACEMENTS[2], workers=2)
    assert first.state.final_env_metrics.keys() == first.state.absolute_env_metrics.keys() == {"accuracy"}
    assert first.state.final_env_metrics == second.state.final_env_metrics
    assert first.state.absolute_env_metrics == second.state.absolute_env_metrics
    assert [line.evaluation for line in first.lines] == [line.evaluation for line in second.lines]


def test_classes_share_separately_in_any_placement(train):
    task = ("task.name=mpe/simple_adversary", "sharing.rule=all")
    runs = [train(*task, placement) for placement in PLACEMENTS[::2]]
    assert runs[0].sha256 == runs[1].sha256
    assert runs[0].state.groups == (0, 1)


@pytest.mark.parametrize("change", ["seed=2", "algorithm.name=ippo", "sharing.rule=all", "algorithm.lr=2e-3"])
def test_what_should_change_the_weights_does(train, change):
    assert train(change).sha256 != train().sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("phase", ["sample", "learn"])
@pytest.mark.parametrize(
    "before, after",
    [
        ("placement.rule=packed", "placement.rule=split"),
        ("placement.rule=split", "placement.rule=packed"),
        ("placement.pack=1", "placement.pack=5"),
    ],
)
def test_placement_changed_on_resume_changes_no_weight(train, tmp_path, phase, before, after):
    def last_wave(state):
        asked = [name for name in state.slots if name.startswith(("learn/policy", "learn/g", "learn/all"))]
        return state.round == 2 and part_of_run(state) == phase and bool(asked if phase == "learn" else state.slots)

    options = [*SMALL, "stop.rounds=4", FIVE]
    assert drive(tmp_path, [*options, before], leave=last_wave).state.status == "running"
    resumed = drive(tmp_path, [*options, after])
    undisturbed = train(FIVE, "placement.rule=split")
    assert resumed.sha256 == undisturbed.sha256
    assert [line.env_steps for line in resumed.lines] == [line.env_steps for line in undisturbed.lines]
