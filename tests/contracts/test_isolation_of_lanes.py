"""Lanes of one pool with tasks that harm their processes, and the effect on other lanes."""

import os
import signal
import time
from pathlib import Path

import pytest
from asking import ask, begin, collect, said
from test_processes import on_linux, pids, runs, vanish

from marless.infra.local.dispatch import Capacity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.task_pool import TaskPool

MODULES = {"actor": "echo", "learner": "echo_too"}


@pytest.fixture
def pool(tmp_path, shell):
    """A pool of two slots. Its functions are `echo` and the same by another name."""
    for folder in (Path(__file__).parent, tmp_path):
        shell.import_from(folder)
    (tmp_path / "echo_too.py").write_text("from echo import handle\n")
    (tmp_path / "somebodys_simulator.py").write_text("")
    with TaskPool(Capacity(2, 2), MODULES, tmp_path / "workers") as pool:
        yield pool


@pytest.fixture
def lanes(pool, tmp_path):
    return pool.lane("one", tmp_path / "one"), pool.lane("other", tmp_path / "other")


def test_process_with_user_code_serves_one_lane_only(lanes):
    one, other = lanes
    assert said(ask(one, "import", "colorsys")) == said(ask(other, "pid"))
    theirs = said(ask(one, "import", "somebodys_simulator"))
    assert said(ask(one, "pid")) == theirs
    learners = {said(ask(lane, "pid", function="learner")) for lane in lanes}
    assert theirs not in learners and said(ask(other, "pid")) != theirs
    assert said(ask(one, "pid")) == theirs


def test_idle_processes_of_lane_leave_slots_to_others(lanes, tmp_path):
    for function in MODULES:
        said(ask(lanes[0], "import", "somebodys_simulator", function=function))
    for lane in lanes:
        begin(lane, "sleeper", "sleep", 0.5)
    for name in ("one", "other"):
        pids(FileStorage(tmp_path / name), 1)
    for lane in lanes:
        said(collect(lane, 1)["sleeper"])


def test_alternating_runs_with_user_code_keep_their_processes(pool, tmp_path):
    six = [pool.lane(f"lane {number}", tmp_path / str(number)) for number in range(6)]
    processes = {said(ask(lane, "import", "somebodys_simulator")) for lane in six}
    for _ in range(5):
        for lane in six:
            for name in "abc":
                begin(lane, name, "pid")
        answers = [[said(report) for report in collect(lane, 3).values()] for lane in six]
        assert all(set(own).isdisjoint(others) for own in answers for others in answers if own is not others)
        processes.update(*answers)
    assert len(processes) <= 8  # one for each lane, and one for each slot


def test_process_changed_since_its_start_serves_no_one(lanes):
    one, other = lanes
    said(ask(one, "import", "somebodys_simulator"))
    theirs = said(ask(one, "mask"))
    assert said(ask(other, "pid")) != theirs and said(ask(one, "pid")) != theirs


@on_linux
def test_daemons_end_with_the_lane_that_started_them(lanes, tmp_path):
    said(ask(lanes[0], "import", "somebodys_simulator"))
    said(ask(lanes[0], "daemons"))
    numbers = pids(FileStorage(tmp_path / "one"), 2)
    assert all(map(runs, numbers))
    lanes[0].close()
    assert vanish(numbers)
    assert said(ask(lanes[1], "echo", "on")) == "on"


@on_linux
def test_worker_that_closed_all_files_ends_at_timeout(lanes, tmp_path):
    began = time.monotonic()
    begin(lanes[0], "task", "close everything", timeout_s=60.0)
    report = collect(lanes[0], 1)["task"]
    assert report.outcome == "crash" and not report.remarks
    assert vanish(pids(FileStorage(tmp_path / "one"), 1)) and time.monotonic() - began < 15


@pytest.mark.parametrize("data", ["bad text", "endless", "forged answer", "forged import"])
def test_a_task_that_writes_frames_harms_itself_alone(lanes, data):
    one, other = lanes
    begin(one, "task", "write everywhere", data, timeout_s=60.0)
    assert said(ask(other, "echo", "on")) == "on"
    report = collect(one, 1)["task"]
    assert report.outcome == "crash" and "wrote into the pipe" in report.detail


def test_long_prints_keep_beginning_and_end(lanes, tmp_path):
    begin(lanes[0], "task", "print megabytes", 40)
    path, most = tmp_path / "workers/1.log", 0
    while not lanes[0].wait(0.01):
        most = max(most, path.stat().st_size)
    lanes[0].close()
    assert most < 2 << 20
    said(ask(lanes[1], "echo", "on"))
    log = path.read_text()
    assert log.startswith("the first line\n") and log.endswith("the last line\n") and "bytes are left out here" in log


@on_linux
def test_pipes_in_place_of_logs_block_no_one(lanes, tmp_path):
    (tmp_path / "workers").mkdir()
    for name in ("zygote", "1"):
        os.mkfifo(tmp_path / f"workers/{name}.log")
    said(ask(lanes[0], "print megabytes", 1))
    (tmp_path / "workers/1.log").unlink()
    os.mkfifo(tmp_path / "workers/1.log")
    said(ask(lanes[0], "print megabytes", 1))
    assert said(ask(lanes[0], "echo", "on")) == "on"


@on_linux
def test_task_with_doubtful_killer_is_retried_alone(lanes, tmp_path):
    one, other = lanes
    said(ask(other, "import", "somebodys_simulator"))
    begin(one, "task", "sleep", 1.5, timeout_s=30.0)
    os.kill(pids(FileStorage(tmp_path / "one"), 1)[0], signal.SIGKILL)
    report = collect(one, 1)["task"]
    assert said(report) == "slept" and "tried again alone" in report.remarks[0]


@on_linux
def test_workers_and_zygotes_that_are_stopped_go_on(lanes, tmp_path):
    one, other = lanes
    zygote = said(ask(other, "parent"))
    begin(one, "task", "sleep", 0.5, timeout_s=60.0)
    (worker,) = pids(FileStorage(tmp_path / "one"), 1)
    for number in (worker, zygote):
        os.kill(number, signal.SIGSTOP)
    for name in "abc":
        begin(other, name, "echo", name, timeout_s=60.0)
    assert {name: said(report) for name, report in collect(other, 3).items()} == {name: name for name in "abc"}
    report = collect(one, 1)["task"]
    assert said(report) == "slept" and not report.remarks


@on_linux
def test_task_killed_while_alone_has_crashed(lanes, tmp_path):
    one, other = lanes
    theirs = said(ask(other, "import", "somebodys_simulator"))
    begin(one, "task", "sleep", 60, timeout_s=90.0)
    storage = FileStorage(tmp_path / "one")
    (first,) = pids(storage, 1)
    os.kill(first, signal.SIGKILL)
    begin(other, "later", "echo", "x")
    while len(storage.list("pids/")) < 2:
        lanes[0].wait(0.1)
    (second,) = set(pids(storage, 2)) - {first}
    assert not runs(theirs) and not other.running
    os.kill(second, signal.SIGKILL)
    report = collect(one, 1)["task"]
    assert report.outcome == "crash" and "killed by SIGKILL" in report.detail
    assert said(collect(other, 1)["later"]) == "x"
