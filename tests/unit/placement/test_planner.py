import math
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_rounds import PlannedRound, layout

from marless.coordinator.placement import candidates as choices
from marless.coordinator.placement import coordination_cost, planner
from marless.coordinator.placement.candidates import PlannerLimits
from marless.coordinator.placement.list_price import Tariff
from marless.coordinator.placement.message_size import ASYNCHRONOUS_BYTES, SYNCHRONOUS_BYTES
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, RoundPlacement, packs
from marless.coordinator.placement.planner import Forecast, Unmeasured, choose, explore, pareto_front
from marless.coordinator.placement.timings import Fit, add_observation
from marless.coordinator.pricing.bill import Charge, Meter, bill
from marless.coordinator.pricing.prices import load_prices
from marless.functions.algorithms.ppo.specs import IPPO, PPO_STAGES
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.algorithms.specification import StageSpec

PRICES = load_prices()
MEMORY = {"actor": 1769, "learner": 1769}
# By hand: two agents without sharing, three rollouts of ten steps.
TWO = PlannedRound(
    agents=2,
    members={0: 1, 1: 1},
    stages=PPO_STAGES,
    rollouts=3,
    rollout_steps=10,
    most_rounds=4,
    rollout_bytes=1000,
    policy_bytes=400,
    learner_bytes=800,
    ledger_bytes=1500,
    width=2,
)
TERMS = PlannerLimits(
    prices=PRICES,
    architecture="arm",
    storage="standard",
    memory_mb=MEMORY,
    timeout_s={"actor": 60.0, "learner": 60.0},
    checkpoint_every=10,
    peak_mb={},
)
# The rules with two slots for two groups, where `balanced` is `fused`.
DISTINCT = set(LEARNER_PLACEMENTS) - {"balanced"}
FORECASTS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


# More bytes than a message holds.
TOO_MUCH = 2 * SYNCHRONOUS_BYTES


def forecast(place, workload, timings, prices, architecture="arm", storage="standard", **fields):
    terms = replace(TERMS, prices=prices, architecture=architecture, storage=storage, **fields)
    return planner.forecast(place, layout(workload), timings, terms)


def options(workload, terms):
    return choices.options(layout(workload), terms)


def reduce_to_limits(place, workload, terms):
    return choices.reduce_to_limits(place, layout(workload), terms)


def plan(round_, workload, timings, terms, current=None):
    return planner.plan(round_, layout(workload), timings, terms, current)


def quickest(workload, timings):
    return min(planner.forecasts(layout(workload), timings, TERMS), key=lambda item: item.seconds).round_placement


def seen(**lines):
    """Timings of kinds of tasks that take `overhead` + `slope` times size."""
    timings = {}
    for kind, (overhead, slope) in lines.items():
        for size in (1, 60):
            timings = add_observation(timings, kind.replace("_", ":"), size, overhead + slope * size)
    return timings


# Sampling takes 2.3 ms + 3 ms a rollout, learning 1.4 ms + 0.1 ms a row.
SEEN = seen(sample=(2.3, 3.0), learn=(1.4, 0.1))


def round_placement(rule, rollouts=2, **fields):
    return RoundPlacement(
        **{"rule": rule, "rollouts_per_invocation": rollouts, "checkpoint_every": 10, "memory_mb": MEMORY, **fields}
    )


def made(dollars, seconds, rule="packed", **fields):
    return Forecast(round_placement(rule, **fields), dollars, seconds, dollars, 0.0, 0.0, 0.0, 1.0, {})


def counts(meter):
    return (meter.actor.invocations, meter.learner.invocations, meter.puts, meter.gets, meter.write_units)


def gb_seconds(*milliseconds, memory=1769):
    return sum(milliseconds) * memory / 1024 / 1000


@pytest.mark.parametrize(
    "rule, rollouts, expected",
    [
        # Two packs, two policies and one trajectory each. Two learners read 2 trajectories and 2 objects and make 2.
        ("fused", 2, (2, 2, 2 + 4, 4 + 8, 4)),
        # Two packs, one policy object and one trajectory each. The learner reads 2 + 2 objects and makes 2.
        ("packed", 2, (2, 1, 2 + 2, 2 + 4, 4)),
        # Three packs. post-process: 3 trajectories, 2 critics' objects, its own. Makes tensors and its own. A critic:
        # 3, its own, the tensors. Makes 1. A policy: 3, its two objects, the tensors. Makes 2.
        ("split", 1, (3, 5, 3 + 2 + 2 * 1 + 2 * 2, 6 + 6 + 2 * 5 + 2 * 6, 6)),
        # One task for all: two objects in, two out, one commit.
        ("whole", 3, (0, 1, 2, 2, 2)),
    ],
)
def test_round_operations_equal_hand_count(rule, rollouts, expected):
    assert counts(layout(TWO).operations(round_placement(rule, rollouts))) == expected


def test_chained_rounds_use_no_more_operations_than_one():
    assert layout(TWO).operations(round_placement("whole", 3, rounds=4)) == layout(TWO).operations(
        round_placement("whole", 3, rounds=1)
    )


def test_inlined_objects_are_neither_stored_nor_read():
    for rule in LEARNER_PLACEMENTS:
        inlined, stored = (
            layout(TWO).operations(round_placement(rule, inline_objects=inline_objects))
            for inline_objects in (True, False)
        )
        assert inlined == msgspec.structs.replace(stored, puts=0, gets=0, bytes_written=0, bytes_read=0)


