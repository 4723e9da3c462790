"""What every invoker promises: `coordinator.ports.Invoker`. The deeds a task may ask for are in `echo`."""

import os
import signal
import time
from pathlib import Path

import pytest

from infra.files import FileStorage
from infra.processes import WorkerPool


def collect(invoker, count, limit_s=20.0):
    """`count` reports by task, each of which must come once."""
    reports, until = {}, time.monotonic() + limit_s
    while len(reports) < count:
        assert time.monotonic() < until, f"only {sorted(reports)} were reported"
        for report in invoker.wait(1.0):
            assert report.id not in reports, f"{report.id} was reported twice"
            reports[report.id] = report
    assert invoker.wait(0.0) == []
    return reports


def ask(invoker, deed, function="actor", timeout_s=10.0):
    """The report on one task."""
    invoker.invoke(function, "task", 0, deed.encode(), timeout_s)
    return collect(invoker, 1)["task"]


def runs(pid):
    """Whether the process exists and is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(storage, count):
    """The processes that named themselves in storage, once there are `count` of them."""
    until = time.monotonic() + 20
    while len(keys := storage.list("pids/")) < count:
        assert time.monotonic() < until, f"only {keys} have started"
        time.sleep(0.01)
    return [int(key.rpartition("/")[2]) for key in keys]


def vanish(numbers, limit_s=5.0):
    until = time.monotonic() + limit_s
    while any(runs(number) for number in numbers) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(runs(number) for number in numbers)


def test_a_task_is_answered_with_what_its_function_returned(invoker):
    invoker.invoke("actor", "run/000001/sample", 3, b"echo body", 10.0)
    report = collect(invoker, 1)["run/000001/sample"]
    assert (report.outcome, report.body, report.attempt, report.function) == ("answered", b"body", 3, "actor")
    assert report.detail == ""


def test_waiting_with_nothing_under_way_ends_in_time(invoker):
    start = time.monotonic()
    assert invoker.wait(0.1) == []
    assert 0.1 <= time.monotonic() - start < 1.0


def test_more_tasks_than_workers_are_each_reported_once(invoker):
    for number in range(20):
        invoker.invoke("actor", f"{number}", 0, f"echo {number}".encode(), 10.0)
    reports = collect(invoker, 20)
    assert {id: report.body for id, report in reports.items()} == {f"{n}": f"{n}".encode() for n in range(20)}


def test_bodies_of_megabytes_pass_both_ways_at_once(invoker):
    body = os.urandom(3_000_000).hex()
    for number in range(4):
        invoker.invoke("actor", f"{number}", 0, f"echo {body}".encode(), 10.0)
    assert {report.body for report in collect(invoker, 4).values()} == {body.encode()}


def test_an_escaped_exception_is_a_crash_with_its_type_and_message(invoker):
    report = ask(invoker, "fail no such landmark")
    assert (report.outcome, report.detail) == ("crash", "ValueError: no such landmark")


def test_leaving_through_sys_exit_is_a_crash_and_the_next_task_works(invoker):
    report = ask(invoker, "leave early")
    assert (report.outcome, report.detail) == ("crash", "SystemExit: early")
    assert ask(invoker, "echo on").body == b"on"


def test_an_answer_that_is_not_bytes_is_a_crash(invoker):
    report = ask(invoker, "text")
    assert (report.outcome, report.detail) == ("crash", "TypeError: echo.handle must return bytes, not str")


def test_a_module_that_cannot_be_imported_is_a_crash_every_time(invoker):
    for _ in range(2):
        report = ask(invoker, "echo x", function="learner")
        assert (report.outcome, report.detail) == ("crash", "ModuleNotFoundError: No module named 'no_such_module'")


def test_a_function_that_ends_its_process_is_a_crash_and_the_next_task_works(invoker):
    report = ask(invoker, "exit 3")
    assert report.outcome == "crash"
    assert "exit status 3" in report.detail
    assert "about to exit" in report.detail
    assert ask(invoker, "echo on").body == b"on"


def test_a_segmentation_fault_is_a_crash_that_names_it(invoker):
    report = ask(invoker, "segfault")
    assert report.outcome == "crash"
    assert "killed by SIGSEGV" in report.detail
    assert "Fatal Python error: Segmentation fault" in report.detail


def test_a_task_that_hangs_times_out_and_the_next_one_works(invoker):
    assert ask(invoker, "echo warm").outcome == "answered"
    report = ask(invoker, "sleep 60", timeout_s=0.3)
    assert (report.outcome, report.body) == ("timeout", b"")
    assert 300 <= report.duration_ms < 1000
    assert "no answer within 0.3 s" in report.detail
    assert ask(invoker, "echo on").body == b"on"


def test_every_attempt_is_reported_once_whatever_becomes_of_it(invoker):
    deeds = ["echo x", "sleep 60", "exit 1", "fail x", "segfault", "leave x", "echo y", "sleep 60", "echo z"]
    for number, deed in enumerate(deeds):
        invoker.invoke("actor", f"{number}", 0, deed.encode(), 0.5)
    outcomes = {id: report.outcome for id, report in collect(invoker, len(deeds)).items()}
    expected = ["answered", "timeout", "crash", "crash", "crash", "crash", "answered", "timeout", "answered"]
    assert [outcomes[f"{number}"] for number in range(len(deeds))] == expected
    assert invoker.wait(0.2) == []


def test_what_a_function_prints_does_not_disturb_its_answer(invoker):
    assert ask(invoker, "talk").body == b"done"
    assert ask(invoker, "echo on").body == b"on"


def test_only_the_first_task_of_a_worker_pays_for_its_start(invoker):
    assert ask(invoker, "echo x").init_ms > 10
    assert ask(invoker, "echo x").init_ms == 0


def test_the_duration_is_that_of_the_function_alone(invoker):
    report = ask(invoker, "sleep 0.2")
    assert 200 <= report.duration_ms < 400


def test_the_time_out_covers_the_start_of_the_worker(invoker):
    assert ask(invoker, "echo x", timeout_s=0.005).outcome == "timeout"
    assert ask(invoker, "echo x").outcome == "answered"


def test_no_attempt_is_metered_for_longer_than_its_time_out(invoker):
    report = ask(invoker, "sleep 60", timeout_s=0.5)
    assert report.outcome == "timeout"
    assert report.duration_ms + report.init_ms == pytest.approx(500.0)


def test_the_peak_is_the_function_s_own_memory_not_the_coordinator_s(invoker):
    coordinator = b"x" * (150 << 20)
    assert 5 < ask(invoker, "echo x").peak_mb < 100
    assert ask(invoker, "allocate 120").peak_mb > 120
    del coordinator


class TestProcesses:
    """What only the adapter for local processes must show."""

    def test_closing_ends_tasks_under_way_and_twice_is_harmless(self, pool, tmp_path):
        pool.invoke("actor", "a", 0, b"sleep 60", 60.0)
        pool.invoke("actor", "b", 0, b"compute", 60.0)
        pool.invoke("actor", "queued", 0, b"echo x", 60.0)
        numbers = pids(FileStorage(tmp_path / "blobs"), 2)
        pool.close()
        assert not any(runs(number) for number in numbers)
        pool.close()

    def test_a_worker_starts_only_when_none_is_idle(self, pool):
        assert len({ask(pool, "pid").body for _ in range(3)}) == 1

    def test_tasks_wait_their_turn_in_order(self, tmp_path, local_invokers):
        with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}) as pool:
            for number in range(5):
                pool.invoke("actor", f"{number}", 0, b"pid", 5.0)
            reports = collect(pool, 5)
        assert list(reports) == ["0", "1", "2", "3", "4"]
        assert len({report.body for report in reports.values()}) == 1

    def test_a_waiting_task_s_time_out_has_not_begun(self, tmp_path, local_invokers):
        with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}) as pool:
            ask(pool, "pid")
            for number in range(3):
                pool.invoke("actor", f"{number}", 0, b"fill 1", 0.5)
            assert [report.outcome for report in collect(pool, 3).values()] == ["answered"] * 3

    def test_workers_are_spawned_not_forked(self, pool):
        import echo

        echo.mark = "changed in the parent"
        assert ask(pool, "mark").body == b"fresh False"

    def test_numerical_libraries_get_the_threads_they_were_given(self, tmp_path, local_invokers):
        with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}, threads=3) as pool:
            names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            assert {ask(pool, f"environment {name}").body for name in names} == {b"3"}

    def test_a_module_in_the_current_folder_is_found_but_hides_nothing_of_ours(self, tmp_path, monkeypatch):
        (tmp_path / "mine.py").write_text("import infra\ndef handle(body, blobs): return infra.__file__.encode()\n")
        (tmp_path / "infra.py").write_text("")
        monkeypatch.chdir(tmp_path)
        with WorkerPool(1, tmp_path / "blobs", {"actor": "mine"}) as pool:
            assert ask(pool, "").body.endswith(b"infra/__init__.py")

    def test_a_prewarmed_worker_s_start_is_metered_once_with_its_first_task(self, pool):
        pool.prewarm("actor")
        assert pool.wait(0.5) == []
        assert ask(pool, "echo x").init_ms > 0
        assert ask(pool, "echo x").init_ms == 0

    def test_a_task_right_behind_its_prewarming_is_answered_once(self, tmp_path, local_invokers):
        with WorkerPool(1, tmp_path / "blobs", {"actor": "echo", "learner": "no_such_module"}) as pool:
            pool.prewarm("learner")
            pool.prewarm("actor")
            assert ask(pool, "echo x", timeout_s=5.0).body == b"x"

    def test_an_idle_worker_that_was_killed_costs_no_task(self, pool):
        os.kill(int(ask(pool, "pid").body), signal.SIGKILL)
        time.sleep(0.05)
        assert ask(pool, "echo on").body == b"on"

    def test_a_worker_that_reads_nothing_holds_nobody_up(self, pool):
        os.kill(int(ask(pool, "pid").body), signal.SIGSTOP)
        start = time.monotonic()
        pool.invoke("actor", "large", 0, b"echo " + b"x" * 3_000_000, 0.3)
        assert time.monotonic() - start < 0.2
        assert collect(pool, 1)["large"].outcome == "timeout"
        assert ask(pool, "echo on").body == b"on"

    def test_a_worker_killed_at_its_task_is_a_crash_that_names_the_signal(self, pool, tmp_path):
        pool.invoke("actor", "task", 0, b"sleep 60", 60.0)
        os.kill(pids(FileStorage(tmp_path / "blobs"), 1)[0], signal.SIGKILL)
        report = collect(pool, 1)["task"]
        assert report.outcome == "crash"
        assert "killed by SIGKILL" in report.detail

    def test_what_a_function_printed_is_in_its_worker_s_log(self, pool, tmp_path):
        ask(pool, "talk")
        log = (tmp_path / "workers/1.log").read_text()
        assert all(noise in log for noise in ("noise on stdout", "noise on stderr", "noise of a program"))

    def test_a_log_does_not_grow_without_end(self, pool, tmp_path):
        for _ in range(3):
            ask(pool, "babble")
        assert (tmp_path / "workers/1.log").stat().st_size < 3_000_000

    def test_a_program_that_a_task_started_ends_with_the_task_s_worker(self, pool, tmp_path):
        pool.invoke("actor", "task", 0, b"start", 1.0)
        program = pids(FileStorage(tmp_path / "blobs"), 1)
        assert runs(program[0])
        assert collect(pool, 1)["task"].outcome == "timeout"
        assert vanish(program)

    def test_a_worker_that_cannot_be_started_is_throttled(self, tmp_path):
        (tmp_path / "workers").write_bytes(b"")
        with WorkerPool(1, tmp_path / "blobs", {"actor": "echo"}) as pool:
            pool.prewarm("actor")
            report = ask(pool, "echo x")
        assert report.outcome == "throttled"
        assert "cannot start a worker" in report.detail

    def test_an_interrupt_from_the_terminal_does_not_reach_a_worker(self, pool, tmp_path):
        pool.invoke("actor", "task", 0, b"sleep 0.3", 5.0)
        worker = pids(FileStorage(tmp_path / "blobs"), 1)[0]
        assert os.getsid(worker) == worker != os.getsid(0)
        os.kill(worker, signal.SIGINT)
        assert collect(pool, 1)["task"].outcome == "answered"

    @pytest.mark.parametrize("deed", ["sleep 60", "compute", "hold", "start"])
    def test_workers_and_their_programs_end_with_a_killed_coordinator(self, local_invokers, tmp_path, python, deed):
        source = f"for name in 'ab': client.invoke('actor', name, 0, {deed.encode()!r}, 600.0)\nclient.wait(600.0)"
        driver = python(local_invokers.source + source)
        numbers = pids(FileStorage(tmp_path / "blobs"), 2)
        driver.kill()
        driver.wait()
        assert vanish(numbers)

    def test_idle_workers_end_when_their_coordinator_is_killed(self, local_invokers, python):
        source = "client.invoke('actor', 'a', 0, b'pid', 9.0)\nprint(client.wait(9.0)[0].body.decode(), flush=True)\n"
        driver = python(local_invokers.source + source + "client.wait(600.0)")
        number = int(driver.stdout.readline())
        assert runs(number)
        driver.kill()
        driver.wait()
        assert vanish([number])

    @pytest.mark.parametrize("size", [10, 10_000_000])
    def test_a_coordinator_stopped_beyond_the_time_out_loses_no_finished_answer(self, local_invokers, python, size):
        source = f"""
client.invoke("actor", "warm", 0, b"echo x", 9.0)
client.wait(9.0)
client.invoke("actor", "task", 0, b"fill {size}", 0.8)
print(flush=True)
report = client.wait(9.0)[0]
print(report.outcome, len(report.body))
client.close()
"""
        driver = python(local_invokers.source + source)
        driver.stdout.readline()
        time.sleep(0.1)  # it waits by now
        driver.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        driver.send_signal(signal.SIGCONT)
        assert driver.communicate(timeout=20)[0] == f"answered {size}\n"
