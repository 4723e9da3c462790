"""Actions of resources with open numbers of cores, in pools of worker processes."""

import json
from math import inf
from pathlib import Path

import questioning
from asking import collect
from attempts import attempt_of
from pacing import calls
from questioning import steps

from marless.functions.resources.settings import Resource
from marless.infra.local.dispatch import Capacity
from marless.infra.local.task_pool import TaskPool


def most_cores_at_once(noted, cores):
    """The most cores of actions at any instant, by their questions. Actions that end at it have none."""
    busy = most = 0
    for note in sorted(noted, key=lambda note: (note.when, note.what == "begin")):
        busy += cores[note.question] if note.what == "begin" else -cores[note.question]
        most = max(most, busy)
    return most


def test_actions_get_idle_cores_but_never_too_many(tmp_path, shell):
    shell.export(CALLS=str(tmp_path / "calls"))
    shell.import_from(Path(questioning.__file__).parent)
    batch = [f"0.05 {number}" for number in range(8)]
    body = steps(*(["ask", "solver", questions] for questions in (["0.1 first"], ["0.1 second"], batch)))
    with TaskPool(Capacity(2, 2.0), {"actor": "questioning"}, tmp_path / "workers") as pool:
        run = pool.lane("run", tmp_path / "run")
        run.serve({"solver": Resource(serve="pacing:compute", slots=8, cores=(1, 2))})
        run.invoke(attempt_of("actor", "task", 0, body, 30.0))
        report = collect(run, 1)["task"]
    assert report.outcome == "answered", report.detail
    first, second, others = ([answer for answer, *_ in step["told"]] for step in json.loads(report.body))
    assert first == ["1"], "nothing is known of it yet"
    assert second == ["2"], "it is alone, and it is not known yet that cores do not help"
    cores = dict(zip(["0.1 first", "0.1 second", *batch], map(int, [*first, *second, *others]), strict=True))
    assert most_cores_at_once(calls(), cores) == 2


class Waiter:
    """A pool with one task that keeps a fifth of a core busy, like a task that mostly waits."""

    slots, computes, expected = 1, True, 0.2

    @property
    def workers(self):
        return [self]

    @property
    def processor(self):
        return self

    def cores(self):
        return self.expected

    def start_waiting(self, held_cores):
        return 0.0

    def urgency(self):
        return inf

    def next_check_at(self):
        return inf


def test_action_starts_on_core_that_waiting_tasks_occupy(tmp_path, shell):
    shell.export(CALLS=str(tmp_path / "calls"))
    shell.import_from(Path(questioning.__file__).parent)
    with TaskPool(Capacity(1, 2.0), {"actor": "questioning"}, tmp_path / "workers") as pool:
        pool.cores.join(Waiter())
        run = pool.lane("run", tmp_path / "run")
        run.serve({"solver": Resource(serve="pacing:compute", slots=2, cores=(1, 2))})
        run.invoke(attempt_of("actor", "task", 0, steps(["ask", "solver", ["1 first", "1 second"]]), 30.0))
        report = collect(run, 1)["task"]
    assert report.outcome == "answered", report.detail
    assert most_cores_at_once(calls(), {"1 first": 1, "1 second": 1}) == 2