def test_bytes_are_those_of_the_objects():
    # Trajectories once, all of the state once. Read by two actors (policies) and by each learner (trajectories).
    meter = layout(TWO).operations(round_placement("fused"))
    assert meter.bytes_written == 3000 + 1200
    assert meter.bytes_read == 2 * 400 + 2 * 3000 + 1200
    packed = layout(TWO).operations(round_placement("packed"))
    assert (packed.bytes_written, packed.bytes_read) == (3000 + 1200, 2 * 400 + 3000 + 1200)


def test_passed_tensors_are_written_once_and_read_later():
    with_tensors = replace(TWO, tensor_bytes=500.0)
    for rule, readers in (("split", 4), ("fused", 0), ("packed", 0), ("whole", 0)):
        before, after = (
            layout(TWO).operations(round_placement(rule)),
            layout(with_tensors).operations(round_placement(rule)),
        )
        assert after.bytes_written - before.bytes_written == (500 if readers else 0)
        assert after.bytes_read - before.bytes_read == readers * 500


@pytest.mark.parametrize(
    "rule, players",
    # Each player reads and writes the unfinished episodes.
    [("fused", 2), ("packed", 2), ("split", 2), ("whole", 1)],
)
def test_players_read_and_write_unfinished_episodes(rule, players):
    fragments = replace(TWO, unfinished_bytes=70.0)
    before, after = (layout(workload).operations(round_placement(rule, 2)) for workload in (TWO, fragments))
    assert (after.puts - before.puts, after.gets - before.gets) == (players, players)
    each = TWO.rollouts * 70
    assert (after.bytes_written - before.bytes_written, after.bytes_read - before.bytes_read) == (each, each)
    inline = round_placement(rule, 2, inline_objects=True)
    before, after = (layout(workload).checkpointing(inline) for workload in (TWO, fragments))
    assert (after.puts - before.puts, after.bytes_written - before.bytes_written) == (players, each)


def test_unwritten_part_stays_in_its_first_object():
    stages, usual = (StageSpec("train", (), "group", ("policy", "target"), ("policy",)),), ALGORITHMS.built_in["ippo"]
    ALGORITHMS.built_in["ippo"] = replace(IPPO, stages=stages)
    try:
        planned = layout(TWO)
        # A learner reads 2 trajectories, its policy and the object of round 0, and makes its policy and its answer.
        assert counts(planned.operations(round_placement("fused"))) == (2, 2, 2 + 4, 4 + 8, 4)
        assert planned.checkpointing(round_placement("fused", inline_objects=True)).puts == 2
    finally:
        ALGORITHMS.built_in["ippo"] = usual


@pytest.mark.parametrize("rule, objects", [("split", 7), ("fused", 4), ("packed", 2), ("whole", 2)])
def test_checkpoint_writes_ledger_and_stores_inlined_objects(rule, objects):
    # split: the team's normaliser, two critics, two policies and their optimisers' objects.
    ledger = Meter(write_units=2, read_units=1)
    assert layout(TWO).checkpointing(round_placement(rule)) == ledger
    inlined = layout(TWO).checkpointing(round_placement(rule, inline_objects=True))
    assert (inlined.puts, inlined.bytes_written) == (objects, 1200)
    assert (inlined.write_units, inlined.read_units) == (2, 1)


@given(rollouts=st.integers(1, 200), size=st.integers(1, 250))
@settings(max_examples=50, deadline=None)
def test_rollouts_are_packed_as_the_tasks_are(rollouts, size):
    workload = replace(TWO, rollouts=rollouts)
    assert layout(workload).operations(round_placement("packed", size)).actor.invocations == len(packs(rollouts, size))


def test_a_forecast_of_fused_is_as_by_hand():
    # Actors 2.3 + 3 * 2 = 8.3 and 5.3 ms, learners 1.4 + 0.1 * 30 = 4.4 ms each. Billed 9 + 6 + 5 + 5.
    found = forecast(round_placement("fused"), TWO, SEEN, PRICES)
    assert found.compute == pytest.approx(gb_seconds(9, 6, 5, 5) * 1.33334e-5)
    assert found.requests == pytest.approx(4 * 2e-7)
    assert found.storage == pytest.approx(6 * 5e-6 + 12 * 4e-7)
    assert found.ledger == pytest.approx(4 * 6.25e-7 + (2 * 6.25e-7 + 1.25e-7) / 10)
    assert found.dollars == pytest.approx(found.compute + found.requests + found.storage + found.ledger)
    assert found.seconds == pytest.approx(0.0083 + 0.0044)
    assert found.busy_s == pytest.approx(0.0083 + 0.0053 + 2 * 0.0044)
    assert found.longest_s == pytest.approx({"actor": 0.0083, "learner": 0.0044})


def test_sums_overlap_sampling_except_last_micro_batch():
    timings = seen(sample=(2.3, 3.0), learn=(1.4, 0.1), grad=(1.0, 0.2))
    summed = replace(TWO, sums_bytes=400.0, micro_batch=2, width=9)
    found = forecast(round_placement("fused"), summed, timings, PRICES)
    # Micro-batches of 2 and 1 rollouts, of 10 rows each, and two groups: sums of 1 + 0.2 * 20 = 5 ms and of 3 ms.
    assert found.busy_s == pytest.approx(0.0083 + 0.0053 + 2 * 0.005 + 2 * 0.003 + 2 * 0.0044)
    # Slots for all: the longest actor, the sums of the last micro-batch, and the learners.
    assert found.seconds == pytest.approx(0.0083 + 0.003 + 0.0044)
    # One slot: all the work in sequence.
    alone = forecast(round_placement("fused"), replace(summed, width=1), timings, PRICES)
    assert alone.seconds == pytest.approx(found.busy_s)
    # The sums read 1 + 1 trajectories, a policy and the rest of the state. The learners the sums of both, too.
    planned, plain = layout(summed), layout(TWO)
    more = planned.operations(round_placement("fused")).gets - plain.operations(round_placement("fused")).gets
    assert more == 2 * ((1 + 2) + (1 + 2)) + 2 * 2
    whole = forecast(round_placement("whole", 3, rounds=4, checkpoint_every=8), summed, timings, PRICES)
    assert whole.seconds == pytest.approx(0.0748 / 4 + 0.001 + 0.2 * 0.06)


