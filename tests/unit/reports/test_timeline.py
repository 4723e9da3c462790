import json
import re
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.page.timeline_page import MOST_LANES, page
from marless.reports import attempts
from marless.reports.attempts import AttemptLog
from marless.views.timeline import bars, chrome_trace, coordinator_spans
from marless.views.timeline_strips import strips


def attempt(work, asked, ended, took_ms, init_ms=0.0, **fields):
    kind = work.split("/")[0]
    return AttemptRecord(
        round=0, work=work, function="actor", kind=kind, size=1, asked_at=asked, ended_at=ended,
        init_ms=init_ms, duration_ms=took_ms, **fields,
    )  # fmt: skip


# Three tasks at once on two slots, the third after a wait of 1 s. Then 0.5 s of the coordinator. Then a learner.
RECORDS = [
    attempt("sample/0", 10.0, 11.0, 800.0, init_ms=200.0),
    attempt("sample/1", 10.0, 12.0, 2000.0),
    attempt("sample/2", 10.0, 12.5, 1500.0),
    attempt("learn/all", 13.0, 15.0, 2000.0),
]


def test_attempts_share_lane_unless_they_overlap():
    found = {bar.record.work: (bar.lane, bar.start, bar.ready) for bar in bars(RECORDS)}
    assert found == {
        "sample/0": (0, 10.0, pytest.approx(10.2)),
        "sample/1": (1, 10.0, 10.0),
        "sample/2": (0, 11.0, 11.0),
        "learn/all": (0, 13.0, 13.0),
    }


def test_coordinator_is_alone_between_end_and_next_task():
    assert coordinator_spans(RECORDS) == [(12.5, 13.0)]


def test_page_explains_every_attempt_and_its_seconds():
    text = page("Timeline", {"a <run>": RECORDS})
    assert "<h2>a &lt;run&gt;</h2>" in text and "<script" not in text and "://" not in text
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL).group(0))
    titles = [title.text for title in svg.iter("title")]
    assert "round 1 sample/2, waited 1.00 s, worked 1.50 s, answered" in titles
    assert "coordinator 500.0 ms" in titles
    # 0.8 + 2.0 + 1.5 s of sampling. 1 s of waiting.
    sums = ("sample: 4.30 s", "learn: 2.00 s", "start-up: 200.0 ms", "waiting: 1.00 s", "coordinator alone: 500.0 ms")
    assert all(each in text for each in sums)
    widths = {title.text: float(rect.get("width")) for rect in svg.iter("rect") for title in rect}
    assert widths["round 1 learn/all, waited 0.0 ms, worked 2.00 s, answered"] == pytest.approx(1060 * 2 / 5, abs=0.01)


def test_label_of_last_tick_is_within_picture():
    """A label of five letters of 11 px is at most 60 px wide. The picture is 1,200 px wide."""
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", page("Timeline", {"a": RECORDS}), re.DOTALL).group(0))
    ticks = [float(text.get("x")) for text in svg.iter("text") if text.get("class") == "middle"]
    assert ticks[0] >= 110 and ticks[-1] + 30 <= 1200


def test_indistinguishable_lanes_are_counted_only():
    many = [attempt(f"sample/{number}", 0.0, 1.0, 1000.0) for number in range(MOST_LANES + 7)]
    text = page("Timeline", {"many": many})
    assert "7 further lanes are not drawn" in text
    assert text.count("<rect") == MOST_LANES


def test_runs_on_one_page_share_time_scale():
    """The first run takes 5 s and the second half as long, so that it ends in the middle."""
    quick = [msgspec.structs.replace(RECORDS[3], asked_at=20.0, ended_at=22.5, duration_ms=2500.0)]
    pictures = re.findall(r"<svg.*?</svg>", page("Timeline", {"slow": RECORDS, "quick": quick}), re.DOTALL)
    (bar,) = ElementTree.fromstring(pictures[1]).iter("rect")
    assert len(pictures) == 2 and float(bar.get("width")) == pytest.approx(1060 * 2.5 / 5, abs=0.01)


def test_terminal_line_shows_busy_slot_share_per_kind():
    records = [msgspec.structs.replace(record, slots=2) for record in RECORDS]
    records += [attempt("learn/all", 15.0, 18.0, 1000.0, slots=2)]
    records[-1] = msgspec.structs.replace(records[-1], round=1, ended_at=16.0)
    # A second in each column: of two slots 0.9, all and a quarter sample, then a half learns.
    assert strips("first", records, 8.0, width=8) == [
        "first",
        "round         1    2",
        "sampling      ▇█▂       4.3 s",
        "learning         ▄▄▄    3.0 s",
        "coordinator     ▄       0.5 s",
    ]


def test_the_trace_has_every_attempt_in_microseconds():
    events = json.loads(chrome_trace(RECORDS))["traceEvents"]
    found = {event["name"]: (event["tid"], event["ts"], event["dur"]) for event in events}
    assert found == {
        "coordinator": (0, 2_500_000, 500_000),
        "start-up": (1, 0, 200_000),
        "sample/0": (1, 200_000, 800_000),
        "sample/1": (2, 0, 2_000_000),
        "sample/2": (1, 1_000_000, 1_500_000),
        "learn/all": (1, 3_000_000, 2_000_000),
    }


def test_log_keeps_lines_and_skips_torn_line(tmp_path):
    path = tmp_path / "attempts.jsonl"
    AttemptLog(path).record(RECORDS[:2])
    with path.open("ab") as file:
        file.write(b'{"round":0,"wor')
    found = attempts.read(path)
    assert [record.work for record in found] == ["sample/0", "sample/1"]
    # Times are moved from the monotonic clock, together.
    assert found[1].ended_at - found[0].asked_at == pytest.approx(2.0)
    assert attempts.read(tmp_path / "none") == []


@pytest.mark.parametrize("field", [{"slots": 0}, {"ended_at": 1e308}, {"duration_ms": 1e308}])
def test_lines_that_no_run_writes_are_skipped(tmp_path, field):
    """Without slots, and with times that give infinite differences."""
    path = tmp_path / "attempts.jsonl"
    AttemptLog(path).record([RECORDS[0], msgspec.structs.replace(RECORDS[1], **field), RECORDS[2]])
    assert [record.work for record in attempts.read(path)] == ["sample/0", "sample/2"]


def test_later_driver_continues_log_after_torn_line(tmp_path):
    path = tmp_path / "attempts.jsonl"
    path.write_bytes(b'{"round":0,"wor')
    AttemptLog(path).record(RECORDS[:1])
    AttemptLog(path).record(RECORDS[1:])
    assert [record.work for record in attempts.read(path)] == [record.work for record in RECORDS]


def test_a_long_run_keeps_its_first_attempts(tmp_path):
    log = AttemptLog(tmp_path / "attempts.jsonl", most_lines=3)
    for record in RECORDS:
        log.record([record])
    AttemptLog(tmp_path / "attempts.jsonl", most_lines=3).record(RECORDS)
    kept = attempts.read(tmp_path / "attempts.jsonl")
    assert [record.work for record in kept] == ["sample/0", "sample/1", "sample/2"]


def test_full_disk_ends_log_but_not_run(tmp_path):
    log = AttemptLog(tmp_path / "no such folder" / "attempts.jsonl")
    log.record(RECORDS)
    log.record(RECORDS)
    assert not (tmp_path / "no such folder").exists()


def test_a_record_reads_back_as_itself():
    assert msgspec.json.decode(msgspec.json.encode(RECORDS[0]), type=AttemptRecord) == RECORDS[0]
