"""Tasks that ask resources in the middle of their work, in pools of worker processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import questioning
from asking import collect
from attempts import attempt_of
from pacing import calls, most_at_once, release
from questioning import steps
from test_processes import on_linux, pids, runs, vanish

from marless.functions.resources.kept_answers import kept_answer
from marless.functions.resources.settings import Resource
from marless.infra.local.dispatch import Capacity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.separate_pools import SeparatePools
from marless.infra.local.task_pool import TaskPool

MODULES = {"actor": "questioning"}
KEY = "0" * 64
FOLDER = Path(questioning.__file__).parent


@pytest.fixture(autouse=True)
def _where_calls_are_noted(tmp_path, shell):
    shell.export(CALLS=str(tmp_path / "calls"))
    shell.import_from(FOLDER)


@pytest.fixture
def pool(tmp_path):
    with TaskPool(Capacity(4, 4), MODULES, tmp_path / "workers") as pool:
        yield pool


@pytest.fixture
def lane(pool, tmp_path):
    """Opens a lane with tasks that may ask `resources`, by name. `weight` is its share."""

    def open_lane(name="run", weight=1.0, **resources):
        lane = pool.lane(name, tmp_path / name, weight)
        lane.serve(resources)
        return lane

    return open_lane


def wait_judge(**settings):
    return Resource(serve="pacing:wait", **settings)


def meet_judge(**settings):
    return Resource(serve="pacing:meet", **settings)


def begin(lane, id, *each, timeout_s=20.0):
    lane.invoke(attempt_of("actor", id, 0, steps(*each), timeout_s))


def said(report):
    assert report.outcome == "answered", report.detail
    return json.loads(report.body)


def told(step):
    return [(answer, error) for answer, error, *_ in step["told"]]


def asked(lane, *each, timeout_s=20.0):
    begin(lane, "task", *each, timeout_s=timeout_s)
    return said(collect(lane, 1)["task"])


def begun(count, wait, what="begin"):
    """Wait until `count` actions have begun or ended, and return the process of the last action."""
    until = time.monotonic() + 60
    while len(events(what)) < count:
        assert time.monotonic() < until, calls()
        wait(0.01)
    return calls()[-1].pid


def events(what="begin"):
    return [note.question for note in calls() if note.what == what]


def test_batch_actions_run_in_parallel_up_to_slots(lane):
    (step,) = asked(lane(judge=meet_judge(slots=3)), ["ask", "judge", ["0.1 3"] * 6])
    assert [error for _, error in told(step)] == [""] * 6
    assert most_at_once(calls()) == 3
    assert {slot for *_, slot in step["told"]} == {0, 1, 2}


def test_all_runs_share_slots_of_a_resource(lane):
    runs_ = [lane(name, judge=meet_judge(slots=2)) for name in "abc"]
    for run in runs_:
        begin(run, "task", ["ask", "judge", ["0.05 2"] * 4])
    for run in runs_:
        said(collect(run, 1)["task"])
    assert most_at_once(calls()) == 2 and len(calls()) == 2 * 12


def test_same_name_with_other_settings_is_other_resource(lane):
    one, other = lane("a", judge=meet_judge()), lane("b", judge=meet_judge(timeout_s=9.0))
    for run in (one, other):
        begin(run, "task", ["ask", "judge", ["0 2"]])
    for run in (one, other):
        said(collect(run, 1)["task"])
    assert most_at_once(calls()) == 2


def test_one_process_serves_consecutive_runs_with_any_imports(lane):
    processes = {
        asked(run, ["ask", "judge", ["0"]])[0]["told"][0][0]
        for run in (lane(name, judge=wait_judge()) for name in "ab")
    }
    assert len(processes) == 1


def test_task_clock_pauses_while_waiting(lane):
    run = lane(judge=wait_judge())
    asked(run, ["pid"])  # a process has started
    (step,) = asked(run, ["ask", "judge", ["2.2"]], timeout_s=2.0)
    assert told(step)[0][1] == ""
    begin(run, "late", ["ask", "judge", ["0.3"]], ["sleep", 60], timeout_s=2.0)
    report = collect(run, 1)["late"]
    assert report.outcome == "timeout"
    assert report.duration_ms + report.init_ms >= 2300.0  # its wait, and 2 s of work


def test_waiting_task_keeps_slot_and_frees_core(tmp_path):
    with TaskPool(Capacity(2, 1.0), MODULES, tmp_path / "workers") as pool:
        run = pool.lane("run", tmp_path / "run")
        run.serve({"judge": wait_judge(slots=2)})
        begin(run, "asks", ["ask", "judge", ["held"]])
        begun(1, pool.wait)
        begin(run, "computes", ["compute", 0.1])
        begin(run, "third", ["pid"])
        assert list(collect(run, 2)) == ["computes", "third"]
        release()
        said(collect(run, 1)["asks"])


def test_opposite_order_of_two_resources_does_not_deadlock(lane):
    resources = {"first": wait_judge(), "second": wait_judge()}
    one, other = lane("one", **resources), lane("other", **resources)
    for number in range(2):
        begin(one, f"{number}", ["ask", "first", ["0.05"]], ["ask", "second", ["0.05"]])
        begin(other, f"{number}", ["ask", "second", ["0.05"]], ["ask", "first", ["0.05"]])
    for run in (one, other):
        for report in collect(run, 2).values():
            assert [told(step)[0][1] for step in said(report)] == ["", ""]


def test_run_with_many_questions_does_not_starve_others(pool, lane):
    many, few = lane("many", judge=wait_judge()), lane("few", judge=wait_judge())
    asked(few, ["ask", "judge", ["0.05 few"]])  # how long an action takes is known
    begin(many, "task", ["ask", "judge", ["0.05 many"] * 30])
    begun(4, pool.wait)
    (step,) = asked(few, ["ask", "judge", ["0.05 few"]])
    said(collect(many, 1)["task"])
    later = [note.question.split()[1] for note in calls() if note.what == "begin" and note.when > step["began"]]
    assert later.index("few") < 6


def test_actions_begin_no_faster_than_the_rate_says(lane):
    (step,) = asked(lane(judge=wait_judge(slots=8, rate="20/s")), ["ask", "judge", ["0"] * 6])
    begins_s = sorted(note.when - step["began"] for note in calls() if note.what == "begin")
    assert all(begin >= number / 20 for number, begin in enumerate(begins_s)) and len(begins_s) == 6


def test_action_that_kills_its_process_is_retried(lane):
    run = lane(judge=Resource(serve="pacing:die_at_first"))
    assert told(asked(run, ["ask", "judge", ["0"]])[0]) == [("alive", "")]
    assert len(calls()) == 2


def test_hanging_action_is_retried_and_frees_its_slot(lane):
    run = lane(judge=Resource(serve="pacing:hang", timeout_s=0.3, attempts=2))
    for count in (2, 4):
        ((answer, error, *_, attempts, _),) = asked(run, ["ask", "judge", ["0"]])[0]["told"]
        assert answer == "" and error.startswith("no answer within 0.3 s") and "\n" not in error
        assert attempts == 2 and len(calls()) <= count  # a busy machine may end a process before it notes anything


def test_killed_resource_process_costs_only_an_attempt(pool, lane):
    run = lane(judge=wait_judge())
    begin(run, "task", ["ask", "judge", ["held"]])
    os.kill(begun(1, pool.wait), signal.SIGKILL)
    release()
    assert told(said(collect(run, 1)["task"])[0])[0][1] == ""
    assert [note.what for note in calls()] == ["begin", "begin", "end"]


def test_action_of_killed_asker_is_not_answered(pool, lane, tmp_path):
    run = lane(judge=wait_judge())
    begin(run, "task", ["mark", "pids"], ["ask", "judge", ["held"] * 3])
    begun(1, pool.wait)
    os.kill(pids(FileStorage(tmp_path / "run"), 1)[0], signal.SIGKILL)
    assert collect(run, 1)["task"].outcome == "crash"
    release()
    assert told(asked(run, ["ask", "judge", ["0"]])[0])[0][1] == ""
    assert events("end") == ["held", "0"]


def test_cached_answer_survives_killed_asker_with_one_bill(pool, lane, tmp_path):
    run = lane(judge=wait_judge(keep=True))
    begin(run, "task", ["mark", "pids"], ["ask", "judge", ["held"], [KEY]])
    begun(1, pool.wait)
    os.kill(pids(FileStorage(tmp_path / "run"), 1)[0], signal.SIGKILL)
    assert collect(run, 1)["task"].outcome == "crash"
    release()
    ((answer, error, paid, *_),) = asked(run, ["ask", "judge", ["held"], [KEY]])[0]["told"]
    assert error == "" and paid
    begin(run, "other", ["ask", "judge", ["held"], [KEY]])
    assert said(collect(run, 1)["other"])[0]["told"][0][:3] == [answer, "", False]
    assert len(calls()) == 2


def test_failed_attempt_is_billed_after_asker_is_killed(pool, lane, tmp_path):
    """The process at the second question is killed, and while that waits for the slot again, the task that asked."""
    keys = [f"{number:064}" for number in range(3)]
    run = lane(judge=wait_judge(keep=True))
    begin(run, "task", ["mark", "pids"], ["ask", "judge", ["0 a", "held b", "held c"], keys])
    os.kill(begun(2, pool.wait), signal.SIGKILL)
    begun(3, pool.wait)
    os.kill(pids(FileStorage(tmp_path / "run"), 1)[0], signal.SIGKILL)
    assert collect(run, 1)["task"].outcome == "crash"
    release()
    told_again = asked(run, ["ask", "judge", ["0 a", "held b", "held c"], keys])[0]["told"]
    attempts = [attempts for *_, attempts, _ in told_again]
    # The second attempt at b may begin before or after c.
    assert attempts == [1, 2, 1] and events()[:2] == ["0 a", "held b"] and sorted(events()[2:]) == ["held b", "held c"]
    assert [kept_answer(FileStorage(tmp_path / "run"), key).failed for key in keys] == [0, 1, 0]


@on_linux
@pytest.mark.parametrize("keep", [False, True])
def test_ending_run_finishes_action_with_cached_answer(pool, lane, tmp_path, keep):
    run, other = lane("run", judge=wait_judge(keep=keep)), lane("other", judge=wait_judge(keep=keep))
    begin(run, "task", ["ask", "judge", ["held"], [KEY]])
    process = begun(1, pool.wait)
    run.close()
    assert runs(process) == keep
    release()
    assert told(asked(other, ["ask", "judge", ["0"]])[0])[0][1] == ""
    assert (kept_answer(FileStorage(tmp_path / "run"), KEY) is not None) == keep
    assert most_at_once(calls()) == (1 if keep else 2)


@on_linux
@pytest.mark.parametrize("keep", [False, True])
def test_ending_pool_finishes_action_with_cached_answer(pool, lane, tmp_path, keep):
    run = lane(judge=wait_judge(keep=keep))
    begin(run, "task", ["ask", "judge", ["held"], [KEY]])
    process = begun(1, pool.wait)
    pool.close()
    assert runs(process) == keep
    release()
    assert vanish([process])
    assert (kept_answer(FileStorage(tmp_path / "run"), KEY) is not None) == keep


DRIVER = """
import signal
import sys
from pathlib import Path
from marless.functions.resources.settings import Resource
from marless.infra.local.dispatch import Capacity
from marless.infra.local.task_pool import TaskPool
from attempts import attempt_of
from questioning import steps
root = Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
with TaskPool(Capacity(1, 1), {"actor": "questioning"}, root / "driver") as pool:
    run = pool.lane("run", root / "run")
    run.serve({"judge": Resource(serve="pacing:wait", keep=True, timeout_s=float(sys.argv[3]))})
    run.invoke(attempt_of("actor", "task", 0, steps(["ask", "judge", [sys.argv[2]], ["0" * 64]]), 60.0))
    while True:
        run.wait(1.0)
