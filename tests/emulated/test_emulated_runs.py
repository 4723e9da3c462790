"""A run in the emulated account has the bytes of a local run, driven or detached, with and without failures."""

import csv
import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from attempts import attempt_of
from built_kernels import needs_kernels
from commands import SMALL
from emulated_runs import QUICK, detach, same, summary

from marless.backends import registry
from marless.coordinator.drive import lease
from marless.coordinator.drive.ledger_items import STATE, load_state
from marless.functions.errors import StorageFault
from marless.runs.run_store import RUNS


@pytest.mark.parametrize("placement", ["fused", "split", "whole"])
def test_driven_run_in_placement_has_local_weights(place, marless, expected, placement):
    settings = (f"placement.rule={placement}", "actors.rollouts=3")
    name = f"driven-{placement}"
    said = marless.train(name, *settings, "--backend", "emulated")
    assert said.code == 0, said.err
    same(summary(place.home, name), expected(marless, *settings))


@pytest.mark.slow
@needs_kernels
def test_functions_compute_with_local_kernels(place, marless, expected):
    settings = ("algorithm.engine=native", "placement.rule=split")
    said = marless.train("kernels", *settings, "--backend", "emulated")
    assert said.code == 0, said.err
    found = summary(place.home, "kernels")
    same(found, expected(marless, *settings))
    assert found["weights_sha256"] != expected(marless, "algorithm.engine=numpy")["weights_sha256"]


