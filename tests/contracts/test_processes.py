"""Behaviour specific to the invoker for local processes. `test_invoker` has the common contract."""

import json
import os
import signal
import struct
import sys
import time
from pathlib import Path

import pytest
from asking import ask, begin, collect, said, task
from attempts import attempt_of
from task_fields import make_task

from marless.functions.environments.base import EnvTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Attempt
from marless.functions.messages.team import Team
from marless.infra.local.dispatch import Capacity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Pending
from marless.infra.local.pipe_messages import TaskEnded, frame
from marless.infra.local.separate_pools import SeparatePools
from marless.infra.local.single_run_pool import WorkerPool
from marless.infra.local.task_pool import TaskPool

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(storage, count):
    until = time.monotonic() + 60
    while len(keys := storage.list("pids/")) < count:
        assert time.monotonic() < until, f"only {keys} have started"
        time.sleep(0.01)
    return [int(key.rpartition("/")[2]) for key in keys]


def vanish(numbers):
    until = time.monotonic() + 30
    while any(runs(number) for number in numbers) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(runs(number) for number in numbers)


def test_sys_exit_is_reported_with_its_message(pool):
    assert ask(pool, "leave", "early").detail == "SystemExit: early"


def test_answer_that_is_not_bytes_is_described(pool):
    assert ask(pool, "mumble").detail == "TypeError: echo.handle must return bytes, not object"


def test_a_segmentation_fault_is_named(pool):
    detail = ask(pool, "segfault").detail
    assert "killed by SIGSEGV" in detail
    assert "Fatal Python error: Segmentation fault" in detail


def test_timeout_includes_start_of_worker(pool):
    assert ask(pool, "echo", "x", timeout_s=0.005).outcome == "timeout"
    assert ask(pool, "echo", "x").outcome == "answered"


def test_attempts_are_metered_at_most_until_timeout(pool):
    report = ask(pool, "sleep", 60, timeout_s=0.5)
    assert report.outcome == "timeout"
    assert report.duration_ms + report.init_ms == pytest.approx(500.0)


def test_closing_ends_running_tasks_and_repeats_harmlessly(pool, tmp_path):
    begin(pool, "a", "sleep", 60, timeout_s=60.0)
    begin(pool, "b", "compute", timeout_s=60.0)
    begin(pool, "queued", "echo", "x", timeout_s=60.0)
    numbers = pids(FileStorage(tmp_path / "blobs"), 2)
    pool.close()
    assert not any(runs(number) for number in numbers)
    pool.close()


def test_a_worker_starts_only_when_none_is_idle(pool):
    assert len({ask(pool, "pid").body for _ in range(3)}) == 1


@on_linux
def test_others_use_core_freed_by_worker_thread(pool):
    assert json.loads(ask(pool, "allocate in threads", 8).body) < 60  # 160 with separate memory for each thread


def test_tasks_wait_their_turn_in_order(tmp_path, local_invokers):
    with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}) as pool:
        for number in range(5):
            begin(pool, f"{number}", "pid", timeout_s=5.0)
        reports = collect(pool, 5)
    assert list(reports) == ["0", "1", "2", "3", "4"]
    assert len({report.body for report in reports.values()}) == 1


def test_slots_with_cores_are_used_while_tasks_compute(pool, tmp_path):
    pool.measured(Pending(None, pool, attempt_of("actor", "run/1/sample", 0, b"", 1.0), 0.0), 1.0, 1.2)
    begin(pool, "a", "sleep", 60, timeout_s=60.0)
    begin(pool, "b", "sleep", 60, timeout_s=60.0)
    assert len(pids(FileStorage(tmp_path / "blobs"), 2)) == 2


def test_waiting_tasks_expect_cores_like_first_of_kind(tmp_path, local_invokers):
    with TaskPool(Capacity(1, 1), {"actor": "echo"}, tmp_path / "workers") as pool:
        one, other = pool.lane("a", tmp_path / "a"), pool.lane("b", tmp_path / "b")
        begin(one, "a/000000/sample/0", "sleep", 0.3)
        for work in ("sample/0", "sample/1", "learn/all"):
            begin(other, f"b/000000/{work}", "sleep", 60, timeout_s=60.0)
        assert [waiting.need["cores"] for waiting in other.waiting.first()] == [1.0, 1.0, 1.0]
        collect(one, 1)
        sample, learn = other.waiting.first()
        assert sample.need["cores"] < 0.5 and learn.need["cores"] == 1.0