"""


def killed_driver(root, question, timeout_s, number=signal.SIGKILL):
    """The process of a resource, after its driver got a signal in the middle of its action."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (FOLDER, FOLDER.parent / "messages", FOLDER.parents[2]))),
    }
    arguments = [sys.executable, "-c", DRIVER, str(root), question, str(timeout_s)]
    driver = subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)
    process = begun(1, time.sleep)
    driver.send_signal(number)
    driver.wait()
    return process


@on_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_resource_finishes_action_after_driver_ended(lane, tmp_path, number):
    process = killed_driver(tmp_path, "1.0", 20.0, number)
    run = lane(judge=wait_judge(keep=True))
    assert told(asked(run, ["ask", "judge", ["1.0"], [KEY]])[0])[0][1] == ""
    assert [note.what for note in calls()] == ["begin", "end"]
    assert vanish([process])


@on_linux
def test_hanging_resource_outlives_killed_driver_until_timeout(tmp_path):
    began = time.monotonic()
    process = killed_driver(tmp_path, "60", 3.0)
    assert runs(process)
    assert vanish([process])
    assert time.monotonic() - began > 2.0


@on_linux
def test_question_answered_elsewhere_uses_no_action_time(lane, tmp_path):
    killed_driver(tmp_path, "60 first", 3.0)  # it ends without an answer, 3 s later
    run = lane(judge=wait_judge(keep=True, timeout_s=3.0, attempts=1))
    ((_, error),) = told(asked(run, ["ask", "judge", ["1.0"], [KEY]])[0])
    assert error == ""


