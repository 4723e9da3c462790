"""A timeline for a terminal: a line for each kind of task with its number of busy slots, and one for each slot of a
resource."""

from collections.abc import Mapping, Sequence

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.reports.text import seconds
from marless.views.call_lanes import call_bars, lanes_of, waiting_spans
from marless.views.timeline import coordinator_spans

# The action of each kind, in the order of a round. Other kinds follow by their names.
_DOING = {
    "sample": "sampling",
    "whole": "whole rounds",
    "grad": "summing",
    "learn": "learning",
    "evaluate": "evaluating",
    "describe": "describing",
    "initialise": "initialising",
}
_COORDINATOR = "coordinator"
_LABEL = 14
_LEVELS = " ▁▂▃▄▅▆▇█"
# Slots of a resource that have a line each.
_MOST_LINES = 8

Span = tuple[float, float]


def strips(heading: str, records: Sequence[AttemptRecord], length_s: float, width: int = 52) -> list[str]:
    """The lines of a run: `width` columns for `length_s` seconds from the first request on, and the seconds of each
    kind together. A full block means all slots. The coordinator's line shows the time without active functions."""
    since, slots = min(record.asked_at for record in records), max(record.slots for record in records)
    spans: dict[str, list[Span]] = {name: [] for name in _DOING.values()}
    for record in records:
        kind = record.kind.partition(":")[0]
        begin = record.ended_at - record.duration_ms / 1000
        spans.setdefault(_DOING.get(kind, kind), []).append((begin - since, record.ended_at - since))
    lines = [_line(name, each, length_s, slots, width) for name, each in spans.items() if each]
    alone = [(begin - since, end - since) for begin, end in coordinator_spans(records)]
    # The first request of a round comes last here, so that it is the one that counts.
    lines += _asking(records, since, length_s, slots, width)
    newest_first = sorted(records, key=lambda record: -record.asked_at)
    begins = {record.round + 1: record.asked_at - since for record in newest_first}
    last_line = _line(_COORDINATOR, alone, length_s, 1, width)
    return [heading, _rounds(begins, length_s, width), *lines, last_line]


def _asking(records: Sequence[AttemptRecord], since: float, length_s: float, slots: int, width: int) -> list[str]:
    """Return lines with the slots that waited for answers, and with the busy times of each slot of a resource. A
    resource with many slots has one line with their number."""
    if not (actions := call_bars(records)):
        return []
    waits = [(begin - since, end - since) for record in records for begin, end in waiting_spans(record)]
    lines = [_line("asking", waits, length_s, slots, width)]
    for name, lanes in lanes_of(actions).items():
        spans = [(bar.lane, (bar.begun_at - since, bar.ended_at - since)) for bar in actions[name]]
        if lanes > _MOST_LINES:
            lines.append(_line(_label(name, f"x{lanes}"), [span for _, span in spans], length_s, lanes, width))
            continue
        for lane in range(lanes):
            of_lane = [span for number, span in spans if number == lane]
            lines.append(_line(_label(name, str(lane + 1)), of_lane, length_s, 1, width))
    return lines


def _label(name: str, suffix: str) -> str:
    room = _LABEL - len(suffix) - 2
    return f"{name if len(name) <= room else name[: room - 1] + '…'} {suffix}"


def _rounds(begins: Mapping[int, float], length_s: float, width: int) -> str:
    text = ""
    for number, begin in sorted(begins.items()):
        column = int(begin / max(length_s, 1e-9) * width)
        if column >= len(text) + bool(text) and column + len(str(number)) <= width:
            text = f"{text:<{column}}{number}"
    return f"{'round':<{_LABEL}}{text}"


def _line(name: str, spans: Sequence[Span], length_s: float, slots: int, width: int) -> str:
    column_s = max(length_s, 1e-9) / width
    busy_s = [0.0] * width
    for span in spans:  # thousands, each in few columns
        first, last = (min(width - 1, max(0, int(time / column_s))) for time in span)
        for column in range(first, last + 1):
            busy_s[column] += _common_s(span, column * column_s, column_s)
    strip = "".join(_LEVELS[_level(busy / column_s / slots)] for busy in busy_s)
    return f"{name:<{_LABEL}}{strip}  {seconds(sum(end - begin for begin, end in spans))}"


def _common_s(span: Span, begin: float, length: float) -> float:
    return max(0.0, min(span[1], begin + length) - max(span[0], begin))


def _level(share: float) -> int:
    # Even a small share is visible.
    return min(len(_LEVELS) - 1, max(round(share * (len(_LEVELS) - 1)), share > 0.02))