def test_auto_overlaps_sums_unless_one_function_is_cheaper():
    # Eight rollouts of a second each, sums of a second over each of them and group. Nine functions run at once.
    timings = seen(sample=(5.0, 1000.0), learn=(5.0, 1.0), grad=(5.0, 100.0), whole=(5.0, 3000.0))
    waits = replace(TWO, rollouts=8, rollout_steps=10, sums_bytes=400.0, micro_batch=1, width=9)
    cheapest = plan(2, waits, timings, TERMS)
    assert cheapest.rule == "whole"
    fastest = quickest(waits, timings)
    assert fastest.rule != "whole"
    gained = forecast(cheapest, waits, timings, PRICES).seconds / forecast(fastest, waits, timings, PRICES).seconds
    assert gained > 1.1


def test_lagged_learner_waves_run_during_sampling():
    timings = seen(sample=(2.3, 3.0), **{f"learn:{stage.name}": (1.0, 0.0) for stage in PPO_STAGES})
    timings |= seen(**{"learn:policy": (6.0, 0.0)})
    behind, beside = (replace(TWO, stages=PPO_STAGES, width=9, lag=lag) for lag in (0, 1))
    # The longest actor takes 2.3 + 2 * 3 ms, longer than the learners, 1 + 6 ms. On one slot it is all the work.
    assert forecast(round_placement("split"), behind, timings, PRICES).seconds == pytest.approx(0.0083 + 0.007)
    found = forecast(round_placement("split"), beside, timings, PRICES)
    assert found.seconds == pytest.approx(0.0083)
    many = replace(beside, rollouts=1)
    assert forecast(round_placement("split"), many, timings, PRICES).seconds == pytest.approx(0.007)
    alone = forecast(round_placement("split"), replace(beside, width=1), timings, PRICES)
    assert alone.seconds == pytest.approx(found.busy_s) == pytest.approx(0.0083 + 0.0053 + 0.001 + 2 * 0.007)
    assert alone.dollars < forecast(round_placement("split"), behind, timings, PRICES).dollars


def test_inlined_objects_are_stored_at_checkpoints():
    found = forecast(round_placement("fused", inline_objects=True), TWO, SEEN, PRICES)
    again = 1 + 0.001 * 10 / 2
    assert found.storage == pytest.approx(4 * 5e-6 / 10)
    assert found.requests == pytest.approx(again * 4 * 2e-7)
    assert found.compute == pytest.approx(again * gb_seconds(9, 6, 5, 5) * 1.33334e-5)
    assert found.ledger == pytest.approx(again * 4 * 6.25e-7 + (2 * 6.25e-7 + 1.25e-7) / 10)
    assert found.seconds == pytest.approx(0.0083 + 0.0044)


def test_unseen_whole_task_takes_sum_of_its_parts():
    # A round: 2.3 + 3 * 3 = 11.3 ms of sampling, 1.4 + 0.1 * 60 = 7.4 ms of learning. Four make 74.8 ms, billed 75.
    found = forecast(round_placement("whole", 3, rounds=4, checkpoint_every=8), TWO, SEEN, PRICES)
    assert found.compute == pytest.approx(gb_seconds(75) / 4 * 1.33334e-5)
    assert found.requests == pytest.approx(2e-7 / 4)
    assert found.storage == pytest.approx((2 * 5e-6 + 2 * 4e-7) / 4)
    assert found.ledger == pytest.approx(2 * 6.25e-7 / 4 + (2 * 6.25e-7 + 1.25e-7) / 8)
    assert found.seconds == pytest.approx(0.0187)


def test_seen_whole_task_takes_its_measured_time():
    timings = SEEN | seen(whole=(0.4, 1.5))
    found = forecast(round_placement("whole", 3, rounds=4), TWO, timings, PRICES)
    assert found.seconds == pytest.approx((0.4 + 1.5 * 12) / 4 / 1000)


def test_placement_off_line_is_forecast_with_its_ratio():
    # With inline objects, packed learners took half of the fitted line's time.
    timings = SEEN | {"learn@packed+inline": Fit(count=1.0, sx=10.0, sxx=100.0, sy=5.0, sxy=50.0)}
    inlined = forecast(round_placement("packed", 3, inline_objects=True), TWO, timings, PRICES)
    assert inlined.longest_s == pytest.approx({"actor": 0.0113, "learner": 0.0037})
    assert forecast(round_placement("packed", 3), TWO, timings, PRICES) == forecast(
        round_placement("packed", 3), TWO, SEEN, PRICES
    )


def test_pack_has_at_most_all_rollouts():
    three, nine = (forecast(round_placement("packed", rollouts), TWO, SEEN, PRICES) for rollouts in (3, 9))
    assert (nine.dollars, nine.longest_s) == (three.dollars, three.longest_s)


def test_rounds_say_nothing_of_other_rules():
    one, ten = (forecast(round_placement("fused", rounds=rounds), TWO, SEEN, PRICES) for rounds in (1, 10))
    assert (one.dollars, one.seconds) == (ten.dollars, ten.seconds)


