"""A page of results. Each of its numbers is compared with its source."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.records.queries import BadQuery, Records
from benchmarks.records.sources import Sources, pattern

_NUMBER = r"(?<!\w)(?<![A-Za-z]-)-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
# Code, addresses of links, comments and parts that `make docs` writes are not read.
_HIDDEN = re.compile(
    r"<!-- (\w+): written by `make docs` -->.*?<!-- end of \1 -->|^```.*?^```|<!--.*?-->|`[^`\n]*`|(?<=\])\([^)]*\)|<[^>]*>|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
# These numbers are names: commits, dates, versions, seeds, intervals, issues, and words with a digit.
_NAMES = re.compile(
    r"\b[0-9a-f]*[a-f][0-9a-f]*\b(?<=\w{7})|\b\d{4}-\d\d-\d\d\b|\b\d{1,2} (?:January|February|March|April|May|June|July"
    r"|August|September|October|November|December)(?: \d{4})?|(?:et al\.|and [A-Z]\w+),? \(?\d{4}|\b\d+\.\d+\.\d+\b"
    r"|\bPython \d\.\d+(?:\.\d+)?|\b[Ss]eeds? \d+(?:(?:,| to| and|-) ?\d+)*|\b95 %|\b(?:issue|[Dd]ecision) \d+"
    r"|\b(?!\d+e-?\d)\w*[A-Za-z_]\w*(?:-\w+)*"
)


class Page:
    """A page and the places of its numbers that have a source. `faults` are lines of text."""

    def __init__(self, path: Path, records: Records) -> None:
        self.path, self.name, self._records = path, path.relative_to(records.root).as_posix(), records
        self.text = path.read_text(encoding="utf-8")
        self.faults: list[str] = []
        # Starts and ends of numbers with a source, and values of the records by the place of a number.
        self._sourced: list[tuple[int, int]] = []
        self._values: dict[tuple[int, int], str] = {}

    def check(self, sources: Sources) -> None:
        """Compare the page with its sources, and note each fault."""
        for numbers in sources.numbers:
            for text, queries in numbers.claims():
                self._claim(text, queries, numbers.record)
        for text, expression, who in sources.patterns():
            places = [match.span() for match in re.finditer(expression, self.text, re.MULTILINE)]
            self._sourced += places
            if not places:
                self.faults.append(f"{self.name}: {who} {text!r}, which is not on the page")
        others, known = self._others(), sum(stated.others for stated in sources.stated)
        if known and known != len(others):
            self.faults.append(
                f"{self.name}: {len(others)} numbers have no source, and its sources state {known} others"
            )
        if known != len(others):
            for begin, end in others:
                around = " ".join(self.text[max(0, begin - 40) : end + 30].split())
                self._fault(begin, f"{self.text[begin:end]} has no source: …{around}…")

    def rewritten(self) -> str:
        """Return the text of the page with the values of its records. `check` comes before."""
        text = self.text
        for (begin, end), value in sorted(self._values.items(), reverse=True):
            text = text[:begin] + value + text[end:]
        return text

    def _others(self) -> list[tuple[int, int]]:
        """Return start and end of the visible numbers that have no source."""
        shown = _HIDDEN.sub(lambda match: re.sub(r"\S", " ", match[0]), self.text)
        shown = _NAMES.sub(lambda match: " " * len(match[0]), shown)
        places = (match.span() for match in re.finditer(_NUMBER, shown))
        return [
            (begin, end)
            for begin, end in places
            if not any(first <= begin and end <= last for first, last in self._sourced)
        ]

    def _claim(self, text: str, queries: Sequence[str], record: str) -> None:
        parts = text.split("{}")
        if len(parts) != len(queries) + 1:
            self.faults.append(f"{self.name}: {text!r} has {len(parts) - 1} places for {len(queries)} values")
            return
        matches = [*re.finditer(rf"({_NUMBER}|[^|]+?)".join(map(pattern, parts)), self.text)]
        if not matches:
            self.faults.append(f"{self.name}: its sources name the text {text!r}, which is not on the page")
        for match in matches:
            self._sourced += [match.span(place) for place in range(1, len(parts))]
            self._sourced += [(match.start() + begin, match.start() + end) for begin, end in _labels(match[0])]
            for place, query in enumerate(queries, start=1):
                try:
                    value = self._records.answer(query, record)
                except BadQuery as error:
                    self._fault(match.start(place), str(error))
                    continue
                if match[place] != value:
                    self._values[match.span(place)] = value
                    self._fault(match.start(place), f"{match[place]} is {value} in the record ({query} of {record})")

    def _fault(self, offset: int, line: str) -> None:
        self.faults.append(f"{self.name}:{self.text.count(chr(10), 0, offset) + 1}: {line}")


def _labels(text: str) -> Iterator[tuple[int, int]]:
    """Whole numbers without a unit in the text of a claim: they are part of a name, such as "10 rollouts"."""
    return (match.span() for match in re.finditer(r"(?<![\d.,$])\d+(?![\d.,]|\s*%)", text))
