"""A resumed run trusts these files, and continues from this point."""

from contextlib import ExitStack

import pytest
from driver import SMALL, few_steps, part_of_run, stores_what_it_needs
from driver import train as drive

from marless.backends import local
from marless.coordinator.config.loading import load
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ledger_items import Unresumable, load_state
from marless.coordinator.drive.ports import Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.errors import StaleVersion
from marless.infra.local.sqlite_ledger import SqliteLedger
from marless.reports.journal import JsonLines
from marless.reports.weights import weights_sha256

OPTIONS = ["placement.rule=packed", *SMALL, "checkpoint_every=2"]


def killed_in_round(folder, round_, phase="learn", options=(*OPTIONS, "stop.rounds=5")):
    """A run with a driver that was killed while it waited for the tasks of a phase, and the last state."""
    drive(folder, options, leave=lambda state: (state.round, part_of_run(state)) == (round_, phase) and waiting(state))
    ledger = SqliteLedger(folder / "ledger.sqlite")
    state = load_state(ledger)
    ledger.close()
    assert (state.round, part_of_run(state)) == (round_, phase) and waiting(state)
    return state


def waiting(state):
    return any(slot.waiting for slot in state.slots.values())


def spoil(folder, ref, body=b"torn"):
    (folder / "objects" / ref.key).write_bytes(body)


@pytest.fixture
def undisturbed(train):
    return train("stop.rounds=5")


def test_damaged_newest_object_returns_run_to_checkpoint(tmp_path, undisturbed):
    state = killed_in_round(tmp_path, 3)
    spoil(tmp_path, state.objects[-1])
    rounds = []
    resumed = drive(tmp_path, [*OPTIONS, "stop.rounds=5"], leave=lambda state: rounds.append(state.round))
    assert rounds[0] == 2
    assert resumed.sha256 == undisturbed.sha256
    assert [line.round for line in resumed.lines] == [1, 2, 3, 4, 5]
    assert resumed.dollars > undisturbed.dollars
    # Rounds 1 to 3 and the learner that was lost, then rounds 3 to 5 again. One initialisation.
    assert resumed.state.meter.learner.attempts_lost == 1
    assert resumed.state.meter.learner.invocations == 1 + 3 + 1 + 3


def test_a_missing_object_counts_as_damaged(tmp_path, undisturbed):
    (tmp_path / "objects" / killed_in_round(tmp_path, 3).objects[0].key).unlink()
    assert drive(tmp_path, [*OPTIONS, "stop.rounds=5"]).sha256 == undisturbed.sha256


def test_a_damaged_checkpoint_too_cannot_be_resumed(tmp_path):
    state = killed_in_round(tmp_path, 3)
    spoil(tmp_path, state.objects[-1])
    for key in state.checkpointed:
        (tmp_path / "objects" / key).write_bytes(b"torn")
    with pytest.raises(Unresumable, match=r"the checkpoint of round 2 is damaged too: rounds/"):
        drive(tmp_path, [*OPTIONS, "stop.rounds=5"])


def test_damage_before_first_checkpoint_says_so(tmp_path):
    spoil(tmp_path, killed_in_round(tmp_path, 1).objects[0])
    with pytest.raises(Unresumable, match="no checkpoint"):
        drive(tmp_path, [*OPTIONS, "stop.rounds=5"])


def test_torn_trajectory_in_flight_is_sampled_again(tmp_path, undisturbed):
    state = killed_in_round(tmp_path, 3)
    trajectory = state.slots["sample/00000-00000"].done.objects["trajectory"]
    spoil(tmp_path, trajectory)
    first = []
    resumed = drive(tmp_path, [*OPTIONS, "stop.rounds=5"], leave=lambda state: first.append(state))
    assert (first[0].round, first[0].phase, first[0].slots) == (3, "round", {})
    assert resumed.sha256 == undisturbed.sha256


def test_torn_unanswered_object_is_not_adopted(tmp_path, undisturbed):
    killed_in_round(tmp_path, 3)
    for kind in ("policies", "learner"):
        (tmp_path / "objects/rounds/000003/learn").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"objects/rounds/000003/learn/all.{kind}.safetensors").write_bytes(b"torn")
    assert drive(tmp_path, [*OPTIONS, "stop.rounds=5"]).sha256 == undisturbed.sha256


