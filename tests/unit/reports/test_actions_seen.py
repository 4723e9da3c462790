"""Actions on lanes, in the terminal, in traces and in tables."""

import json
import re
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from ablated_runs import empty_line

from marless.coordinator.core.state import RoundCalls
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.functions.messages.usage import CallTime
from marless.loggers.scalars import points
from marless.page.timeline_page import MOST_LANES, page
from marless.reports.attempts import AttemptLog, read
from marless.reports.call_table import CallTotals, mean_ms, rows
from marless.views.call_lanes import call_bars, lanes_of, waiting_spans
from marless.views.timeline import chrome_trace
from marless.views.timeline_strips import strips


def attempt(work, begun, ended, *actions, slots=2):
    took_ms = (ended - begun) * 1000
    return AttemptRecord(
        round=0, work=work, function="actor", kind="sample", size=1, slots=slots, asked_at=begun, ended_at=ended,
        duration_ms=took_ms, actions=tuple(actions),
    )  # fmt: skip


# Two tasks from second 10 on, which wait for one slot of a judge and for two of a solver.
RECORDS = [
    attempt("sample/0", 10.0, 12.0, CallTime("judge", 0, 0, 0, 1000), CallTime("solver", 0, 1000, 1000, 1500)),
    attempt("sample/1", 10.0, 14.0, CallTime("judge", 0, 500, 1000, 3000), CallTime("solver", 1, 500, 1000, 1500)),
]


def test_lane_is_slot_that_served_action():
    bars = call_bars(RECORDS)
    assert list(bars) == ["judge", "solver"] and lanes_of(bars) == {"judge": 1, "solver": 2}
    assert [(bar.lane, bar.asked_at, bar.begun_at, bar.ended_at) for bar in bars["judge"]] == [
        (0, 10.0, 10.0, 11.0),
        (0, 10.5, 11.0, 13.0),
    ]


def test_actions_without_slots_have_own_lanes():
    many = [attempt(f"sample/{n}", 10.0, 12.0, CallTime("judge", 0, 0, 100 * n, 1000)) for n in range(3)]
    bars = call_bars([*many, attempt("sample/3", 11.0, 12.0, CallTime("judge", 0, 0, 0, 500))])
    assert [bar.lane for bar in bars["judge"]] == [0, 1, 2, 0]


def test_parallel_questions_are_waited_for_once():
    assert waiting_spans(RECORDS[0]) == [(10.0, 11.5)]
    assert waiting_spans(RECORDS[1]) == [(10.5, 13.0)]


def test_page_has_lane_per_slot_and_names_asker():
    text = page("Timeline", {"a run": RECORDS})
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL).group(0))
    names = [each.text for each in svg.iter("text")]
    assert [name for name in names if name in ("judge", "solver")] == ["judge", "solver"]
    titles = {title.text: float(rect.get("y")) for rect in svg.iter("rect") for title in rect}
    judge = "judge for round 1 sample/1, waited 500.0 ms, worked 2.00 s"
    solvers = [
        f"solver for round 1 sample/{n}, waited {wait}, worked 500.0 ms" for n, wait in ((0, "0.0 ms"), (1, "500.0 ms"))
    ]
    lanes = [titles[each] for each in (judge, *solvers)]
    assert lanes[1] - lanes[0] == lanes[2] - lanes[1] == 16
    assert "waited 1.50 s for answers" in titles
    for said in ("judge, 2 actions: 3.00 s", "solver, 2 actions: 1.00 s", "waiting for answers, in functions: 4.00 s"):
        assert said in text


def test_indistinguishable_slot_lanes_are_counted_only():
    many = attempt("sample/0", 10.0, 12.0, *(CallTime("judge", n, 0, 0, 1000) for n in range(MOST_LANES + 5)))
    text = page("Timeline", {"a run": [many]})
    assert "<p>5 further lanes are not drawn.</p>" in text
    assert text.count("judge for round") == MOST_LANES


