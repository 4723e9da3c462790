"""Estimates of a run's cost and duration on every back-end, from one recording here."""

import dataclasses
import json
import re
from decimal import Decimal

import msgspec
import pytest
from commands import Commands
from driver import SMALL as DRIVEN

from marless.backends.registry import backend
from marless.coordinator.config.loading import load
from marless.coordinator.placement.coordination_cost import STANDARD
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.estimation.estimate import config_for_recording, estimate, estimate_run, record_briefly, share_with_lag
from marless.estimation.placements import with_placement
from marless.estimation.targets import Target
from marless.functions.function_specs import NAMES
from marless.functions.warm_cache import WARM

# Three rounds, one evaluation during training.
SMALL = ("stop.rounds=3", "evaluation.every=2", "evaluation.episodes=2", "evaluation.final_episodes=2")
ROUND = ("task.name=toy/signal", "actors.num_envs=4", "placement.rule=packed", "actors.rollouts=2")
HERE, THERE = Target(backend("local"), 1), Target(backend("aws"), 1000)
GONE = Target(backend("aws"), 1000, detached=True)


@pytest.fixture(scope="module")
def recording():
    return record_briefly(load(None, [*SMALL, *ROUND]), 1)


@pytest.fixture(scope="module")
def found(recording):
    config = load(None, [*SMALL, *ROUND])
    return {
        target: estimate(config, recording, target) for target in (HERE, THERE, GONE, Target(backend("emulated"), 2))
    }


@pytest.fixture
def marless(capfd):
    return Commands(capfd)


def quantities(bill):
    return {line.name: line.quantity for line in bill.lines}


def test_default_cloud_forecast_has_one_learner_per_group():
    config = load(None, [*SMALL, "task.name=toy/signal", "actors.num_envs=4"])
    recording = record_briefly(config_for_recording(THERE, config), 1)
    assert {record.size for record in recording.records if record.kind == "learn"} == {4 * 5}  # steps of one agent
    meters = {target: estimate(config, recording, target).meter for target in (HERE, THERE)}
    # Beside the first networks two groups learn in one function on the one slot here, and in two of a thousand there.
    assert [meter.learner.invocations for meter in meters.values()] == [1 + 3, 1 + 2 * 3]
    assert config_for_recording(HERE, config) == config


def test_planned_cloud_placement_is_estimated_with_its_packs():
    """Both groups halved, as the planner may choose and a configured `balanced` never does there."""
    config = load(None, [*SMALL, "task.name=toy/signal", "actors.num_envs=4", "placement.rule=auto"])
    chosen = RoundPlacement(
        rule="balanced",
        rollouts_per_invocation=1,
        checkpoint_every=config.checkpoint_every,
        memory_mb={},
        packs=((0,), (1,), (0,), (1,)),
    )
    placed_config, target = with_placement(config, THERE, chosen)
    recording = record_briefly(config_for_recording(target, placed_config), 1)
    learners = [estimate(placed_config, recording, place).meter.learner.invocations for place in (target, THERE)]
    # After the first networks: three rounds of four halves in the plan, or of one learner per group without a plan.
    assert learners == [1 + 4 * 3, 1 + 2 * 3]


def test_every_back_end_does_the_same_work(found):
    meters = [spent.meter for spent in found.values()]
    assert {spent.rounds for spent in found.values()} == {3}
    for name in NAMES:
        assert len({getattr(meter, name).invocations for meter in meters}) == 1
    # describe, and two actors a round. Initialise, and a learner a round. Evaluations after round 2, at the end, best.
    here = found[HERE].meter
    assert (here.actor.invocations, here.learner.invocations, here.evaluator.invocations) == (1 + 6, 1 + 3, 3)


def test_rounds_before_lag_are_estimated_without_learners():
    config = load(None, [*SMALL, *ROUND, "pipeline.lag=2"])
    recording = record_briefly(config, 1)
    assert [line.learners for line in recording.lines[:3]] == [0, 0, 1]
    # initialise, and a learner in the last of three rounds
    assert estimate(config, recording, HERE).meter.learner.invocations == 2