def test_storage_keeps_only_needed_objects(tmp_path):
    assert stores_what_it_needs(tmp_path, drive(tmp_path, [*OPTIONS, "stop.rounds=5"]))


@pytest.fixture
def drivers(tmp_path):
    """Makes drivers of the run in this folder, not yet started, each with its own back-end."""
    with ExitStack() as opened:

        def make():
            backend = local.BACKEND.open(tmp_path, 1)
            opened.callback(backend.close)
            plan = Plan("run", load(None, few_steps([*OPTIONS, "stop.rounds=5"])), "code", load_prices(), Platform())
            journal = JsonLines(tmp_path / "metrics.jsonl")
            return Driver(plan, Ports(backend.storage, backend.ledger, backend.invoker, journal)), backend

        yield make


def reach(driver, round_):
    while driver.state.round < round_:
        driver.step()


def test_replaced_driver_stops_and_new_driver_continues(drivers, undisturbed):
    old, _ = drivers()
    old.begin()
    reach(old, 2)
    new, backend = drivers()
    new.begin()
    reach(new, 3)
    with pytest.raises(StaleVersion):
        while old.step():
            pass
    while new.step():
        pass
    assert weights_sha256(new.state, backend.storage) == undisturbed.sha256


def test_driver_too_late_to_take_over_deletes_nothing(drivers, undisturbed):
    old, backend = drivers()
    old.begin()
    reach(old, 2)
    new, late = drivers()
    load_item = late.ledger.load

    def load_slowly(item):
        record = load_item(item)
        reach(old, 3)
        return record

    late.ledger.load = load_slowly
    with pytest.raises(StaleVersion):
        new.begin()
    while old.step():
        pass
    assert weights_sha256(old.state, backend.storage) == undisturbed.sha256


def test_a_continued_run_equals_a_longer_one(tmp_path, undisturbed):
    constant = [*OPTIONS, "algorithm.lr_schedule=constant"]
    drive(tmp_path / "one", [*constant, "stop.rounds=3"])
    longer, whole = (drive(tmp_path / name, [*constant, "stop.rounds=5"]) for name in ("one", "other"))
    assert longer.sha256 == whole.sha256
    assert longer.state.final == whole.state.final
    assert [line.round for line in longer.lines] == [1, 2, 3, 4, 5]
    # By default the step falls to 0 at the limit, and was smaller in the first rounds.
    drive(tmp_path / "falling", [*OPTIONS, "stop.rounds=3"])
    assert drive(tmp_path / "falling", [*OPTIONS, "stop.rounds=5"]).sha256 != undisturbed.sha256


def test_finished_run_without_higher_limit_keeps_weights(tmp_path):
    once = drive(tmp_path, [*OPTIONS, "stop.rounds=3"])
    again = drive(tmp_path, [*OPTIONS, "stop.rounds=3"])
    assert (again.state.round, again.sha256, again.state.final) == (3, once.sha256, once.state.final)


def test_stopping_run_awaits_attempts_and_loses_none(tmp_path, undisturbed):
    rounds = []

    def leave(state):
        rounds.append(state.round)
        return False

    options = [*OPTIONS, "stop.rounds=5"]
    stopped = drive(tmp_path, options, leave=leave, asking=lambda: rounds[-1] < 3)
    assert (stopped.state.status, stopped.state.round) == ("running", 3)
    resumed = drive(tmp_path, options)
    assert resumed.sha256 == undisturbed.sha256
    assert resumed.state.meter.learner.attempts_lost == resumed.state.meter.actor.attempts_lost == 0


def test_interruptions_do_not_count_as_training_seconds(tmp_path):
    half = drive(tmp_path, [*OPTIONS, "stop.rounds=5"], leave=lambda state: state.round == 3)
    resumed = drive(tmp_path, [*OPTIONS, "stop.rounds=5"])
    seconds = [line.seconds for line in resumed.lines]
    assert seconds == sorted(seconds) and seconds[2] == half.lines[2].seconds