def test_interrupted_question_is_not_answered(pool, lane):
    run = lane(judge=wait_judge(slots=2))
    said_ = asked(run, ["give up", "judge", "held first", 0.2], ["ask", "judge", ["0.1 second", "0 third"]])
    assert said_[0] == "given up"
    assert [error for _, error in told(said_[1])] == ["", ""]
    release()
    begun(3, pool.wait, "end")
    assert sorted(events("end")) == ["0 third", "0.1 second", "held first"]


def test_programs_started_by_task_cannot_ask(lane):
    (step,) = asked(lane(judge=wait_judge()), ["ask in a child", "judge"])
    assert step == {"fault": "resource 'judge': a process that a task has started cannot ask; its task can"}


def test_thread_outliving_task_cannot_ask(lane, tmp_path):
    run, storage = lane(judge=wait_judge()), FileStorage(tmp_path / "run")
    asked(run, ["ask later", "judge", 1.0])
    until = time.monotonic() + 60
    while not storage.list("later"):
        assert time.monotonic() < until
        run.wait(0.01)
    assert json.loads(storage.get("later/told")) == {
        "fault": "resource 'judge': the task has ended whose environment asks"
    }


def test_an_unknown_resource_is_an_error(lane):
    ((_, error),) = told(asked(lane(judge=wait_judge()), ["ask", "engine", ["0"]])[0])
    assert error == "the run has no such resource"


