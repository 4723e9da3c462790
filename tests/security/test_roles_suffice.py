"""The roles allow every storage request of whole detached runs with real functions."""

import functools

import msgspec
import pytest
from detached_runs import HANDLES, WAKE, World
from two_tenants import TENANTS, bucket, function, role, rules_of, scope, table

from aws_emulator.iam.policies import ServiceAction, judge
from aws_emulator.iam.role_policies import Rules
from marless.functions.completion import completion_report, report_completion
from marless.functions.messages.exchange import Answer, Request

# Every full window counts as a decline and all agents as similar: groups are tried, and formed.
REGROUPING = (
    "trend.rule=paper",
    "trend.gamma=100.0",
    "trend.window=3",
    "sharing.rule=dynamic",
    "sharing.start=apart",
    "sharing.epsilon=100",
    "sharing.margin=100.0",
    "sharing.trial_episodes=8",
    "sharing.distil_steps=1",
    "stop.rounds=6",
)
RUNS = {
    "split": ("placement.rule=split", "stop.rounds=5"),
    "whole": ("placement.rule=whole",),
    "regrouping": REGROUPING,
}


class Witnessed(World):
    def __init__(self, *overrides: str) -> None:
        super().__init__(*overrides)
        self.seen: set[tuple[str, str, str]] = set()

    def work(self, function: str, body: bytes) -> None:
        request = msgspec.json.decode(body, type=Request)
        answer = msgspec.json.decode(HANDLES[function](body, Noting(self, function)), type=Answer)
        if report_completion(self, request.report_to, completion_report(answer, 1.0, 0.0, 1.0)):
            self.send(WAKE)


class Noting:
    def __init__(self, world: Witnessed, function: str) -> None:
        self._world, self._function = world, function

    def get(self, key: str, size: int | None = None) -> bytes:
        self._world.seen.add((self._function, "s3:GetObject", key))
        return self._world.storage.get(key, size)

    def put(self, key: str, body: bytes) -> None:
        self._world.seen.add((self._function, "s3:PutObject", key))
        # Another attempt reads the existing object.
        self._world.seen.add((self._function, "s3:GetObject", key))
        self._world.storage.put(key, body)


@functools.cache
def seen(run: str) -> frozenset[tuple[str, str, str]]:
    world = Witnessed(*RUNS[run]).run()
    assert world.state.status == "finished"
    return frozenset(world.seen)


@functools.cache
def rules() -> Rules:
    return rules_of(scope(TENANTS[0]))


def allowed(name: str, action: str, resource: str, **context: str) -> bool:
    inside = {"lambda:sourcefunctionarn": (function("alpha", name, ""),)}
    known = inside | {key.replace("_", ":"): (value,) for key, value in context.items()}
    service_actions = ServiceAction(action, resource)
    return judge(rules().of_role(role("alpha", name.capitalize())), service_actions, known).decision == "allow"


def at(key: str) -> str:
    return f"arn:aws:s3:::{bucket('alpha')}/tenants/alpha/runs/r/{key}"


@pytest.mark.parametrize("run", RUNS)
def test_function_requests_are_within_its_role(run: str) -> None:
    refused = [(who, action, key) for who, action, key in seen(run) if not allowed(who, action, at(key))]
    assert refused == []


def test_the_runs_here_have_tasks_of_every_kind() -> None:
    works = {key.split("/", 2)[2] for run in RUNS for _, action, key in seen(run) if action == "s3:PutObject"}
    first = {work.partition("/")[0].partition(".")[0] for work in works}
    assert first == {"describe", "initialise", "sample", "learn", "team", "trial", "evaluate", "final", "absolute"}
    assert any(work.startswith("sample/whole-") for work in works)


def test_workers_cannot_write_objects_of_other_kinds() -> None:
    written = {(who, key) for run in RUNS for who, action, key in seen(run) if action == "s3:PutObject"}
    others = [
        (other, key)
        for who, key in written
        for other in HANDLES
        if other != who and allowed(other, "s3:PutObject", at(key))
    ]
    assert others == []


@pytest.mark.parametrize("worker", HANDLES)
def test_a_worker_may_report_and_wake(worker: str) -> None:
    runs = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table('alpha')}"
    key = {"dynamodb_leadingkeys": "sets/alpha/r/3/0/0", "dynamodb_returnvalues": "UPDATED_NEW"}
    assert allowed(worker, "dynamodb:UpdateItem", runs, **key)
    assert allowed(worker, "lambda:InvokeFunction", function("alpha", "coordinator", "3"))