def test_load_time_of_task_is_not_expected_again(tmp_path, local_invokers):
    def attempt(id):
        name = id[-1]
        reads = (Ref(key=name, sha256=name, size=900_000),)
        request = make_task(
            EvaluateTask, id=id, run="a", round=0, output="a", seed=0, environment=EnvTask(name="toy/signal"),
            team=Team(groups=(0,)), policies=reads, stream=task("sleep", 1.0).decode(), part=0, episodes=1,
            timeout_s=60.0,
        )  # fmt: skip
        return Attempt("actor", request)

    with TaskPool(Capacity(1, 1, load_s_per_byte=1e-6), {"actor": "echo"}, tmp_path / "workers") as pool:
        lane = pool.lane("a", tmp_path / "a")
        ask(lane, "echo", "x")
        for name in "xy":
            lane.invoke(attempt(f"a/000000/learn/{name}"))
        collect(lane, 2)
        for number in (1, 2):
            lane.invoke(attempt(f"a/{number:06}/learn/x"))
        [waiting] = lane.waiting.first()
        assert waiting.expected_s < 0.7  # of its second asleep, 0.9 s may have been loading


def test_workers_have_nothing_of_the_coordinator_s_memory(pool):
    import echo

    echo.mark = "changed in the parent"
    assert said(ask(pool, "mark")) == "fresh False"


@on_linux
def test_forks_draw_different_random_numbers(pool):
    for name in "ab":
        begin(pool, name, "draw")
    one, other = (json.loads(report.body) for report in collect(pool, 2).values())
    assert not set(one) & set(other)


@on_linux
def test_workers_continue_without_zygote_and_next_is_replaced(pool, tmp_path):
    zygote = said(ask(pool, "parent"))
    assert zygote != os.getpid()
    begin(pool, "a", "sleep", 2.0)
    pids(FileStorage(tmp_path / "blobs"), 1)
    os.kill(zygote, signal.SIGKILL)
    assert vanish([zygote])
    begin(pool, "b", "parent")
    reports = collect(pool, 2)
    assert said(reports["a"]) == "slept"
    assert said(reports["b"]) not in (zygote, os.getpid(), 1)
    began = time.monotonic()
    pool.close()  # close does not wait for a worker of unknown state
    assert time.monotonic() - began < 10


@on_linux
def test_worker_without_zygote_that_dies_is_crash(pool, tmp_path):
    zygote = said(ask(pool, "parent"))
    os.kill(zygote, signal.SIGKILL)
    begin(pool, "task", "sleep", 60, timeout_s=60.0)
    os.kill(pids(FileStorage(tmp_path / "blobs"), 1)[0], signal.SIGKILL)
    assert collect(pool, 1)["task"].outcome == "crash"
    assert said(ask(pool, "echo", "on")) == "on"


@on_linux
def test_a_zygote_ends_with_its_pool(pool):
    zygote = said(ask(pool, "parent"))
    pool.close()
    assert vanish([zygote])


def test_numerical_libraries_get_the_threads_they_were_given(tmp_path, local_invokers):
    with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}, threads=3) as pool:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        assert {said(ask(pool, "environment", name)) for name in names} == {"3"}


def test_modules_of_current_folder_hide_none_of_ours(tmp_path, shell):
    (tmp_path / "mine.py").write_text("import marless\ndef handle(body, blobs): return marless.__file__.encode()\n")
    (tmp_path / "marless.py").write_text("")
    shell.cd(tmp_path)
    with WorkerPool(1, tmp_path / "blobs", {"actor": "mine"}) as pool:
        assert ask(pool, "echo").body.endswith(b"marless/__init__.py")