@pytest.mark.parametrize("what", ["of another task", "asked before"])
def test_task_that_forges_questions_harms_only_itself(lane, what):
    one, other = lane("one", judge=wait_judge()), lane("other", judge=wait_judge())
    begin(one, "task", ["ask", "judge", ["0"]], ["forge", what])
    assert told(asked(other, ["ask", "judge", ["0.1"]])[0])[0][1] == ""
    report = collect(one, 1)["task"]
    assert report.outcome == "crash" and "wrote into the pipe" in report.detail


def test_task_ended_before_answer_does_not_disturb_next(lane):
    run = lane(judge=wait_judge())
    asked(run, ["give up", "judge", "held", 0.1])
    begin(run, "task", ["ask", "judge", ["0 next"]])
    assert run.wait(0.2) == []
    release()
    assert told(said(collect(run, 1)["task"])[0])[0][1] == ""


def test_separate_processes_per_run_share_resource_slots(tmp_path):
    with SeparatePools(MODULES, tmp_path / "resources") as pools:
        runs_ = [pools.lane(name, tmp_path / name / "objects") for name in "ab"]
        for run in runs_:
            run.serve({"judge": wait_judge()})
            begin(run, "task", ["ask", "judge", ["0.1"] * 3])
        until = time.monotonic() + 60
        while not all(run.reports for run in runs_):
            assert time.monotonic() < until
            pools.wait(1.0)
        for run in runs_:
            assert [error for _, error in told(said(run.reports[0])[0])] == [""] * 3
    assert most_at_once(calls()) == 1


def test_separate_processes_per_run_start_rate_limited_actions(tmp_path):
    with SeparatePools(MODULES, tmp_path / "resources") as pools:
        run = pools.lane("a", tmp_path / "a" / "objects")
        run.serve({"judge": wait_judge(slots=3, rate="4/s")})
        begin(run, "task", ["ask", "judge", ["0"] * 3])
        until = time.monotonic() + 60
        while not run.reports:
            assert time.monotonic() < until
            pools.wait(1.0)
        assert [error for _, error in told(said(run.reports[0])[0])] == [""] * 3
    assert events() == ["0"] * 3


def test_sleeping_batch_gets_all_slots_on_one_core(tmp_path):
    with TaskPool(Capacity(1, 1.0), MODULES, tmp_path / "workers") as pool:
        run = pool.lane("run", tmp_path / "run")
        run.serve({"judge": meet_judge(slots=4)})
        asked(run, ["ask", "judge", ["0.2 1", *["0.2 4"] * 8]])
    assert most_at_once(calls()) == 4


def test_reopened_lane_has_its_new_resources(lane):
    run = lane(judge=wait_judge())
    asked(run, ["ask", "judge", ["0"]])
    run.serve({"judge": meet_judge(slots=3)})
    asked(run, ["ask", "judge", ["0 3"] * 3])
    assert most_at_once(calls()) == 3


