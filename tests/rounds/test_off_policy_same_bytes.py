"""What is learned from earlier rounds is learned from the same ones wherever rounds run and whatever fails."""

from shutil import rmtree

import pytest
from driver import SMALL
from driver import train as drive

from coordinator.saved import stored
from infra.sqlite import SqliteLedger

# Agents of two classes that die one by one, with actions that are not legal; a window of three rounds.
REPLAYED = (
    "task.name=toy/signal", "task.agents=3", "task.options.masked=true", "task.options.elimination=true",
    "task.options.mixed=true", "algorithm.hidden=[8]", "algorithm.updates=3", "algorithm.batch=16",
    "algorithm.replay=270", "algorithm.epsilon_steps=300", "scaling.units=2", "evaluation.every=4",
    "checkpoint_every=3", "stop.rounds=6",
)  # fmt: skip
METHODS = {
    "iql": ("algorithm.name=iql",),
    "iql, shared": ("algorithm.name=iql", "sharing.rule=all", "algorithm.reward=own"),
    "vdn": ("algorithm.name=vdn",),
    "vdn, shared": ("algorithm.name=vdn", "sharing.rule=all"),
    "qmix": ("algorithm.name=qmix",),
    "qmix with memory": ("algorithm.name=qmix", "algorithm.recurrent=true", "algorithm.ahead=2", "algorithm.burn_in=1"),
}
METHODS |= {f"{name} by priority": (*METHODS[name], "algorithm.priority=0.7") for name in ("iql", "vdn", "qmix")}
QMIX, JUDGED = METHODS["qmix"], METHODS["qmix by priority"]
SPLIT = "placement.rule=split"
PLACEMENTS = [
    ("placement.rule=fused",),
    (SPLIT, "placement.units_per_invocation=2"),
    ("placement.rule=packed", "placement.units_per_invocation=2"),
    ("placement.rule=whole", "placement.rounds=1"),
    ("placement.rule=whole", "placement.rounds=3"),
    ("placement.rule=auto",),
]


def told(run):
    """What a run gave, time and money left out."""
    lines = [(line.round, line.env_steps, line.agent_returns, line.figures, line.evaluation) for line in run.lines]
    return run.sha256, lines, run.state.final, run.state.absolute, [past.round for past in run.state.past]


def same(run, expected):
    assert (run.state.status, run.state.reason) == ("finished", "rounds")
    assert told(run) == told(expected)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=" ".join)
def test_the_placement_changes_nothing(train, placement):
    same(train(*REPLAYED, *QMIX, *placement), train(*REPLAYED, *QMIX, SPLIT))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "qmix"])
def test_the_placement_changes_nothing_for_any_value_method(train, method):
    split = train(*REPLAYED, *METHODS[method], SPLIT)
    for placement in (("placement.rule=packed",), ("placement.rule=whole", "placement.rounds=3")):
        same(train(*REPLAYED, *METHODS[method], *placement), split)


def test_the_window_of_these_runs_slides_and_the_methods_differ(train):
    runs = [train(*REPLAYED, *settings, "placement.rule=packed") for settings in METHODS.values()]
    assert all([past.round for past in run.state.past] == [3, 4, 5] for run in runs)
    assert len({run.sha256 for run in runs}) == len(METHODS)
    for run, method in zip(runs, METHODS, strict=True):
        assert any(part.startswith("priorities/") for part in run.state.parts) == ("by priority" in method)
    assert {line.env_steps for line in runs[0].lines} == set(range(80, 481, 80))


@pytest.mark.parametrize("change", ["algorithm.replay=80", "algorithm.epsilon_end=0.5", "algorithm.ahead=1", "seed=2"])
def test_what_should_change_the_weights_does(train, change):
    """One that says what holds anyway changes none."""
    changed = train(*REPLAYED, *QMIX, "placement.rule=packed", change)
    assert (changed.sha256 == train(*REPLAYED, *QMIX, SPLIT).sha256) == (change == "algorithm.ahead=1")


def test_agents_that_move_about_learn_the_same_in_any_placement(train):
    spread = ("algorithm.name=vdn", "sharing.rule=all", "algorithm.updates=2", "algorithm.hidden=[8]", "stop.rounds=3")
    split = train(*spread, SPLIT)
    same(train(*spread, "placement.rule=whole"), split)
    same(train(*spread, "placement.rule=packed"), split)


@pytest.mark.parametrize("placement", [(SPLIT,), PLACEMENTS[4]], ids=" ".join)
def test_the_number_of_workers_changes_nothing(train, placement):
    """Who learned the last round may not be who learns the next: then it reads what it never saw."""
    same(train(*REPLAYED, *QMIX, *placement, workers=2), train(*REPLAYED, *QMIX, SPLIT))