def test_start_of_prewarmed_worker_is_metered_once(pool):
    pool.prewarm("actor")
    assert pool.wait(0.5) == []
    assert ask(pool, "echo", "x").init_ms > 0
    assert ask(pool, "echo", "x").init_ms == 0


def test_task_right_after_prewarming_is_answered_once(tmp_path, local_invokers):
    with WorkerPool(1, tmp_path / "blobs", {"actor": "echo", "learner": "no_such_module"}) as pool:
        pool.prewarm("learner")
        pool.prewarm("actor")
        assert said(ask(pool, "echo", "x", timeout_s=5.0)) == "x"


def test_killed_idle_worker_costs_no_task(pool):
    idle = said(ask(pool, "pid"))
    os.kill(idle, signal.SIGKILL)
    assert vanish([idle])
    time.sleep(0.2)  # its threads end a moment later
    assert said(ask(pool, "echo", "on")) == "on"


ENDED = frame(TaskEnded(1.0, 1.0, 1.0, 1.0, "QQQQ"))
# Frames that a task may write into its worker's pipe instead of an answer.
FRAMES = {
    "text that is not UTF-8": ENDED.replace(b"QQQQ", b"\xff\xfe\xff\xfe"),
    "deep": struct.pack("<IQ", 100_000, 0) + b"\x91" * 100_000,
    "noise": struct.pack("<IQ", 30, 0) + bytes(range(200, 230)),
    "a time that is no number": frame(TaskEnded(float("nan"), 1.0, 1.0, 1.0)),
    "memory beyond all bounds": frame(TaskEnded(1.0, 1.0, 1e300, 1.0)),
    "no lengths": b"\xff" * 50,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_task_writing_into_worker_pipe_harms_only_itself(tmp_path, kind):
    """The pipe's frames come from the environment's process, which may be any program."""
    with WorkerPool(2, tmp_path / "blobs", {"actor": "echo"}) as pool:
        begin(pool, "good", "sleep", 0.2)
        begin(pool, "bad", "garble", FRAMES[kind].hex(), timeout_s=1.0)
        reports = collect(pool, 2)
        assert reports["bad"].outcome in ("crash", "timeout")
        assert said(reports["good"]) == "slept" and said(ask(pool, "echo", "on")) == "on"


def test_error_with_file_name_beyond_text_arrives(pool):
    assert ask(pool, "misname", b"b\xff".hex()).detail == "FileNotFoundError: no file b\\udcff"


def test_a_worker_that_reads_nothing_holds_nobody_up(pool, tmp_path):
    said(ask(pool, "freeze"))
    pids(FileStorage(tmp_path / "blobs"), 1)
    start = time.monotonic()
    begin(pool, "large", "echo", "x" * 3_000_000, timeout_s=0.3)
    assert time.monotonic() - start < 30  # it reads nothing for a minute
    assert collect(pool, 1)["large"].outcome == "timeout"
    assert said(ask(pool, "echo", "on")) == "on"


def test_killed_worker_is_crash_that_names_signal(pool, tmp_path):
    begin(pool, "task", "sleep", 60, timeout_s=60.0)
    os.kill(pids(FileStorage(tmp_path / "blobs"), 1)[0], signal.SIGKILL)
    report = collect(pool, 1)["task"]
    assert report.outcome == "crash"
    assert "killed by SIGKILL" in report.detail


def test_printed_text_is_in_log_of_worker(pool, tmp_path):
    ask(pool, "talk")
    log = (tmp_path / "workers/1.log").read_text()
    assert all(noise in log for noise in ("noise on stdout", "noise on stderr", "noise of a program"))


def test_a_log_does_not_grow_without_end(pool, tmp_path):
    for _ in range(3):
        ask(pool, "babble")
    assert (tmp_path / "workers/1.log").stat().st_size < 3_000_000


def test_program_started_by_task_ends_with_its_worker(pool, tmp_path):
    begin(pool, "task", "start", timeout_s=3.0)
    program = pids(FileStorage(tmp_path / "blobs"), 1)
    assert runs(program[0])
    assert collect(pool, 1)["task"].outcome == "timeout"
    assert vanish(program)


def test_a_worker_that_cannot_be_started_is_throttled(tmp_path):
    (tmp_path / "workers").write_bytes(b"")
    with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}) as pool:
        pool.prewarm("actor")
        report = ask(pool, "echo", "x")
    assert report.outcome == "throttled"
    assert report.detail.startswith("cannot start a worker: ") and "; check the disk and the folder" in report.detail


