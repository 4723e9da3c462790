"""Off-policy learners read the same earlier rounds under any placement and after any failure."""

import pytest
from driver import SMALL, part_of_run, stores_what_it_needs
from driver import train as drive

from marless.coordinator.config.loading import load
from marless.coordinator.drive.ledger_items import load_state
from marless.functions.algorithms.registry import algorithm
from marless.infra.local.sqlite_ledger import SqliteLedger

# Two updates in each of five rounds, from a replay buffer of three.
WINDOW = (
    "algorithm.hidden=[8]", "algorithm.updates_per_round=2", "algorithm.batch_size=16", "actors.rollouts=2",
    "evaluation.every=4", "checkpoint_every=3", "stop.rounds=5", "sharing.rule=none",
)  # fmt: skip
# Agents of two classes that die one by one, with illegal actions.
SIGNAL = (
    *WINDOW, "algorithm.buffer_size=270", "task.name=toy/signal", "task.agents=3", "task.options.masked=true",
    "task.options.elimination=true", "task.options.mixed=true",
)  # fmt: skip
# Agents of two sides with continuous actions.
SOFT_NUMBERS = (
    *WINDOW, "algorithm.buffer_size=1300", "task.name=mpe/simple_adversary", "task.options.continuous_actions=true",
)  # fmt: skip
NUMBERS = (*SOFT_NUMBERS, "algorithm.noise_start=0.5", "algorithm.noise_steps=1500")
MEMORY = ("algorithm.recurrent=true", "algorithm.burn_in=1")
REPLAYED = (*SIGNAL, "algorithm.epsilon_steps=300")
SHARED, PRIORITY = "sharing.rule=all", "algorithm.priority=0.7"
METHODS = {
    "iql": (*REPLAYED, "algorithm.name=iql"),
    "iql, shared": (*REPLAYED, "algorithm.name=iql", SHARED, "algorithm.reward=own"),
    "vdn": (*REPLAYED, "algorithm.name=vdn"),
    "vdn, shared": (*REPLAYED, "algorithm.name=vdn", SHARED),
    "vdn with memory": (*REPLAYED, "algorithm.name=vdn", *MEMORY),
    "qmix": (*REPLAYED, "algorithm.name=qmix"),
    "qmix with memory": (*REPLAYED, "algorithm.name=qmix", *MEMORY, "algorithm.n_step=2"),
    "qmix with a module": (*REPLAYED, "algorithm.name=qmix", "algorithm.mixer=mixing_modules:qmix"),
    "qplex": (*REPLAYED, "algorithm.name=qplex"),
    "maddpg": (*SIGNAL, "algorithm.name=maddpg"),
    "maddpg, shared": (*SIGNAL, "algorithm.name=maddpg", SHARED, "algorithm.reward=own"),
    "maddpg with memory": (*SIGNAL, "algorithm.name=maddpg", *MEMORY),
    "maddpg in numbers": (*NUMBERS, "algorithm.name=maddpg"),
    "iddpg": (*SIGNAL, "algorithm.name=iddpg"),
    "iddpg in numbers with memory": (*NUMBERS, "algorithm.name=iddpg", *MEMORY),
    "masac": (*SIGNAL, "algorithm.name=masac"),
    "masac, shared": (*SIGNAL, "algorithm.name=masac", SHARED, "algorithm.reward=own"),
    "masac in numbers with memory": (*SOFT_NUMBERS, "algorithm.name=masac", *MEMORY),
    "isac": (*SIGNAL, "algorithm.name=isac"),
    "isac in numbers": (*SOFT_NUMBERS, "algorithm.name=isac"),
}
METHODS |= {f"{name} by priority": (*METHODS[name], PRIORITY) for name in ("iql", "vdn", "qmix")}
# The quick tests have one case per mechanism: one or all groups a learner, shared, recurrent, continuous, prioritised.
QUICK = (
    "iql, shared",
    "qmix with memory",
    "qmix with a module",
    "vdn by priority",
    "iddpg in numbers with memory",
    "masac",
    "isac in numbers",
)
EVERY_METHOD = [
    method if method in QUICK else pytest.param(method, marks=pytest.mark.conformance) for method in METHODS
]
QMIX, PRIORITISED = METHODS["qmix"], METHODS["qmix by priority"]
PAIRED = "placement.pack=2"
SPLIT = "placement.rule=split"
PLACEMENTS = [
    ("placement.rule=fused",),
    (SPLIT, PAIRED),
    ("placement.rule=packed", PAIRED),
    ("placement.rule=whole", "placement.chain=1"),
    ("placement.rule=whole", "placement.chain=3"),
    ("placement.rule=auto",),
]