def test_cloud_driven_locally_adds_logs_starts_and_waiting(found):
    here, there = found[HERE], found[THERE]
    at_home, away = here.bill, there.bill
    assert quantities(at_home)["logs"] == quantities(at_home)["coordinator compute"] == 0
    assert quantities(away)["logs"] == Decimal(14 * 1024) / 2**30
    # Two actors at once, a learner, an evaluator: four environments at a second each. Nobody speaks.
    starts = [getattr(there.meter, name).init_ms for name in NAMES]
    assert starts == [2000, 1000, 1000, 0]
    assert there.meter.puts == here.meter.puts
    # Functions wait 30 ms for each PUT and 20 ms for each GET.
    waited = 30 * there.meter.puts + 20 * (there.meter.gets - here.meter.read_units)
    billed = sum(getattr(there.meter, name).billed_ms for name in NAMES)
    assert billed > 4000 + 0.8 * waited
    # Nine waves: describe, initialise, two a round, the final evaluation and the best policy's.
    assert there.seconds > 6 * STANDARD.attended_wave_s
    assert away.total > at_home.total and away.coordinator == 0


def test_inlined_objects_leave_as_base64_without_storage_reads(found, recording):
    carried = estimate(load(None, [*SMALL, *ROUND, "placement.inline_objects=true"]), recording, THERE).meter
    stored = found[THERE].meter
    written = {record.kind: record.usage.bytes_written for record in recording.records}
    in_messages = 3 * (2 * written["sample"] + written["learn"])
    # Four bytes for three, and a key of 70 bytes for each object.
    assert 0 <= carried.bytes_out - stored.bytes_out - 4 / 3 * in_messages < 3 * (2 + 2) * 100
    # Of storage only evaluations read: the policies of a checkpoint.
    assert carried.gets < stored.gets / 2 and carried.bytes_read < stored.bytes_read / 2


def test_detached_coordinator_is_function_with_answers_in_storage(found):
    there, gone = found[THERE], found[GONE]
    bill = gone.bill
    # One turn starts the run and one follows each of its ten waves: describe, initialise, two a round, two evaluations.
    # The evaluation during a round has a turn of its own.
    assert gone.meter.coordinator.invocations == 12
    # It is started once, for a second. 40 ms of work and 65 of waiting each time.
    assert gone.meter.coordinator.billed_ms == 12 * 105 + 1000
    assert quantities(bill)["lambda requests"] == 14 + 12
    assert quantities(bill)["logs"] == Decimal((14 + 12) * 1024) / 2**30
    # A header is read for every answer. Descriptions and evaluations have an object for theirs.
    assert gone.meter.gets - there.meter.gets == 14
    assert gone.meter.puts - there.meter.puts == 1 + 3
    assert gone.seconds > there.seconds
    assert bill.total > there.bill.total


def test_emulation_is_billed_as_cloud_but_faster(found):
    emulated, there = found[Target(backend("emulated"), 2)], found[THERE]
    assert quantities(emulated.bill)["logs"] > 0 and emulated.meter.puts == there.meter.puts
    assert emulated.seconds < there.seconds


def test_a_narrow_account_takes_longer():
    config = load(None, [*SMALL, *ROUND, "actors.rollouts=8"])
    recording = record_briefly(config, 1)
    wide, narrow = (estimate(config, recording, Target(backend("aws"), width)) for width in (1000, 2))
    assert narrow.seconds > wide.seconds
    assert narrow.meter.actor.init_ms == 2000 and wide.meter.actor.init_ms == 8000


def test_every_read_is_forecast_despite_process_caches():
    # Without an evaluation during training, the last policies are the best, so no other object is read for these.
    config = load(None, [*SMALL, *ROUND, "evaluation.every=4"])
    targets = [Target(backend(name), 2) for name in ("local", "aws")]
    warm = record_briefly(config, 1)
    WARM.bound = 0
    cold = record_briefly(config, 1)
    assert any(record.usage.hits for record in warm.records)
    assert not any(record.usage.hits for record in cold.records)
    for target in targets:
        assert estimate(config, warm, target).meter.gets == estimate(config, cold, target).meter.gets