def test_little_memory_lengthens_task_and_much_never_shortens():
    small, large = ({"actor": mb, "learner": mb} for mb in (512, 3538))
    slow = forecast(round_placement("packed", 3, memory_mb=small), TWO, SEEN, PRICES)
    # 11.3 ms of sampling and 7.4 ms of learning at 1769 / 512 of their time: 39.04 and 25.57 ms.
    assert slow.seconds == pytest.approx((11.3 + 7.4) * 1769 / 512 / 1000)
    assert slow.compute == pytest.approx(gb_seconds(40, 26, memory=512) * 1.33334e-5)
    assert slow.busy_s == pytest.approx(0.0187)
    whole, double = (
        forecast(round_placement("packed", 3, memory_mb=memory), TWO, SEEN, PRICES) for memory in (MEMORY, large)
    )
    assert double.seconds == whole.seconds
    assert double.compute == pytest.approx(2 * whole.compute)


def test_unseen_stages_share_work_of_whole_task():
    # post-process has 60 rows, critic and policy 30 each: 1.4 + 0.1 / 3 * rows.
    found = forecast(round_placement("split", 3), replace(TWO, width=9), SEEN, PRICES)
    assert found.seconds == pytest.approx((2.3 + 9 + 1.4 + 2 + 1.4 + 1) / 1000)


def test_seen_stages_add_up_to_whole_task():
    lines = {"learn_postprocess": (1.0, 0.01), "learn_critic": (2.0, 0.02), "learn_policy": (1.5, 0.03)}
    timings = seen(sample=(2.3, 3.0), **lines)
    found = forecast(round_placement("packed", 3), TWO, timings, PRICES)
    assert found.seconds == pytest.approx((11.3 + 2.0 + 0.06 * 60) / 1000)
    apart = forecast(round_placement("split", 3), replace(TWO, width=9), timings, PRICES)
    assert apart.seconds == pytest.approx((11.3 + 1.0 + 0.6 + max(2.0 + 0.6, 1.5 + 0.9)) / 1000)


def test_a_group_of_more_members_has_more_rows():
    workload = replace(TWO, agents=3, members={0: 2, 1: 1})
    found = forecast(round_placement("fused", 3), workload, SEEN, PRICES)
    assert found.longest_s["learner"] == pytest.approx(0.0014 + 0.0001 * 60)


def test_without_timings_there_is_no_forecast():
    with pytest.raises(Unmeasured, match="sample"):
        forecast(round_placement("packed"), TWO, {}, PRICES)
    with pytest.raises(Unmeasured, match="learn:postprocess"):
        forecast(round_placement("split"), TWO, seen(sample=(1.0, 1.0)), PRICES)