def outcome(run):
    lines = [(line.round, line.env_steps, line.agent_returns, line.metrics, line.evaluation) for line in run.lines]
    return run.sha256, lines, run.state.final, run.state.absolute, [past.round for past in run.state.past]


def same(run, expected):
    assert (run.state.status, run.state.reason) == ("finished", "rounds")
    assert outcome(run) == outcome(expected)


@pytest.mark.slow
@pytest.mark.parametrize("placement", PLACEMENTS, ids=" ".join)
def test_the_placement_changes_nothing(train, placement):
    same(train(*QMIX, *placement), train(*QMIX, SPLIT))


@pytest.mark.parametrize("method", ["qmix", "maddpg", "iddpg"])
def test_packs_of_groups_change_nothing(train, method):
    """Three agents on two workers. Stages that couple groups are among them."""
    same(train(*METHODS[method], "placement.rule=balanced", workers=2), train(*METHODS[method], SPLIT))


@pytest.mark.slow
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_placement_and_workers_change_no_method(train, method):
    """A round's learner may differ from the last round's. It then reads rollouts that it has not seen."""
    split = train(*METHODS[method], SPLIT)
    same(train(*METHODS[method], "placement.rule=packed", PAIRED), split)
    same(train(*METHODS[method], *PLACEMENTS[4], workers=2), split)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", ["fused", "auto"])
@pytest.mark.parametrize("name", ["iql", "vdn", "maddpg", "iddpg", "masac", "isac"])
def test_the_placement_changes_nothing_of_any_algorithm(train, name, rule):
    same(train(*METHODS[name], f"placement.rule={rule}"), train(*METHODS[name], SPLIT))


# Some that other quick tests train too.
SOME = ("qmix", "maddpg", "iddpg", "qmix by priority")


@pytest.mark.parametrize(
    "methods", [SOME, pytest.param(tuple(METHODS), marks=pytest.mark.conformance)], ids=["some", "all"]
)
def test_replay_window_slides_and_methods_differ(train, methods):
    runs = [train(*METHODS[method], SPLIT) for method in methods]
    assert all([past.round for past in run.state.past] == [2, 3, 4] for run in runs)
    assert len({run.sha256 for run in runs}) == len(methods)
    for run, method in zip(runs, methods, strict=True):
        assert any(part.startswith("priorities/") for part in run.state.parts) == ("by priority" in method)
    assert {line.env_steps for line in runs[0].lines} == set(range(80, 401, 80))


@pytest.mark.parametrize(
    "change", ["algorithm.buffer_size=80", "algorithm.epsilon_end=0.5", "algorithm.n_step=1", "seed=2"]
)
def test_what_should_change_the_weights_does(train, change):
    """An option set to its present value changes nothing."""
    changed = train(*QMIX, "placement.rule=packed", change)
    assert (changed.sha256 == train(*QMIX, SPLIT).sha256) == (change == "algorithm.n_step=1")


def in_flight(round_, phase, wave=0):
    def there(state):
        waits = any(slot.waiting for slot in state.slots.values())
        # Learners of a wave differ by group alone.
        waves = {name.rsplit("/g", 1)[0] for name in state.slots if name.startswith("learn/")}
        return (state.round, part_of_run(state), max(0, len(waves) - 1)) == (round_, phase, wave) and waits

    return there


