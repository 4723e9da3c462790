"""A task begins once its inputs are answered, while others are in flight. Any order of answers gives the same end."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from simulated import World, answered, make_plan, report

from marless.coordinator.core.round_graph import warm_after
from marless.coordinator.drive import driver as loop
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask

SPLIT = ("placement.rule=split", "actors.rollouts=4", "evaluation.every=1", "stop.rounds=4")
# The last of three micro-batches has one rollout.
SUMMED = ("actors.rollouts=5", "pipeline.micro_batch=2", "algorithm.epochs=1", "algorithm.num_minibatches=1")
ROUNDS = st.sampled_from([(), SUMMED])


class Shuffled(World):
    """Answers arrive in a drawn order. `arrivals` are the works in that order, with the requests before each."""

    def __init__(self, plan, pick, script=lambda function, request: [answered(function, request)]):
        super().__init__(plan, script)
        self.arrivals = []
        self.invoker.wait = lambda timeout_s: self._next(pick)

    def _next(self, pick):
        self.invoker.now += 1.0
        if not self.invoker.queue:
            return []
        ended = self.invoker.queue.pop(pick(self.invoker.queue))
        self.arrivals.append((ended.id, len(self.invoker.asked)))
        return [ended]


def evaluations_last(queue):
    return next((index for index, ended in enumerate(queue) if ended.function != "evaluator"), 0)


def test_learning_continues_and_ends_during_evaluation():
    world = Shuffled(make_plan(*SPLIT), evaluations_last)
    world.finish()
    ids = [id for id, _ in world.arrivals if id.startswith("r/000002/")]
    works = [id.removeprefix("r/000002/") for id in ids]
    # The second wave of learners was asked for and answered, and the evaluation that samples were sent with came last.
    assert [work.partition("/")[0] for work in works[:4]] == ["sample"] * 4
    assert works[4] == "learn/postprocess"
    assert works[-1] == "evaluate/000" and len(works) > 6


def test_sums_overlap_sampling_and_learners_await_all():
    def second_micro_batch_last(queue):
        late = ("sample/00002", "sample/00003", "grad/00001")
        return next((at for at, ended in enumerate(queue) if not ended.id.startswith(late, len("r/000002/"))), 0)

    world = Shuffled(make_plan(*SPLIT, *SUMMED, "evaluation.every=99"), second_micro_batch_last)
    world.finish()
    works = [id.removeprefix("r/000002/") for id, _ in world.arrivals if id.startswith("r/000002/")]
    parts = [work.rpartition("/")[0] if work.startswith("grad") else work for work in works]
    summed = [part for part in parts if part.startswith("grad")]
    groups = len(summed) // 3
    # The first and the last micro-batch are summed, group by group, before the second is sampled.
    first, last, second = ([f"grad/0000{number}"] * groups for number in (0, 2, 1))
    samples = [f"sample/0000{number}-0000{number}" for number in (0, 1, 4, 2, 3)]
    assert groups > 1 and parts[: 5 + 3 * groups] == [*samples[:3], *first, *last, *samples[3:], *second]
    assert works[5 + 3 * groups] == "learn/postprocess"


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["split", "packed", "fused"]), ROUNDS)
def test_task_is_dispatched_after_its_inputs(chance, rule, rounds):
    def script(function, request):
        answered_works = {id.removeprefix("r/") for id, _ in world.arrivals}
        makers = {ref.key.removeprefix("rounds/").rsplit(".", 2)[0] for ref in request.reads()}
        assert makers <= answered_works
        return [answered(function, request)]

    plan = make_plan(*SPLIT[1:], f"placement.rule={rule}", *rounds)
    world = Shuffled(plan, lambda queue: chance.randrange(len(queue)), script)
    assert world.finish().status == "finished"


@pytest.mark.parametrize("fails", [False, True])
def test_decision_comes_only_at_gates_or_failures(fails, monkeypatch):
    asked = []
    monkeypatch.setattr(loop, "decide", lambda plan, state: asked.append(state) or decide(plan, state))

    def script(function, request):
        bad = fails and isinstance(request, SampleTask) and (request.address.round, request.attempt) == (2, 0)
        return [report(function, request, outcome="crash") if bad else answered(function, request)]

    Shuffled(make_plan(*SPLIT, "actors.rollouts=40"), evaluations_last, script).finish()
    # Of round 2: one decision sends it, and one follows at each of the gates sample, learn/0, learn/1 and the end. If
    # all 40 samples failed once, each failure adds one.
    decisions = [state for state in asked if state.round == 2 and state.phase == "round"]
    assert len(decisions) <= 5 + 40 * fails


def test_only_last_micro_batch_sum_needs_decision(monkeypatch):
    asked = []
    monkeypatch.setattr(loop, "decide", lambda plan, state: asked.append(state) or decide(plan, state))
    streamed = ("algorithm.epochs=1", "algorithm.num_minibatches=1", "pipeline.micro_batch=2", "placement.rule=packed")
    plan = make_plan(*streamed, "actors.rollouts=16", "evaluation.every=9", "stop.rounds=2")
    Shuffled(plan, lambda queue: 0).finish()
    # One that sends the samples, one for each of 8 micro-batches, one for all sums, one for the learner: the end.
    assert len([state for state in asked if (state.round, state.phase) == (1, "round")]) == 1 + 8 + 1 + 1


decide = loop.decide


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["split", "packed", "fused"]), st.booleans(), ROUNDS)
def test_any_order_of_answers_gives_same_objects(chance, rule, failing, rounds):
    plan = make_plan(*SPLIT[1:], f"placement.rule={rule}", "attempts=9", *rounds)
    undisturbed = World(plan)
    expected = undisturbed.finish()
    failures = random.Random(chance.random())

    def script(function, request):
        bad = failing and request.attempt < 3 and failures.random() < 0.2
        return [report(function, request, outcome="crash") if bad else answered(function, request)]

    world = Shuffled(plan, lambda queue: chance.randrange(len(queue)), script)
    state = world.finish()
    of_chance = {
        "meter": expected.meter,
        "lost_use": expected.lost_use,
        "seconds": 0.0,
        "slowest": {},
        "timings": {},
        "lines": (),
        "item_bytes": 0,
    }
    assert replace(state, **of_chance) == replace(expected, **of_chance)
    lines = [replace(line, seconds=0.0, dollars=0.0) for line in world.journal]
    assert lines == [replace(line, seconds=0.0, dollars=0.0) for line in undisturbed.journal]


def test_late_target_evaluation_ends_run_at_its_round():
    def script(function, request):
        good = isinstance(request, EvaluateTask) and request.address.round >= 2
        return [answered(function, request, returns=-30.0 if good else -60.0)]

    ends = [
        Shuffled(make_plan(*SPLIT, "stop.rounds=9", "stop.return=-36"), pick, script).finish()
        for pick in (evaluations_last, lambda queue: 0, lambda queue: len(queue) - 1)
    ]
    assert {(state.reason, state.round, state.policies) for state in ends} == {("return", 2, ends[0].policies)}


def test_more_actors_and_learners_are_warm_after_round():
    plan, met = make_plan(*SPLIT), []
    World(plan).finish(after=met.append)
    state = next(state for state in met if (state.round, state.phase) == (3, "round"))
    warm_rounds = warm_after(plan, replace(state, warm_rounds={"actor": (2,), "learner": (2,)}))
    assert warm_rounds["actor"] == (3,) * 4
    assert set(warm_rounds["learner"]) == {3}
