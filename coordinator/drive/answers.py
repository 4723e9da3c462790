"""The answers in the reports of functions, which run environments that are not ours and may write anything."""

from msgspec.structs import replace

from functions.contract import Answer, Report
from functions.encoding import JsonDecoder, Undecodable

_ANSWERS = JsonDecoder[Answer](Answer)


def decode_answer(report: Report) -> tuple[Report, Answer | None]:
    """The report with its answer, None if it has none; an unreadable answer counts as a crash."""
    if report.outcome != "answered":
        return report, None
    try:
        return report, _ANSWERS.decode(report.body, "its answer")
    except Undecodable as error:
        return replace(report, outcome="crash", detail=str(error)), None
