"""The numbers of a round in the benchmark with a judge far away, worked out by hand."""

from benchmarks.language import slow_judge
from benchmarks.pipeline.launch import Measured
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.functions.messages.usage import CallTime


def attempt(work, asked_at, ended_at, *actions, queued_ms=0.0):
    function = "learner" if work.startswith("learn") else "actor"
    return AttemptRecord(
        round=0, work=work, function=function, kind=work, size=1, asked_at=asked_at, ended_at=ended_at,
        queued_ms=queued_ms, actions=tuple(CallTime("judge", 0, *times) for times in actions),
    )  # fmt: skip


def test_moments_span_first_request_to_last_question():
    """The second task begins 1 + 5 ms after the round. So its question is asked at 26, begun at 36 and answered at 46
    ms. The first task's second question is answered last, at 90 ms."""
    attempts = [
        attempt("sample/0", 10.0, 10.1, (10.0, 11.0, 12.0), (10.0, 20.0, 90.0)),
        attempt("sample/1", 10.001, 10.05, (20.0, 30.0, 40.0), queued_ms=5.0),
        attempt("learn/g00", 10.1, 10.25),
        attempt("learn/g01", 10.1, 10.2),
    ]
    measured = Measured(slots=6, round_s=[0.25], rounds=[attempts], sha256="")
    moments = [slow_judge._last_ms(measured, point) for point in slow_judge._POINTS.values()]
    ends = slow_judge._learners_end_ms(measured)
    assert [round(each, 6) for each in (*moments, ends)] == [26.0, 36.0, 90.0, 250.0]