def test_detached_run_continues_when_command_is_killed(place, marless, finished, expected):
    command = [sys.executable, "-m", "marless.cli.app", "train", *SMALL, "--backend", "emulated", "--detach"]
    with subprocess.Popen([*command, "--run", "alone"], stdout=subprocess.PIPE, text=True) as process:
        assert "goes on in the cloud" in process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    (found,) = finished("alone")
    same(found, expected(marless))
    assert marless("evaluate", "alone", "--episodes", "4").code == 0
    lines = [json.loads(line) for line in (place.home / "runs/alone/metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]


def test_failed_run_is_released_and_blocks_no_other(place, marless, finished, expected):
    deployed, failed = place.deployed(), place.failed_runs()
    deployed.live.commit("a-dead", f"{place.deployment.functions['coordinator']}99".encode(), 0)
    sick = deployed.outside("sick").ledger
    sick.commit("plan", b"no manifest", 0)
    lease.write(sick, lease.Lease(holder=lease.CLOUD), 0)
    deployed.live.commit("sick", place.deployment.functions["coordinator"].encode(), 0)
    place.inject({"service": "lambda", "action": "POST", "key": "well", "fault": "swallow"})
    detach(marless, "well")
    (found,) = finished("well", "sick", sweeping=True)[:1]
    same(found, expected(marless))
    held, _ = lease.read(sick)
    assert held.holder == "" and "its manifest cannot be read" in held.problem
    assert place.failed_runs() > failed
    deployed.live.remove("a-dead")


def test_resumed_run_continues_after_lost_event(place, marless, finished, expected):
    assert marless.train("again", "--backend", "emulated", "stop.rounds=2").code == 0
    place.inject({"service": "lambda", "action": "POST", "key": "again", "fault": "swallow"})
    assert marless("resume", "again", "stop.rounds=4", "--detach").code == 0
    (found,) = finished("again", sweeping=True)
    same(found, expected(marless))


def test_renamed_folder_still_belongs_to_its_run(place, marless):
    assert marless.train("first-name", "--backend", "emulated", "stop.rounds=2").code == 0
    (place.home / "runs/first-name").rename(place.home / "runs/second-name")
    said = marless("resume", "second-name", "stop.rounds=3")
    assert said.code == 0, said.err
    assert summary(place.home, "second-name")["rounds"] == 3
    assert deployed_rounds(place, "first-name") == 3 and deployed_rounds(place, "second-name") is None


def deployed_rounds(place, run):
    state = load_state(place.deployed().outside(run).ledger)
    return state and state.round


@pytest.mark.parametrize("setting", ["actors.num_envs=100000000", "opponents.side=0"])
def test_impossible_task_leaves_nothing_and_frees_its_name(place, marless, setting):
    name = f"without-{setting.partition('.')[0]}"
    said = marless.train(name, "--backend", "emulated", setting)
    assert said.code == 2 and not (place.home / "runs" / name).exists()
    assert marless.train(name, "--backend", "emulated").code == 0


def test_following_impossible_task_does_not_suggest_resume(marless, finished):
    detach(marless, "far-off", "opponents.side=0")
    finished("far-off")
    said = marless("status", "--follow", "far-off")
    assert said.code == 2
    assert "nothing was trained: opponents.side: 0 is asked for" in said.err[-1]
    lines = [*said.err, *marless("status", "far-off").out]
    assert not any("resume" in line for line in lines)


def test_following_detached_run_logs_all_its_rounds(place, marless, finished, expected):
    detach(marless, "logged", 'log.to=["csv"]')
    (found,) = finished("logged")
    same(found, expected(marless))
    with (place.home / "runs/logged/progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["time/round"] for row in rows] == ["1", "2", "3", "4"]
    assert float(rows[-1]["return/eval"]) == pytest.approx(found["final_return"]["mean"])


def test_every_event_twice_changes_nothing(place, marless, finished, expected):
    place.inject({"service": "lambda", "action": "POST", "key": "doubled", "fault": "twice", "count": 10_000})
    detach(marless, "doubled", "stop.rounds=2")
    (found,) = finished("doubled")
    same(found, expected(marless, "stop.rounds=2"))
    assert len(place.struck()) > 20


BRIEF = ("stop.rounds=2", *QUICK)
# Some of the first events and writes in the quick tests, all of them in the slow ones.
SOME_AND_ALL = [4, pytest.param(1, marks=pytest.mark.conformance)]


@pytest.mark.parametrize("every", SOME_AND_ALL)
def test_any_event_may_be_lost(place, marless, finished, expected, every):
    """One run for each of the first events: it is lost, and the sweep starts its task."""
    names = [f"lost-{every}-{number:02d}" for number in range(0, 12, every)]
    for name, number in zip(names, range(0, 12, every), strict=True):
        place.inject({"service": "lambda", "action": "POST", "key": name, "fault": "swallow", "skip": number})
    for name in names:
        detach(marless, name, *BRIEF)
    for found in finished(*names, sweeping=True):
        same(found, expected(marless, *BRIEF))
    assert len(place.struck()) == len(names)


@pytest.mark.parametrize("every", SOME_AND_ALL)
def test_function_survives_kills_after_writes_and_events(place, marless, finished, expected, every):
    """One run for each of the functions' first writes to storage, table and Lambda. After it the function is killed."""
    numbers = range(1 if every > 1 else 0, 30, 3 * every - 2)
    names = [f"killed-{every}-{number:02d}" for number in numbers]
    for name, number in zip(names, numbers, strict=True):
        place.inject(
            {"service": "", "action": "write", "functions": True, "key": name, "fault": "kill", "skip": number}
        )
    for name in names:
        detach(marless, name, *BRIEF)
    for found in finished(*names, sweeping=True):
        same(found, expected(marless, *BRIEF))
    assert len(place.struck()) == len(names)


def test_run_against_fixed_policies_has_local_weights(place, marless, finished, expected):
    """The run has its own copy of them in the cloud, so functions need no access to the other run."""
    chase = ("task.name=mpe/simple_tag", "stop.rounds=2")
    assert marless.train("chased", *chase).code == 0
    settings = (*chase, "opponents.side=0", "opponents.policies=chased")
    for name, more in {"driven-against": (), "alone-against": ("--detach",)}.items():
        said = marless.train(name, *settings, "--backend", "emulated", *more)
        assert said.code == 0, said.err
    same(summary(place.home, "driven-against"), expected(marless, *settings))
    (found,) = finished("alone-against")
    same(found, expected(marless, *settings))


def test_episodes_go_on_from_function_to_function(place, marless, finished, expected):
    settings = (
        "task.name=toy/signal", "task.options.horizon=9", "actors.rollout_length=4", "actors.rollouts=2",
        "stop.rounds=6", "placement.rule=fused",
    )  # fmt: skip
    detach(marless, "fragments", *settings)
    (found,) = finished("fragments")
    same(found, expected(marless, *settings))


@pytest.mark.conformance
def test_lost_and_doubled_events_change_no_sum(place, marless, finished, expected):
    """Four sums of each of two rounds, each a function that reports to a separate set."""
    settings = (
        "algorithm.epochs=1", "algorithm.num_minibatches=1", "actors.rollouts=4", "pipeline.micro_batch=1",
        "placement.rule=packed", *BRIEF,
    )  # fmt: skip
    event = {"service": "lambda", "action": "POST", "key": "summed"}
    place.inject({**event, "fault": "swallow", "skip": 9}, {**event, "fault": "twice", "count": 10_000})
    detach(marless, "summed", *settings)
    (found,) = finished("summed", sweeping=True)
    same(found, expected(marless, *settings))
    struck = [fault["fault"] for fault in place.struck()]
    assert struck.count("swallow") == 1 and struck.count("twice") > 10


@pytest.mark.parametrize("backend", ["local", "inline", "emulated", "aws"])
def test_inspected_run_cannot_be_changed(place, marless, as_aws, backend):
    assert marless.train(f"seen-{backend}", "stop.rounds=1", "--backend", backend).code == 0
    folder = RUNS.find(f"seen-{backend}")
    reference = folder.identity().deployment_ref
    with closing(registry.backend(backend).open(folder.path, 1, read_only=True, deployment_ref=reference)) as seen:
        state = load_state(seen.ledger)
        ref = state.objects[0]
        assert len(seen.storage.get(ref.key)) == ref.size and ref.key in seen.storage.list("rounds/")
        for change in (
            lambda: seen.ledger.commit(STATE, b"", 1),
            lambda: seen.ledger.persist(),
            lambda: seen.storage.put("rounds/000009/x.reply.safetensors", b""),
            lambda: seen.storage.persist([ref.key]),
            lambda: seen.storage.delete([ref.key]),
            lambda: seen.invoker.invoke(attempt_of("actor", "r/000000/describe", 0, b"{}", 1.0)),
        ):
            with pytest.raises(StorageFault, match="the run is open for reading"):
                change()
        assert seen.storage.get(ref.key)