@on_linux
def test_program_started_by_resource_occupies_its_core(tmp_path):
    """Else a busy engine behind an idle process would take no core."""
    code = "import sys,time\nfor line in sys.stdin:\n t=time.monotonic()+1\n while time.monotonic()<t: pass\n print(1)"
    engine = Resource(command=f'{sys.executable} -u -c "{code}"', slots=2)
    with TaskPool(Capacity(3, 1.0), MODULES, tmp_path / "workers") as pool:
        run = pool.lane("run", tmp_path / "run")
        run.serve({"engine": engine})
        began = time.monotonic()
        ((step),) = asked(run, ["ask", "engine", ["a", "b"]])
        assert [error for _, error in told(step)] == ["", ""]
        assert time.monotonic() - began > 1.9  # one after the other on one core


def test_questions_of_dead_task_are_reported_unless_cached(pool, lane, tmp_path):
    run = lane(judge=wait_judge(slots=2), keeper=wait_judge(keep=True))
    begin(
        run,
        "task",
        ["mark", "pids"],
        ["ask", "keeper", ["0 kept"], [KEY]],
        ["ask", "judge", ["0.1 first"]],
        ["ask", "judge", ["held second"] * 3],
    )
    begun(4, pool.wait)  # the third question waits for a slot
    os.kill(pids(FileStorage(tmp_path / "run"), 1)[0], signal.SIGKILL)
    report = collect(run, 1)["task"]
    assert list(report.call_use) == ["judge"]
    use = report.call_use["judge"]
    assert (use.count, use.hits) == (3, 0) and use.ms >= 100
    assert [time.resource for time in report.call_times] == ["keeper", "judge", "judge", "judge"]
    assert all(time.asked_ms <= time.begun_ms <= time.ended_ms for time in report.call_times)
    assert {time.slot for time in report.call_times[-2:]} == {0, 1}


def test_few_actions_share_idle_cores_many_get_minimum(tmp_path):
    solver = Resource(serve="pacing:divide", slots=4, cores=(1, 4))
    with TaskPool(Capacity(1, 4.0), MODULES, tmp_path / "workers") as pool:
        run = pool.lane("run", tmp_path / "run")
        run.serve({"solver": solver})
        alone = [int(asked(run, ["ask", "solver", ["0.2"]])[0]["told"][0][0]) for _ in range(6)]
        assert alone[0] == 1 and max(alone) > 1
        crowd = [int(one[0]) for one in asked(run, ["ask", "solver", ["0.2"] * 24])[0]["told"]]
        assert crowd.count(1) > 12
    assert most_at_once(calls(), cores=True) <= 4


def test_action_needing_many_cores_is_not_starved(tmp_path):
    """Small tasks would keep one of two cores busy all the time."""
    solver = Resource(serve="pacing:compute", cores=(2, 2))
    with TaskPool(Capacity(4, 2.0), MODULES, tmp_path / "workers") as pool:
        run, other = pool.lane("run", tmp_path / "run"), pool.lane("other", tmp_path / "other")
        run.serve({"solver": solver})
        for number in range(100):
            begin(other, f"{number}", ["compute", 0.1])
        begin(run, "asks", ["ask", "solver", ["0.1"]])
        (step,) = said(collect(run, 1)["asks"])
        assert told(step) == [("2", "")]
        assert sum(pending.id != "asks" for pending in other.pending_tasks()) > 5


def test_service_token_is_only_in_the_service_process(lane, shell):
    names = [*(f"MARLESS_RESOURCE_{name}_TOKEN" for name in ("JUDGE", "OTHER")), "MARLESS_TOKEN"]
    shell.export(**dict.fromkeys(names, "secret"))
    run = lane(judge=Resource(serve="pacing:variable"))
    step, *own = asked(run, ["ask", "judge", names], *(["variable", name] for name in names))
    assert [answer for answer, _ in told(step)] == ["secret", "none", "none"]
    assert own == ["none", "none", "none"]


def test_action_costs_driver_at_most_thousand_python_calls(lane):
    """If a call takes a tenth of a microsecond, that is a tenth of a millisecond in addition to the action."""
    run = lane(judge=wait_judge())
    asked(run, ["ask", "judge", ["0"]])
    assert calls_of_python(lambda: asked(run, *[["ask", "judge", ["0"]]] * 50)) < 50 * 1500
    assert calls_of_python(lambda: asked(run, ["ask", "judge", ["0"] * 100])) < 100 * 1500


def calls_of_python(work):
    count = 0

    def look(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
