"""The sample events fit the functions: they are decoded as requests, and the handlers answer them."""

import json
from importlib import import_module
from typing import get_args

import msgspec
import pytest
from samtranslator.yaml_helper import yaml_parse
from simulated import NoStorage

from marless.functions.messages.exchange import Answer, Done, Request
from marless.infra.deployment import template
from scripts.events import EVENTS, events
from scripts.functions_at_work import account

FILES = {path.relative_to(EVENTS).as_posix(): path.read_bytes() for path in sorted(EVENTS.glob("*/*.json"))}
TASKS = [name for name in FILES if not name.startswith("coordinator/")]


def test_events_have_every_kind_and_no_other_file():
    assert FILES.keys() == events().keys()
    kinds = [type(msgspec.json.decode(FILES[name], type=Request)) for name in TASKS]
    assert sorted(kinds, key=str) == sorted(get_args(Request), key=str)
    assert sorted(path.name for path in EVENTS.iterdir()) == ["actor", "coordinator", "evaluator", "learner"]


@pytest.mark.parametrize("name", TASKS)
def test_a_function_answers_its_events_without_a_bucket(name):
    handle = import_module(f"marless.functions.{name.partition('/')[0]}.handler").handle
    answer = msgspec.json.decode(handle(FILES[name], NoStorage()), type=Answer)
    assert isinstance(answer, Done), answer
    task = msgspec.json.decode(FILES[name], type=Request)
    assert answer.id == task.address.id
    assert {ref.key for ref in answer.objects.values()} == answer.inlined.keys()


def test_the_coordinator_answers_its_events(shell):
    schedule = yaml_parse(template.text())["Resources"]["Coordinator"]["Properties"]["Events"]["Sweep"]["Properties"]
    assert json.loads(FILES["coordinator/sweep.json"]) == json.loads(schedule["Input"])
    with account() as variables:
        shell.export(**variables)
        handler = import_module("marless.coordinator.drive.handler").Coordinator(variables)
        assert handler(json.loads(FILES["coordinator/sweep.json"]), None) == {"woken": 0}
        # A run of that name is not in the account.
        assert handler(json.loads(FILES["coordinator/wake.json"]), None) == {"run": "example", "left": "nobody"}