def in_flight(round_, phase, wave=0):
    """Whether the driver waits in this place."""

    def there(state):
        waits = any(slot.waiting for slot in state.slots.values())
        return (state.round, state.phase, state.wave) == (round_, phase, wave) and waits

    return there


MOMENTS = [
    (("placement.rule=packed",), in_flight(4, "sample")),
    (("placement.rule=packed",), in_flight(4, "learn")),
    ((SPLIT,), in_flight(3, "learn", 4)),  # the mixing of the second update
    ((SPLIT,), in_flight(0, "learn", 8)),
    (PLACEMENTS[4], in_flight(3, "sample")),
]


@pytest.mark.parametrize(("placement", "moment"), MOMENTS)
def test_a_run_killed_while_it_learns_goes_on_to_the_same_end(train, tmp_path, placement, moment):
    options = [*SMALL, *REPLAYED, *QMIX, *placement]
    assert moment(drive(tmp_path, options, leave=moment).state)
    same(drive(tmp_path, options), train(*REPLAYED, *QMIX, SPLIT))


def test_priorities_survive_a_kill_and_other_functions(train, tmp_path):
    """They are written in another phase of an update than the draws that they decide."""
    expected = train(*REPLAYED, *JUDGED, SPLIT)
    for rule, moment in (MOMENTS[1], MOMENTS[2], MOMENTS[4]):
        assert moment(drive(tmp_path / "killed", [*SMALL, *REPLAYED, *JUDGED, *rule], leave=moment).state)
        same(drive(tmp_path / "killed", [*SMALL, *REPLAYED, *JUDGED, *rule]), expected)
        rmtree(tmp_path / "killed")
    same(train(*REPLAYED, *JUDGED, SPLIT, workers=2), expected)
    assert expected.sha256 != train(*REPLAYED, *JUDGED, "algorithm.priority_beta=1.0", SPLIT).sha256


def test_a_run_that_goes_on_elsewhere_goes_on_to_the_same_end(train, tmp_path):
    goes_on_elsewhere(train, tmp_path / "alike", QMIX)
    goes_on_elsewhere(train, tmp_path / "by priority", JUDGED)


def goes_on_elsewhere(train, folder, method):
    rules = [PLACEMENTS[4], (SPLIT,), ("placement.rule=packed",), ("placement.rule=fused",)]
    moments = [in_flight(3, "sample"), in_flight(3, "learn", 2), in_flight(4, "sample"), lambda state: False]
    for rule, moment in zip(rules, moments, strict=True):
        run = drive(folder, [*SMALL, *REPLAYED, *method, *rule], leave=moment)
    same(run, train(*REPLAYED, *method, SPLIT))


def test_a_run_that_goes_on_after_its_end_goes_on_as_if_it_had_not_ended(train, tmp_path):
    options = [*SMALL, *REPLAYED, *QMIX, "placement.rule=packed"]
    drive(tmp_path, [*options, "stop.rounds=3"])
    longer = drive(tmp_path, options)
    expected = train(*REPLAYED, *QMIX, SPLIT)
    assert (longer.sha256, longer.state.final) == (expected.sha256, expected.state.final)


@pytest.mark.parametrize("placement", [("placement.rule=packed",), PLACEMENTS[4]], ids=" ".join)
@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"torn"), lambda path: path.unlink()])
def test_a_remembered_round_that_a_power_loss_took_is_played_again(train, tmp_path, placement, damage):
    """Rounds from 3 on, the last checkpoint, may be lost: they are in no checkpoint."""
    options = [*SMALL, *REPLAYED, *QMIX, *placement, "placement.rounds=1"]
    drive(tmp_path, options, leave=in_flight(5, "sample"))
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    state = stored(ledger)
    ledger.close()
    assert (state.saved, [past.round for past in state.past]) == (3, [2, 3, 4])
    damage(tmp_path / "objects" / state.past[1].trajectories[0].key)
    seen = []
    resumed = drive(tmp_path, options, leave=lambda state: seen.append(state.round))
    assert seen[0] == 3
    same(resumed, train(*REPLAYED, *QMIX, SPLIT))


@pytest.mark.parametrize("placement", [(SPLIT,), PLACEMENTS[4]], ids=" ".join)
def test_only_what_the_run_needs_is_left_in_storage(tmp_path, placement):
    trained = drive(tmp_path, [*SMALL, *REPLAYED, *QMIX, *placement])
    left = {str(path.relative_to(tmp_path / "objects")) for path in (tmp_path / "objects").rglob("*.safetensors")}
    assert left == {ref.key for ref in trained.state.lasting}
    # Rounds 3, 4 and 5: of two units each, or of two tasks, between which the run was evaluated.
    assert sum("trajectory" in key or "played" in key for key in left) == (2 if "whole" in placement[0] else 3 * 2)
