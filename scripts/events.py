"""Writes the sample events of the functions, one file for each kind of event: ``python -m scripts.events``.

The message has the objects that a task reads, and the answer's objects, so an event needs no bucket. The tasks belong
to one run, and each follows from earlier answers.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from marless.functions import keys
from marless.functions.actor.handler import handle as act
from marless.functions.algorithms.registry import algorithm
from marless.functions.environments.base import EnvTask
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.actor import Behaviour, DescribeReply, DescribeTask, SampleTask, Sampling
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Answer, Done, Request
from marless.functions.messages.learner import InitialiseTask, Learning, LearnTask, RegroupTask, WholeTask
from marless.functions.messages.order import Address
from marless.functions.messages.team import Team
from marless.functions.storage_port import Blobs
from marless.infra.packaging.package_build import ROOT

EVENTS = ROOT / "events"
"""A folder for each function, a file for each kind of event that it serves."""

RUN = "example"
_TASK = EnvTask(name="toy/signal", agents=2)
_APART, _TOGETHER = Team(groups=(0, 1), identity=True), Team(groups=(0, 0), identity=True)
# Small networks make small messages.
_ALGORITHM = algorithm("ippo")
_STAGES = tuple(stage.name for stage in _ALGORITHM.stages)
_SAMPLING = Sampling(environment=_TASK, rollouts=(0,), num_envs=2, rollout_length=5)


def main() -> int:
    """Writes the files below `EVENTS` and prints their paths."""
    for path, event in events().items():
        target = EVENTS / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(msgspec.json.format(msgspec.json.encode(event), indent=2) + b"\n")
        print(f"wrote {target}")
    return 0


def events() -> dict[str, Any]:
    """The events by path below `EVENTS`."""
    describe = DescribeTask(environment=_TASK, **_order("describe"))
    described = _done(act, describe).reply
    assert isinstance(described, DescribeReply)
    learning = Learning(spec=described.spec, algorithm=_ALGORITHM.name, hyperparameters={"hidden": [4]})
    initialise = InitialiseTask(team=_APART, learning=learning, **_order("initialise"))
    networks = _done(learn, initialise)
    state, policies = tuple(networks.objects.values()), (networks.objects["policies"],)
    having = networks.inlined
    only_policies = {ref.key: having[ref.key] for ref in policies}
    sample = SampleTask(
        team=_APART, policies=policies, sampling=_SAMPLING, **_order("sample/00000-00000", only_policies)
    )
    sampled = _done(act, sample)
    trajectories = (sampled.objects["trajectory"],)
    seen = {**having, **sampled.inlined}
    return {
        "actor/describe.json": describe,
        "actor/sample.json": sample,
        "learner/initialise.json": initialise,
        "learner/learn.json": LearnTask(
            team=_APART, stages=_STAGES, groups=(0, 1), rollouts=(0,), trajectories=trajectories, state=state,
            learning=learning, **_order("learn/all", seen),
        ),
        "learner/whole.json": WholeTask(
            team=_APART, behaviours=(Behaviour(), Behaviour()), state=state, sampling=_SAMPLING, learning=learning,
            **_order("whole", having),
        ),
        "learner/regroup.json": RegroupTask(
            team=_APART, target=_TOGETHER, bases={0: 0}, trajectories=trajectories, policies=policies, state=state,
            sampling=_SAMPLING, learning=learning, **_order("regroup", seen),
        ),
        "evaluator/evaluate.json": EvaluateTask(
            environment=_TASK, team=_APART, policies=policies, stream="greedy", part=0, episodes=2,
            **_order("evaluate", only_policies),
        ),
        "coordinator/sweep.json": {"sweep": True},
        "coordinator/wake.json": {"tenant": "default", "run": RUN},
    }  # fmt: skip


def _order(work: str, inlined: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """The common fields of the tasks."""
    return {
        "address": Address(id=keys.task_id(RUN, 0, work), run=RUN, round=0, output=keys.output_prefix(0, work), seed=1),
        "timeout_s": 60.0,
        "inline_objects": True,
        "inlined": inlined or {},
    }


class _NoStorage:
    """Has no object: all that a task reads is in its message."""

    def get(self, key: str, size: int | None = None) -> bytes:
        raise AssertionError(f"{key} is not in the message")

    def put(self, key: str, body: bytes) -> None:
        raise AssertionError(f"{key} is not inlined")


def _done(handle: Callable[[bytes, Blobs], bytes], task: Request) -> Done:
    answer = msgspec.json.decode(handle(msgspec.json.encode(task), _NoStorage()), type=Answer)
    assert isinstance(answer, Done), answer
    return answer


if __name__ == "__main__":
    sys.exit(main())