MOMENTS = [
    (("placement.rule=packed",), in_flight(4, "sample")),
    (("placement.rule=packed",), in_flight(4, "learn")),
    ((SPLIT,), in_flight(3, "learn", 4)),  # the mixing stage of the second update
    ((SPLIT,), in_flight(0, "learn", 5)),
    (PLACEMENTS[4], in_flight(3, "sample")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("placement", "moment"), MOMENTS)
def test_run_killed_while_learning_continues_to_same_end(train, tmp_path, placement, moment):
    options = [*SMALL, *QMIX, *placement]
    assert moment(drive(tmp_path, options, leave=moment).state)
    same(drive(tmp_path, options), train(*QMIX, SPLIT))


@pytest.mark.slow
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_run_killed_between_updates_continues_to_same_end(train, tmp_path, method):
    """The resumed driver continues from half of a round's updates and the stored last rounds."""
    options = [*SMALL, *METHODS[method], SPLIT, PAIRED]
    moment = in_flight(3, "learn", second_update(load(None, options)))
    assert moment(drive(tmp_path, options, leave=moment).state)
    same(drive(tmp_path, options), train(*METHODS[method], SPLIT))


def second_update(config):
    """The wave of the second update. A method with one stage makes all updates of a round in one wave."""
    stages = len(algorithm(config.algorithm.name).stages)
    return stages + 1 if stages > 1 else 0


def test_how_far_priorities_are_corrected_changes_the_weights(train):
    corrected = train(*PRIORITISED, "algorithm.priority_beta=1.0", "placement.rule=packed")
    assert corrected.sha256 != train(*PRIORITISED, SPLIT).sha256


def test_run_continued_elsewhere_reaches_same_end(train, tmp_path):
    goes_on_elsewhere(train, tmp_path / "alike", QMIX)
    goes_on_elsewhere(train, tmp_path / "by priority", PRIORITISED)


def goes_on_elsewhere(train, folder, method):
    rules = [PLACEMENTS[4], (SPLIT,), ("placement.rule=packed",), ("placement.rule=fused",)]
    moments = [in_flight(3, "sample"), in_flight(3, "learn", 2), in_flight(4, "sample"), lambda state: False]
    for rule, leave in zip(rules, moments, strict=True):
        run = drive(folder, [*SMALL, *method, *rule], leave=leave)
    same(run, train(*method, SPLIT))


def test_continued_off_policy_run_equals_longer_run(train, tmp_path):
    options = [*SMALL, *QMIX, "placement.rule=packed"]
    drive(tmp_path, [*options, "stop.rounds=3"])
    longer = drive(tmp_path, options)
    expected = train(*QMIX, SPLIT)
    assert (longer.sha256, longer.state.final) == (expected.sha256, expected.state.final)


@pytest.mark.parametrize("placement", [("placement.rule=packed",), PLACEMENTS[4]], ids=" ".join)
@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"torn"), lambda path: path.unlink()])
def test_remembered_round_lost_to_power_is_replayed(train, tmp_path, placement, damage):
    """Rounds after 3, the last checkpoint, may be lost."""
    options = [*SMALL, *QMIX, *placement, "placement.chain=1"]
    drive(tmp_path, options, leave=in_flight(4, "sample"))
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    state = load_state(ledger)
    ledger.close()
    assert (state.saved, [past.round for past in state.past]) == (3, [1, 2, 3])
    damage(tmp_path / "objects" / state.past[-1].trajectories[0].key)
    seen = []
    resumed = drive(tmp_path, options, leave=lambda state: seen.append(state.round))
    assert seen[0] == 3
    same(resumed, train(*QMIX, SPLIT))


@pytest.mark.parametrize("placement", [(SPLIT,), PLACEMENTS[4]], ids=" ".join)
def test_storage_keeps_only_needed_off_policy_objects(tmp_path, placement):
    trained = drive(tmp_path, [*SMALL, *QMIX, *placement])
    assert stores_what_it_needs(tmp_path, trained)
    left = {ref.key for ref in trained.state.durable_refs}
    # Rounds 2, 3 and 4: of two rollouts each, or of a task each: one was the last of three, and one was evaluated.
    assert sum("trajectory" in key or "played" in key for key in left) == (3 if "whole" in placement[0] else 3 * 2)