def test_the_terminal_has_a_line_for_each_slot():
    lines = strips("a run", RECORDS, 4.0, width=8)
    by_name = {line[:14].strip(): line[14:22] for line in lines[2:]}
    # The judge works from second 0 to 3, each slot of the solver from 1 to 1.5. Both functions wait from 0.5 to 1.5.
    assert by_name == {
        "sampling": "████▄▄▄▄",
        "asking": "▄██▄▄▄  ",
        "judge 1": "██████  ",
        "solver 1": "  █     ",
        "solver 2": "  █     ",
        "coordinator": "        ",
    }
    assert [line.split()[-2:] for line in lines if line.startswith("solver")] == [["0.5", "s"]] * 2


def test_resource_of_many_slots_has_one_terminal_line():
    many = attempt("sample/0", 10.0, 12.0, *(CallTime("judge", n, 0, 0, 1000) for n in range(9)))
    lines = strips("a run", [many], 2.0, width=4)
    assert [line for line in lines if line.startswith("judge")] == ["judge x9      ██    9.0 s"]


def test_run_without_resources_has_no_lanes():
    silent = [attempt("sample/0", 10.0, 12.0)]
    assert not any(line.startswith("asking") for line in strips("a run", silent, 2.0))
    assert "answers" not in page("Timeline", {"a run": silent})


def test_the_trace_has_a_process_for_each_resource():
    events = json.loads(chrome_trace(RECORDS))["traceEvents"]
    processes = {each["pid"]: each["args"]["name"] for each in events if each["ph"] == "M"}
    assert processes == {1: "judge", 2: "solver"}
    judged = [(each["tid"], each["ts"], each["dur"]) for each in events if each["pid"] == 1 and each["ph"] == "X"]
    assert judged == [(0, 0, 1_000_000), (0, 1_000_000, 2_000_000)]


def line(number, **actions):
    return empty_line(round=number, env_steps=number, actions=actions)


LINES = [
    line(1, judge=RoundCalls(count=3, seconds=0.3, timed=3, mean_ms=10.0, p99_ms=12.0)),
    line(2, judge=RoundCalls(count=0, hits=4, seconds=0.0)),
    line(3, judge=RoundCalls(count=1, seconds=0.1, timed=1, mean_ms=30.0, p99_ms=30.0)),
]


def test_table_weighs_rounds_by_actions_and_names_longest():
    assert mean_ms("judge", LINES) == pytest.approx(15.0)
    totals = {"judge": CallTotals(count=1234, hits=4, seconds=75.0, dollars=0.0021)}
    assert rows(totals, LINES) == [("judge", "1,234", "4", "1:15", "$0.0021", "15.0 ms", "30.0 ms")]
    assert rows(totals, [])[0][-2:] == ("-", "-")


def test_loggers_receive_actions_of_round():
    scalars = points(LINES[0], ())[-1].scalars
    assert {name: value for name, value in scalars.items() if name.startswith("action/")} == {
        "action/judge/count": 3, "action/judge/hits": 0, "action/judge/seconds": 0.3,
        "action/judge/mean_ms": 10.0, "action/judge/p99_ms": 12.0,
    }  # fmt: skip
    assert not any("_ms" in name for name in points(LINES[1], ())[-1].scalars)


def test_records_without_resources_have_earlier_bytes():
    assert b"actions" not in msgspec.json.encode(line(1))
    assert b"actions" not in msgspec.json.encode(attempt("sample/0", 10.0, 12.0))


def test_large_attempts_file_continues_without_action_times(tmp_path):
    path = tmp_path / "attempts.jsonl"
    log = AttemptLog(path, most_bytes=300)
    for _ in range(3):
        log.record([RECORDS[0]])
    AttemptLog(path, most_bytes=300).record([RECORDS[0]])
    assert [len(each.actions) for each in read(path)] == [2, 2, 0, 0]