def test_terminal_interrupt_does_not_reach_worker(pool, tmp_path):
    begin(pool, "task", "sleep", 0.3, timeout_s=5.0)
    worker = pids(FileStorage(tmp_path / "blobs"), 1)[0]
    assert os.getsid(worker) == worker != os.getsid(0)
    os.kill(worker, signal.SIGINT)
    assert collect(pool, 1)["task"].outcome == "answered"


@pytest.mark.parametrize("deed", ["sleep", "compute", "hold", "start"])
def test_workers_and_programs_end_with_killed_coordinator(local_invokers, tmp_path, python, deed):
    source = f"""
for name in "ab":
    client.invoke(attempt_of("actor", name, 0, {task(deed, 60)!r}, 600.0))
client.wait(600.0)
"""
    driver = python(local_invokers.source + source)
    numbers = pids(FileStorage(tmp_path / "blobs"), 2)
    driver.kill()
    driver.wait()
    assert vanish(numbers)


@pytest.mark.parametrize("deed", ["pid", pytest.param("parent", marks=on_linux)], ids=["worker", "zygote"])
def test_idle_processes_end_with_a_killed_coordinator(local_invokers, python, deed):
    source = f"""
client.invoke(attempt_of("actor", "a", 0, {task(deed)!r}, 60.0))
print(client.wait(60.0)[0].body.decode(), flush=True)
client.wait(600.0)
"""
    driver = python(local_invokers.source + source)
    number = int(driver.stdout.readline())
    assert runs(number) and number != driver.pid
    driver.kill()
    driver.wait()
    assert vanish([number])


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_coordinator_stopped_beyond_timeout_loses_no_answer(local_invokers, python, size):
    source = f"""
client.invoke(attempt_of("actor", "warm", 0, {task("echo")!r}, 60.0))
client.wait(60.0)
client.invoke(attempt_of("actor", "task", 0, {task("fill", size)!r}, 2.0))
print(flush=True)
report = client.wait(60.0)[0]
print(report.outcome, len(report.body))
client.close()
"""
    driver = python(local_invokers.source + source)
    driver.stdout.readline()
    time.sleep(0.1)  # it is waiting by now
    driver.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    driver.send_signal(signal.SIGCONT)
    assert driver.communicate(timeout=60)[0] == f"answered {size + 2}\n"  # its JSON contains quotes


def test_lane_of_separate_pools_has_one_process(local_invokers, tmp_path):
    pools = SeparatePools({"actor": "echo"}, tmp_path / "resources")
    with pools.lane("a", tmp_path / "a/objects") as one, pools.lane("b", tmp_path / "b/objects") as other:
        for number in range(3):
            begin(one, f"{number}", "pid", timeout_s=20.0)
        begin(other, "late", "sleep", 60, timeout_s=3.0)
        worker = pids(FileStorage(tmp_path / "b/objects"), 1)[0]
        until = time.monotonic() + 60
        while len(one.reports) < 3 or not other.reports:
            assert time.monotonic() < until
            pools.wait(0.1)
        used = {int(report.body) for report in one.reports}
        assert [report.outcome for report in other.wait(0.0)] == ["timeout"]
        assert len(used) == 1 and worker not in used
        one.close()
        assert not any(map(runs, used))
        assert said(ask(other, "echo", "on")) == "on"
    pools.wait(0.0)


def test_separate_pools_wait_only_until_a_process_speaks(local_invokers, tmp_path):
    pools = SeparatePools({"actor": "echo"}, tmp_path / "resources")
    with pools.lane("a", tmp_path / "a/objects") as lane:
        ask(lane, "echo", "x")
        began = time.monotonic()
        begin(lane, "next", "sleep", 0.3, timeout_s=20.0)
        pools.wait(20.0)
        assert 0.2 < time.monotonic() - began < 10 and len(lane.reports) == 1
