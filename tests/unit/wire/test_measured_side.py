"""If agents compete, one side's return ranks a run: in evaluators, for the best policy, and for the stop rules."""

import msgspec
import numpy as np
import pytest
from simulated import SPEC, MemoryStorage, World, answered, make_plan, said
from task_fields import make_task

from marless.functions import codec
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.evaluator.handler import handle
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team

CHASE = EnvTask(name="mpe/simple_tag")
KINDS = (msgspec.structs.replace(SPEC.classes[0], agents=(0, 1, 2)),)
COMPETING = msgspec.structs.replace(SPEC, agents=("a", "b", "c"), classes=KINDS, sides=(0, 1, 1))


def evaluated(side):
    spec, rng, blobs = registry.spec(CHASE), np.random.default_rng(3), MemoryStorage()
    tensors = {}
    for agent, kind in enumerate(spec.classes[index] for index in spec.class_of):
        shape = kind.observation_size, kind.actions
        tensors[f"policy/g{agent:02d}/w0"] = rng.normal(size=shape).astype(np.float32)
        tensors[f"policy/g{agent:02d}/b0"] = np.zeros(kind.actions, np.float32)
    blobs["policies"] = codec.encode(tensors, TaskHeader(task="before"))
    task = make_task(EvaluateTask,
        id="r/000000/evaluate", run="r", round=0, output="x", timeout_s=9.0, seed=1, environment=CHASE, side=side,
        team=Team(groups=(0, 1, 2, 3)), policies=(codec.reference("policies", blobs["policies"]),), stream="s", part=0,
        episodes=5,
    )  # fmt: skip
    return msgspec.json.decode(handle(msgspec.json.encode(task), blobs))


def test_evaluator_sums_over_agents_of_requested_side():
    everybody, chasers, prey = (evaluated(side)["reply"] for side in (None, 0, 1))
    assert np.add(chasers["returns"], prey["returns"]) == pytest.approx(everybody["returns"])
    # All chasers are paid for a touch, so the prey pays a third of their sum, and for leaving the field.
    assert np.mean(chasers["returns"]) == pytest.approx(sum(chasers["agent_returns"][:3]))
    assert np.mean(prey["returns"]) == pytest.approx(prey["agent_returns"][3])


def test_missing_side_makes_no_request():
    assert "no side 2" in evaluated(2)["message"]


def competing(by_round):
    """Evaluated episodes of round r give the requested side `by_round[side][r]`."""

    def script(function, request):
        item = answered(function, request, spec=COMPETING)
        done = said(item)
        if isinstance(request, EvaluateTask):
            value = by_round[request.side][request.address.round]
            reply = msgspec.structs.replace(
                done.reply, returns=(value,) * request.episodes, agent_returns=(1.0, request.address.round, -2.0)
            )
        elif isinstance(request, SampleTask):
            reply = msgspec.structs.replace(done.reply, agent_returns=((0.0, 1.0, 2.0),))
        else:
            return [item]
        return [msgspec.structs.replace(item, body=msgspec.json.encode(msgspec.structs.replace(done, reply=reply)))]

    return script


BY_ROUND = {0: (0, 0, 9.0, 0, 1.0, 0, 0.0), 1: (0, 0, -9.0, 0, -1.0, 0, 0.5)}


@pytest.mark.parametrize(
    ("settings", "side", "best"),
    [
        (("opponents.side=1",), "a", (2, 9.0)),
        (("opponents.side=0",), "b+c", (6, 0.5)),
        # Against learning opponents, 9 may only show that the worst of them were weak.
        ((), "b+c", (6, 0.5)),
        (("evaluation.side=1",), "b+c", (6, 0.5)),
        (("evaluation.side=0",), "a", (6, 0.0)),
    ],
)
def test_best_side_return_decides_best_policies(settings, side, best):
    world = World(make_plan("stop.rounds=6", *settings), competing(BY_ROUND))
    state = world.finish()
    assert (state.best.round, state.best.mean) == best
    assert state.final_sides == {"a": 1.0, "b+c": 4.0}  # round 6: 6 - 2
    assert {line.evaluation.side for line in world.journal if line.evaluation} == {side}
    absolute = [r for r in world.invoker.asked if isinstance(r, EvaluateTask) and r.stream == "absolute"]
    assert {request.address.round for request in absolute} == {6} and absolute[0].policies == state.best.policies


def test_outdated_policies_are_deleted_when_both_sides_learn():
    world = World(make_plan("stop.rounds=6"), competing(BY_ROUND))
    state = world.finish()
    kept = {key for key in world.storage if key.endswith("policies.safetensors")}
    assert kept == {ref.key for ref in state.durable_refs if ref.key.endswith("policies.safetensors")}


def test_run_stops_at_return_of_side():
    world = World(make_plan("stop.rounds=6", "stop.return=5", "evaluation.side=0"), competing(BY_ROUND))
    assert (world.finish().round, world.finish().reason) == (2, "return")
    world = World(make_plan("stop.rounds=6", "stop.return=5"), competing(BY_ROUND))
    assert world.finish().reason == "rounds"


def test_side_missing_in_task_ends_run_with_reason():
    state = World(make_plan("stop.rounds=6", "evaluation.side=2"), competing(BY_ROUND)).finish()
    assert state.status == "failed" and "the task has no side 2; there are 0 (a), 1 (b+c)" in state.reason


def test_groups_of_a_run_never_span_sides():
    world = World(make_plan("stop.rounds=2", "sharing.rule=all"), competing(BY_ROUND))
    assert world.finish().team.groups == (0, 1, 1)
