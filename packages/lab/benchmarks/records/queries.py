"""Values of a stored record: ``median [arm=all].return / median [arm=none].return | .2f``.

A query is terms with `+`, `-`, `*` and `/` between them, evaluated from left to right, and the format of the result.
A term is a number, or a statistic with a path. A path names keys of JSON or a column of CSV. Brackets keep the entries
of a list that have these values. ``other.csv:`` before a path reads another record. ``text`` and a path is a cell as it
stands.
"""

import csv
import json
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from marless.reports.statistics import ci95, iqm

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_BETWEEN_TERMS = re.compile(r" ([-+*/]) (?![^\[]*\])")
_KEY = re.compile(r'"[^"]*"|[^.\[\]]+')


def _only(values: Sequence[float]) -> float:
    if len(set(values)) != 1:
        raise ValueError(f"one value is expected, the record has {len(values)}")
    return values[0]


STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "only": _only,
    "mean": statistics.fmean,
    "median": statistics.median,
    "least": min,
    "most": max,
    "sum": math.fsum,
    "count": len,
    "sd": statistics.stdev,
    "iqm": iqm,
    "low": lambda values: ci95(values)[0],
    "high": lambda values: ci95(values)[1],
    "half": lambda values: (ci95(values)[1] - ci95(values)[0]) / 2,
}
"""Statistics of a list of numbers. `low`, `high` and `half` are of Student's 95 % interval of the mean."""


class BadQuery(ValueError):
    """A query without an answer. Its text says why."""


class Records:
    """The records below docs/results of the project in the folder `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._loaded: dict[str, Any] = {}

    def answer(self, query: str, record: str) -> str:
        """Return the formatted value of a query. `record` is the name of the default record. Raises `BadQuery`."""
        expression, _, spec = query.partition(" | ")
        if expression.startswith("text "):
            return self._text(expression.removeprefix("text "), record)
        words = _BETWEEN_TERMS.split(expression.strip())
        try:
            value = self._term(words[0], record)
            for sign, term in zip(words[1::2], words[2::2], strict=True):
                value = _OPERATORS[sign](value, self._term(term, record))
            return format(value, spec.strip())
        except (ValueError, ArithmeticError, TypeError) as error:
            raise BadQuery(f"{query!r} of {record}: {error}") from error

    def load(self, record: str) -> Any:
        """Return rows of CSV, lines of JSON Lines, or the value of JSON. Raises `BadQuery`."""
        if record not in self._loaded:
            self._loaded[record] = _read(self.root / "docs" / "results" / record)
        return self._loaded[record]

    def _text(self, path: str, record: str) -> str:
        cells = {str(entry) for entry in _entries(self.load(record), path)}
        if len(cells) != 1:
            raise BadQuery(f"'text {path}' of {record}: one cell is expected, the record has {len(cells)}")
        return cells.pop()

    def _term(self, text: str, record: str) -> float:
        if re.fullmatch(r"[-\d.]+", text):
            return float(text)
        name, _, path = text.partition(" ")
        if name not in STATISTICS:
            raise ValueError(f"no statistic is called {name}. The statistics are {', '.join(STATISTICS)}")
        other, colon, rest = path.partition(":")
        if colon and other.endswith((".csv", ".json", ".jsonl")):
            record, path = other, rest
        entries = [*_entries(self.load(record), path)]
        # `count` also counts texts, for instance the seeds of an arm.
        numbers: Sequence[Any] = entries if name == "count" else [*map(float, entries)]
        if not numbers:
            raise ValueError("the record has no such value")
        return STATISTICS[name](numbers)


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadQuery(f"docs/results/{path.name} is lost: {error.strerror}") from error
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _entries(data: Any, path: str) -> Iterator[Any]:
    """Return the values at the end of a path, without empty cells."""
    if isinstance(data, list):
        filters, rest = "", path
        if path.startswith("["):
            filters, _, rest = path[1:].partition("]")
        for entry in data:
            if not filters or _fits(entry, filters):
                yield from _entries(entry, rest.removeprefix("."))
    elif path:
        yield from _entries(*_step(data, path))
    elif data is not None and data != "":
        yield data


def _step(data: Any, path: str) -> tuple[Any, str]:
    """The value of the first key of a path, and the rest of the path."""
    part = _KEY.match(path)
    key = part[0].strip('"') if part else ""
    if not isinstance(data, dict) or key not in data:
        raise ValueError(f"the record has no {key or path}")
    return data[key], path[len(part[0]) if part else 0 :].removeprefix(".")


def _fits(entry: dict[str, Any], filters: str) -> bool:
    wanted = (text.split("=", 1) for text in re.split(r";(?! )", filters))
    return all(str(entry.get(key.strip())) == value.strip() for key, value in wanted)