def test_two_back_ends_stand_side_by_side(marless):
    said = marless("estimate", *SMALL, *ROUND, "--workers", "1", "--backend", "aws", "--detach")
    assert said.code == 0
    header = next(line for line in said.out if line.split()[:1] == ["unit"])
    assert header.split("  ")[0] == "" and "aws, detached" in header and "local" in header
    rows = {line.split("  ")[0]: line for line in said.out}
    assert "coordinator compute" in rows and "logs" in rows and "total" in rows
    # Lines that neither uses are left out.
    assert [line for line in said.out if "(aws, detached, 1,000 functions at once)" in line]


def test_json_output_is_of_requested_back_end(marless):
    options = ("--workers", "1", "--backend", "aws", "--json")
    estimate = json.loads(marless("estimate", *SMALL, *ROUND, *options).out[0])
    assert estimate["rounds"] == 3 and estimate["bill"]["logs"] > 0
    assert "functions measured them" in estimate["bill"]["note"]
    # With one function per task, a round takes its longest path. A lag leaves only the learners' part.
    assert 0.2 < estimate["lag_share"] < 0.97
    # Two virtual processors for one worker, by the list price of us-east-1. The run takes less than 20 s.
    machine = estimate["rented_machine"]
    assert (machine["type"], machine["vcpus"], machine["hourly_dollars"]) == ("c6a.large", 2, 0.0765)
    assert machine["dollars"] == pytest.approx(0.0765 / 60, abs=1e-9) and machine["busy_dollars"] < machine["dollars"]


def test_estimate_of_thousands_of_rounds_is_proportional(recording):
    """Beyond 600 rounds an estimate is a line."""

    def dollars(rounds):
        run = estimate(load(None, [*SMALL, *ROUND, "evaluation.every=100", f"stop.rounds={rounds}"]), recording, HERE)
        assert run.rounds == rounds
        return run.dollars

    assert dollars(300) / dollars(3_000) == pytest.approx(0.1, rel=0.05)


def test_an_estimate_says_how_far_it_is():
    texts = []
    estimate_run(load(None, [*SMALL, *ROUND]), HERE, 1, texts.append)
    progress = (re.fullmatch(r"measuring rounds on this machine: (\d+) of (\d+) or more", text) for text in texts)
    counts, least = zip(*((int(line[1]), int(line[2])) for line in progress if line), strict=True)
    assert counts[0] == 0 and counts[-1] >= least[0] and list(counts) == sorted(counts) and len({*least}) == 1
    assert texts[len(counts) :] == ["forecasting the run from the measured rounds"]


def test_plan_offers_placements_with_same_weights(marless, train):
    offers = json.loads(marless("plan", *DRIVEN, "stop.rounds=4", "--workers", "1", "--json").out[0])["offers"]
    settings = [[f"{key}={json.dumps(value)}" for key, value in offer["settings"].items()] for offer in offers]
    assert settings and len({train(*values).sha256 for values in ([], *settings)}) == 1


@pytest.mark.slow
def test_lag_is_judged_only_where_it_is_possible():
    """On one slot nothing overlaps. Where rounds are learned in one function, or have a lag, there is none to judge."""
    config = load(None, [*SMALL, *ROUND])
    measured = record_briefly(config, 1)
    # Tasks take a second here. With milliseconds, the noise of a busy machine would exceed the savings of a lag.
    records = [msgspec.structs.replace(record, duration_ms=1000.0) for record in measured.records]
    recording = dataclasses.replace(measured, records=records)
    # Two rollouts, then a learner, and in every second round an evaluation: in two rounds 7 s on one slot, with a lag,
    # too. On more slots they take 2 s each. With a lag a round takes 1 s, but 2 s where three slots have four tasks.
    for slots, share in ((1, 7 / 7), (3, 3 / 4), (4, 2 / 4)):
        assert share_with_lag(config, recording, Target(backend("local"), slots)) == pytest.approx(share, abs=0.02)
    for setting in ("placement.rule=whole", "pipeline.lag=1"):
        assert share_with_lag(load(None, [*SMALL, *ROUND, setting]), recording, HERE) is None


def test_nobody_else_drives_a_run_on_this_machine(marless):
    said = marless("estimate", *SMALL, "--detach")
    assert said.code == 2 and "--backend" in said.err[0]