@given(rollouts=st.integers(1, 40), size=st.integers(1, 40), width=st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_wave_lasts_as_if_tasks_took_free_functions(rollouts, size, width):
    found = forecast(round_placement("packed", size), replace(TWO, rollouts=rollouts, width=width), SEEN, PRICES)
    ends = [0.0] * width
    for pack in packs(rollouts, size):
        ends[ends.index(min(ends))] += 2.3 + 3.0 * len(pack)
    assert found.seconds == pytest.approx((max(ends) + 1.4 + 0.1 * 20 * rollouts) / 1000)


@given(
    rule=st.sampled_from(list(LEARNER_PLACEMENTS)),
    inline_objects=st.booleans(),
    groups=st.integers(1, 4),
    rollouts=st.integers(1, 9),
    storage=st.sampled_from(["standard", "express"]),
    architecture=st.sampled_from(["arm", "x86"]),
)
@settings(max_examples=50, deadline=None)
def test_a_forecast_bills_operations_and_compute(rule, inline_objects, groups, rollouts, storage, architecture):
    workload = replace(TWO, agents=groups, members=dict.fromkeys(range(groups), 1), rollouts=rollouts, width=1)
    place = round_placement(rule, inline_objects=inline_objects, checkpoint_every=1)
    found = forecast(place, workload, SEEN, PRICES, architecture, storage)
    again = 1 + 0.001 / 2 if inline_objects else 1
    paid = bill(layout(workload).operations(place), PRICES, architecture, storage)
    saved = bill(layout(workload).checkpointing(place), PRICES, architecture, storage)
    assert found.requests == pytest.approx(again * float(paid.requests))
    assert found.storage + found.ledger == pytest.approx(again * float(paid.storage) + float(saved.storage))
    # With one function at a time the wall-clock time is the billed time, up to a millisecond for each task.
    tasks = next(line.quantity for line in paid.lines if line.name == "lambda requests")
    most = Meter(actor=Charge(mb_ms=math.ceil(1769 * (found.seconds * 1000 + float(tasks)))))
    least = Meter(actor=Charge(mb_ms=math.floor(1769 * found.seconds * 1000)))
    bounds = [again * float(bill(meter, PRICES, architecture).actor) for meter in (least, most)]
    assert bounds[0] <= found.compute <= bounds[1]


@given(
    rule=st.sampled_from(list(LEARNER_PLACEMENTS)),
    rollouts=st.integers(1, 30),
    size=st.integers(1, 8),
    inline_objects=st.booleans(),
    lines=st.tuples(*[st.floats(0, 20)] * 4),
)
@settings(max_examples=50, deadline=None)
def test_more_rollouts_cost_more(rule, rollouts, size, inline_objects, lines):
    timings = seen(sample=(lines[0], lines[1] + 1.1), learn=(lines[2], lines[3]))
    few, many = (
        forecast(
            round_placement(rule, size, inline_objects=inline_objects), replace(TWO, rollouts=count), timings, PRICES
        )
        for count in (rollouts, rollouts + 1)
    )
    assert many.dollars > few.dollars
    assert many.busy_s > few.busy_s


@given(
    rule=st.sampled_from(list(LEARNER_PLACEMENTS)),
    inline_objects=st.booleans(),
    factors=st.tuples(*[st.sampled_from(["0", "0.5", "1"])] * 5),
)
@settings(max_examples=50, deadline=None)
def test_cheaper_prices_never_cost_more(rule, inline_objects, factors):
    put, get, request, second, write = map(Decimal, factors)
    change = msgspec.structs.replace
    standard, functions, ledger = PRICES.s3.standard, PRICES.lambda_, PRICES.dynamodb
    cheaper = change(
        PRICES,
        s3=change(
            PRICES.s3,
            standard=change(
                standard,
                put_per_thousand=put * standard.put_per_thousand,
                get_per_thousand=get * standard.get_per_thousand,
            ),
        ),
        lambda_=change(
            functions,
            requests_per_million=request * functions.requests_per_million,
            arm=change(functions.arm, gb_second=second * functions.arm.gb_second),
        ),
        dynamodb=change(ledger, write_units_per_million=write * ledger.write_units_per_million),
    )
    dear, cheap = (
        forecast(round_placement(rule, inline_objects=inline_objects), TWO, SEEN, prices)
        for prices in (PRICES, cheaper)
    )
    assert cheap.dollars <= dear.dollars
    assert (cheap.dollars < dear.dollars) == (
        second < 1 or request < 1 or write < 1 or put < 1 or (get < 1 and not inline_objects)
    )
    assert cheap.seconds == dear.seconds


@given(FORECASTS)
@settings(max_examples=200, deadline=None)
def test_front_is_undominated_and_has_choice(pairs):
    forecasts = [made(float(dollars), float(seconds)) for dollars, seconds in pairs]

    def dominated(item):
        return any(
            other.dollars <= item.dollars
            and other.seconds <= item.seconds
            and (other.dollars, other.seconds) != (item.dollars, item.seconds)
            for other in forecasts
        )

    found = pareto_front(forecasts)
    assert sorted(map(id, found)) == sorted(id(item) for item in forecasts if not dominated(item))
    assert [item.dollars for item in found] == sorted(item.dollars for item in found)
    assert any(choose(forecasts) is item for item in found) and choose(forecasts).dollars == found[0].dollars


def test_differences_below_forecast_precision_count_as_equal():
    slow, fast, dear = made(1.0, 9.0), made(1.005, 3.0), made(1.02, 1.0)
    assert choose([slow, fast, dear]) is fast
    assert choose([slow, dear]) is slow


def test_ties_go_to_simpler_rule_in_any_order():
    forecasts = [
        made(1.0, 1.0, rule=rule, inline_objects=inline_objects)
        for rule in LEARNER_PLACEMENTS
        for inline_objects in (True, False)
    ]
    for order in (forecasts, forecasts[::-1]):
        found = choose(order).round_placement
        assert (found.rule, found.inline_objects) == ("whole", False)
        assert choose([item for item in order if item.round_placement.rule != "whole"]).round_placement.rule == "packed"


def test_options_pack_rollouts_by_powers_of_two():
    found = options(TWO, TERMS)
    assert {item.rollouts_per_invocation for item in found if item.rule == "fused"} == {1, 2, 3}
    assert {(item.rounds, item.rollouts_per_invocation) for item in found if item.rule == "whole"} == {(1, 3), (4, 3)}
    assert {item.rule for item in found} == DISTINCT
    assert {item.inline_objects for item in found} == {False, True}
    assert len({msgspec.json.encode(item) for item in found}) == len(found)


def test_groups_beyond_slots_are_balanced():
    three = replace(TWO, agents=3, members={0: 1, 1: 1, 2: 1}, packs=((0, 2), (1,)))
    found = [item for item in options(three, TERMS) if item.rule == "balanced"]
    assert found
    assert {item.packs for item in found} == {((0, 2), (1,))}
    assert {item.packs for item in options(three, TERMS) if item.rule != "balanced"} == {()}
    for packs_ in ((), ((0, 1, 2),)):  # it is `fused`, and `packed`
        assert "balanced" not in {item.rule for item in options(replace(three, packs=packs_), TERMS)}


@pytest.mark.parametrize(
    ("members", "packs_", "expected"),
    [
        # Seven agents in four groups on two slots. Learning takes 10 ms and 0.1 ms for each of an agent's 30 rows. One
        # task per group, in order, ends at max(10 + 12, (10 + 3) + (10 + 3) + (10 + 3)) = 39. Packs of 4 and 3 end at
        # 10 + 12 = 22, one pack at 10 + 21 = 31.
        ((1, 1, 1, 4), ((0, 1, 2), (3,)), {"fused": 13 + 22, "balanced": 22, "packed": 31}),
        # One per group: two after each other on one of the slots, 13 + 13. In one: 10 + 9. Packs of a group and two
        # stages of three of another: 10 + 3 + 2.
        ((1, 1, 1), ((0, 2), (1, 2)), {"fused": 26, "balanced": 15, "packed": 19}),
    ],
)
def test_balanced_packs_fill_the_slots_where_seconds_count(members, packs_, expected):
    groups = replace(TWO, agents=sum(members), members=dict(enumerate(members)), packs=packs_)
    timings = seen(sample=(2.3, 3.0), learn=(10.0, 0.1))
    ms = {rule: 1000 * forecast(round_placement(rule, 3), groups, timings, PRICES).seconds - 11.3 for rule in expected}
    assert ms == pytest.approx(expected)
    fastest = quickest(groups, timings)
    assert (fastest.rule, fastest.packs) == ("balanced", packs_)


def test_current_placement_has_packs_of_next_round():
    unlike = replace(TWO, agents=7, members={0: 1, 1: 1, 2: 1, 3: 4}, packs=((0, 1, 2), (3,)))
    current = quickest(unlike, seen(sample=(2.3, 3.0), learn=(10.0, 0.1)))
    alike = replace(unlike, members={0: 2, 1: 1, 2: 2, 3: 2}, packs=((0, 2), (1, 3)))
    assert choices.update_rounds(current, layout(alike), TERMS).packs == ((0, 2), (1, 3))
    # Four slots: every group has its own.
    assert not choices.is_possible(current, layout(replace(alike, width=4, packs=())), TERMS)


def test_objects_are_inlined_only_if_largest_message_fits():
    # A request of `packed`. In base64: three trajectories with the summary of sampling (2,048 bytes, and 25 for each of
    # three rollouts and two agents) and the state of 1,200 bytes. Around them: five references (a pack each, policies,
    # the rest), three rollout numbers and two agents. A whole task's has no trajectory.
    around = 4096 + 5 * 300 + 3 * 6 + 2 * 128
    fits = ((SYNCHRONOUS_BYTES - around) * 3 / 4 - 1200 - 2198) / 3
    workload = replace(TWO, rollout_bytes=fits)
    assert layout(workload).request_bytes(round_placement("packed", 1, inline_objects=True)) == pytest.approx(
        SYNCHRONOUS_BYTES
    )

    def carrying(rollout_bytes):
        found = options(replace(workload, rollout_bytes=rollout_bytes), TERMS)
        return {(item.rule, item.rollouts_per_invocation) for item in found if item.inline_objects}

    assert ("packed", 1) in carrying(fits - 1)
    assert ("packed", 1) not in carrying(fits + 1)
    assert {rule for rule, _ in carrying(TOO_MUCH)} == {"whole"}
    # In storage nothing is too large.
    stored = [item for item in options(replace(workload, rollout_bytes=TOO_MUCH), TERMS) if not item.inline_objects]
    assert {item.rule for item in stored} == DISTINCT


def test_regrouping_must_fit_into_message_too():
    # The bytes that fill a message in base64.
    message = SYNCHRONOUS_BYTES * 3 / 4
    # Its answer has networks for every agent: for one group of two, twice the present ones.
    shared = replace(TWO, members={0: 2}, policy_bytes=0.6 * message)
    assert any(item.inline_objects for item in options(shared, TERMS))
    assert not any(item.inline_objects for item in options(replace(shared, regroups=True), TERMS))
    # Its request has all trajectories and the whole state. Each of several learners reads only a part of that.
    large = replace(TWO, rollout_bytes=0.88 * message / 3, policy_bytes=0.1 * message, learner_bytes=0.1 * message)
    assert {item.rule for item in options(large, TERMS) if item.inline_objects} == {"fused", "split", "whole"}
    assert {item.rule for item in options(replace(large, regroups=True), TERMS) if item.inline_objects} == {"whole"}


def test_rounds_are_chained_only_while_answer_fits():
    # A round of two agents and three rollouts that end 1,000 episodes each. Sampling takes 2,048 + 3 x 1,002 x 25, and
    # learning three stages of two groups at 640 and four tables at 96. There are 4,096 + 600 bytes around such rounds.
    workload = replace(TWO, rollout_episodes=1000, most_rounds=100)
    a_round = 2048 + 3 * 1002 * 25 + 3 * 2 * 640 + 4 * 96
    most = (SYNCHRONOUS_BYTES - 4696) // a_round
    assert most == 77
    patient = replace(TERMS, checkpoint_every=100)
    assert {item.rounds for item in options(workload, patient) if item.rule == "whole" and not item.inline_objects} == {
        1,
        77,
    }
    assert fitting_rounds(workload, patient, inline_objects=False) == 77
    # With a megabyte of state in the answer less space is left, and an object repeats the answer.
    state = replace(workload, policy_bytes=2**20)
    left = SYNCHRONOUS_BYTES - 4696 - (2**20 + 800) * 4 / 3
    assert fitting_rounds(state, patient, inline_objects=True) == int(left // (a_round * 7 / 3)) == 25
    # Where answers are stored, only the header of an object limits them.
    assert fitting_rounds(workload, replace(patient, can_inline=False), inline_objects=False) == 100
    # Agents that share networks have separate metrics, 320 bytes each, for one group less.
    shared = replace(workload, members={0: 2})
    assert fitting_rounds(shared, patient, inline_objects=False) == (SYNCHRONOUS_BYTES - 4696) // (
        a_round - 3 * 640 + 2 * 320
    )


def fitting_rounds(workload, terms, inline_objects):
    return reduce_to_limits(
        round_placement("whole", 3, rounds=100, inline_objects=inline_objects), workload, terms
    ).rounds


def test_a_request_that_nobody_waits_for_holds_less():
    # 4,000 rollouts, an actor each: 4,003 references in a learner's request are more than an event holds.
    many = replace(TWO, rollouts=4000, rollout_bytes=1.0)
    requests = layout(many).request_bytes(round_placement("packed", 1))
    assert ASYNCHRONOUS_BYTES < requests < SYNCHRONOUS_BYTES
    synchronous, asynchronous = (
        {(item.rule, item.rollouts_per_invocation) for item in options(many, replace(TERMS, can_inline=can_inline))}
        for can_inline in (True, False)
    )
    assert ("packed", 1) in synchronous and ("packed", 1) not in asynchronous
    assert ("packed", 2) in asynchronous


@pytest.mark.parametrize(
    ("rollouts", "can_inline", "per_invocation"),
    [(3000, False, 1), (4000, False, 2), (10_000, False, 4), (10_000, True, 1)],
)
def test_a_learner_s_request_bounds_rollouts_per_invocation(rollouts, can_inline, per_invocation):
    # A reference to each invocation's trajectories, at most 300 bytes, and 6 bytes for each rollout, in 1 MB or 6 MB.
    many = replace(TWO, rollouts=rollouts, rollout_bytes=1.0)
    found = reduce_to_limits(round_placement("packed", 1), many, replace(TERMS, can_inline=can_inline))
    assert found.rollouts_per_invocation == per_invocation
    assert not found.inline_objects


def test_coordinator_function_inlines_nothing():
    alone = replace(TERMS, can_inline=False)
    assert {item.inline_objects for item in options(TWO, alone)} == {False}
    assert {item.rule for item in options(TWO, alone)} == DISTINCT
    carrying = plan(5, TWO, SEEN, TERMS)
    assert carrying.inline_objects
    assert not plan(6, TWO, SEEN, alone, current=carrying).inline_objects
    assert not reduce_to_limits(carrying, TWO, alone).inline_objects


def test_functions_that_are_deployed_keep_their_memory():
    known = replace(TERMS, memory_mb={"actor": 800, "learner": 3000}, peak_mb={"actor": 100.0, "learner": 600.0})
    assert {tuple(item.memory_mb.values()) for item in options(TWO, known) if item.rule == "packed"} > {(512, 600)}
    deployed = replace(known, fixed=True)
    memories = {tuple(item.memory_mb.items()) for item in options(TWO, deployed)}
    assert memories == {(("actor", 800), ("learner", 3000)), (("learner", 3000),)}
    # The cheapest of them, although sizes that may be chosen would cost less.
    found = plan(5, TWO, SEEN, deployed)
    assert (found.rule, found.memory_mb) == ("whole", {"learner": 3000})
    assert plan(5, TWO, SEEN, known).memory_mb["learner"] < 3000
    # Another size, from before a deployment, is ignored.
    assert plan(5, TWO, SEEN, deployed, current=round_placement("packed", 3)).memory_mb == {"learner": 3000}


def test_too_small_deployed_learner_does_not_play_too():
    tight = replace(TERMS, fixed=True, peak_mb={"actor": 1000.0, "learner": 800.0})
    assert {item.rule for item in options(TWO, tight)} == {"split", "fused", "packed"}
    assert "whole" in {item.rule for item in options(TWO, replace(tight, peak_mb={"actor": 900.0, "learner": 800.0}))}


def test_forecast_includes_cost_of_coordinator_place():
    # Two waves of two actors and two learners. Turns of 1 GB-s each, two loads. A line of two units a round.
    turn = Meter(coordinator=Charge(invocations=1, mb_ms=1024 * 1000), read_units=2, log_bytes=1024)
    there = coordination_cost.CoordinationCost(wave_s=0.25, deployed=True, turn=turn, line=Meter(write_units=2))
    here, gone = (
        forecast(round_placement("fused"), TWO, SEEN, PRICES, coordination_cost=place)
        for place in (coordination_cost.LOCAL, there)
    )
    assert gone.seconds == pytest.approx(here.seconds + 2 * 0.25)
    a_turn = 1.33334e-5 + 2e-7 + 2 * 1.25e-7
    # Each report: a header's GET, a write of a unit. Each wave's set is read once. 1 KB of log for every invocation.
    reports = 4 * (4e-7 + 6.25e-7) + 2 * 1.25e-7
    logs = 6 * 1024 * 0.5 / 2**30
    assert gone.coordination == pytest.approx(2 * a_turn + reports + logs + 2 * 6.25e-7)
    assert gone.dollars == pytest.approx(here.dollars + gone.coordination)
    assert here.coordination == 0.0


def test_coordinator_function_splits_large_events_into_requests():
    # A learner's request names 2,100 trajectories in 300 bytes each and has less than 20 KB in addition. 650,000 bytes
    # are 262,144 and 5.9 times 65,536, thus six requests more for each of the two learners.
    many, there = replace(TWO, rollouts=2100), coordination_cost.CoordinationCost(turn=Meter())
    found = forecast(round_placement("fused", 1), many, SEEN, PRICES, coordination_cost=there)
    reports = coordination_cost.reports(2100) + coordination_cost.reports(2)
    assert found.coordination == pytest.approx(sum(Tariff.of(PRICES).parts(reports)) + 12 * 2e-7, rel=1e-9)


def test_answers_that_leave_the_region_are_paid_for():
    away = coordination_cost.CoordinationCost(deployed=True)
    stored, inlined = (
        forecast(
            round_placement("packed", 3, inline_objects=inline_objects, checkpoint_every=100),
            TWO,
            SEEN,
            PRICES,
            coordination_cost=away,
        )
        for inline_objects in (False, True)
    )
    # The trajectories have 3,000 bytes and the state 1,200. Their headers have the reports of sampling (2,198 bytes)
    # and learning (3,840). All are in base64, at $0.09 a GB, and made again after losses.
    base64_bytes = (4200 + 2198 + 3840) * 4 / 3
    assert inlined.coordination == pytest.approx(1.05 * (stored.coordination + base64_bytes * 0.09 / 2**30), abs=1e-10)


def test_memory_is_chosen_only_with_known_fitting_need():
    assert {tuple(item.memory_mb.items()) for item in options(TWO, TERMS) if item.rule == "fused"} == {
        (("actor", 1769), ("learner", 1769))
    }
    known = replace(TERMS, peak_mb={"actor": 100.0, "learner": 600.5})
    found = options(TWO, known)
    assert {tuple(item.memory_mb.values()) for item in found if item.rule == "fused"} == {
        (512, 601),
        (1024, 1024),
        (1769, 1769),
    }
    # One function that does both needs both.
    assert {tuple(item.memory_mb.items()) for item in found if item.rule == "whole"} == {
        (("learner", 701),),
        (("learner", 1024),),
        (("learner", 1769),),
    }
    half = options(TWO, replace(known, memory_mb={"actor": 1769, "learner": 3000}, peak_mb={"learner": 600.5}))
    assert {item.memory_mb["learner"] for item in half if item.rule == "whole"} == {3000}


def test_stored_objects_keep_checkpoint_distance_of_user():
    found = [item for item in options(TWO, TERMS) if item.rule == "whole" and not item.inline_objects]
    assert {(item.rounds, item.checkpoint_every) for item in found} == {(1, 10), (4, 8)}
    often = replace(TERMS, checkpoint_every=3)
    found = [item for item in options(TWO, often) if item.rule == "whole" and not item.inline_objects]
    assert {(item.rounds, item.checkpoint_every) for item in found} == {(1, 3), (3, 3)}


def test_the_first_two_rounds_explore():
    first, second = (plan(round_, TWO, SEEN, TERMS) for round_ in (0, 1))
    assert first == explore(0, TWO, TERMS) == round_placement("packed", 1)
    assert explore(0, replace(TWO, rollouts=50), TERMS).rollouts_per_invocation == 7
    assert second == explore(1, TWO, TERMS) == round_placement("packed", 3)
    assert plan(7, TWO, {}, TERMS) == second


def test_exploration_near_timeout_is_omitted():
    impatient = replace(TERMS, timeout_s={"actor": 0.02, "learner": 60.0})
    # All three rollouts would take 11.3 ms, more than half of the time-out.
    assert plan(1, TWO, SEEN, impatient) == plan(2, TWO, SEEN, impatient) != explore(1, TWO, TERMS)
    patient = replace(TERMS, timeout_s={"actor": 0.023, "learner": 60.0})
    assert plan(1, TWO, SEEN, patient) == explore(1, TWO, TERMS)


def test_no_task_is_planned_near_its_timeout():
    # A whole task of four rounds would take 74.8 ms, one of one round 18.7 ms, the learner of `packed` 7.4 ms.
    for limit, expected in ((0.15, ("whole", 4)), (0.149, ("whole", 1)), (0.037, ("packed", 1))):
        found = plan(2, TWO, SEEN, replace(TERMS, timeout_s={"actor": 60.0, "learner": limit}))
        assert (found.rule, found.rounds_per_task) == expected
        # A present one is not kept either.
        four = round_placement(
            "whole", 3, rounds=4, inline_objects=True, memory_mb={"learner": 1769}, checkpoint_every=100
        )
        kept = plan(2, TWO, SEEN, replace(TERMS, timeout_s={"actor": 60.0, "learner": limit}), current=four)
        assert (kept.rule, kept.rounds_per_task) == expected


def test_plan_is_cheapest_with_bounded_loss_on_kill():
    carried = round_placement(
        "whole", 3, rounds=4, inline_objects=True, memory_mb={"learner": 1769}, checkpoint_every=8
    )
    # Two tasks of four rounds are the most within ten.
    assert plan(2, TWO, SEEN, replace(TERMS, checkpoint_every=25)) == carried
    assert plan(2, TWO, SEEN, replace(TERMS, checkpoint_every=4)).checkpoint_every == 4


def test_placement_changes_only_for_sufficient_saving():
    workload = replace(TWO, most_rounds=1, rollout_bytes=TOO_MUCH, policy_bytes=TOO_MUCH)
    best = plan(5, workload, SEEN, TERMS)
    assert best.rule == "whole" and not best.inline_objects
    packed = forecast(round_placement("packed", 3), workload, SEEN, PRICES).dollars
    # A measured task time: first one task for all is 3 % cheaper than packed, then 7 %.
    for saving, expected in ((0.03, round_placement("packed", 3)), (0.07, best)):
        rest = forecast(best, workload, SEEN, PRICES)
        ms = ((1 - saving) * packed - (rest.dollars - rest.compute)) / (gb_seconds(1) * 1.33334e-5)
        timings = add_observation(SEEN, "whole", 3, ms)
        assert plan(5, workload, timings, TERMS, current=round_placement("packed", 3)) == expected
        assert plan(5, workload, timings, TERMS) == best


def test_impossible_placement_is_left():
    carrying = plan(5, TWO, SEEN, TERMS)
    assert plan(6, TWO, SEEN, TERMS, current=carrying) == carrying
    heavy = replace(TWO, rollout_bytes=TOO_MUCH, policy_bytes=TOO_MUCH)
    assert not plan(6, heavy, SEEN, TERMS, current=carrying).inline_objects
    unknown = msgspec.structs.replace(carrying, memory_mb={})
    assert plan(6, TWO, SEEN, TERMS, current=unknown) == carrying


def test_whole_task_chains_rounds_until_inspection():
    stored = round_placement("whole", 3, rounds=4, memory_mb={"learner": 1769}, checkpoint_every=8)
    heavy = replace(TWO, policy_bytes=TOO_MUCH)
    near = plan(6, replace(heavy, most_rounds=2), SEEN, TERMS, current=stored)
    assert (near.rule, near.inline_objects, near.rounds, near.checkpoint_every) == ("whole", False, 2, 10)
    assert plan(8, heavy, SEEN, TERMS, current=near).rounds == 4


def test_the_same_inputs_give_the_same_plan():
    terms = replace(TERMS, peak_mb={"actor": 100.0, "learner": 200.0})
    assert plan(9, TWO, SEEN, terms) == plan(9, replace(TWO, members={1: 1, 0: 1}), dict(reversed(SEEN.items())), terms)
