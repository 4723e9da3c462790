"""The sources of a page's numbers, from a TOML file in `pages`.

``[[numbers]]`` has a `text` of the page with ``{}`` at each place of a number, a `record` and the `values`: one query
for each place. With `rows`, the text stands once for each row. The words of a row replace ``{0}``, ``{1}``, … in text
and values. ``[[lines]]`` names a `function`, as ``module:function``. Its lines stand on the page. ``[[stated]]`` has
`texts` and `tables` with other numbers than measurements, and says `why`: settings, definitions, published results.
On a guide, which is full of settings, it may instead say how many `others` there are.
``[[unrecorded]]`` has texts and tables with measurements that have no record. The page contains its `mark`.
"""

import importlib
import re
from collections.abc import Iterator, Sequence

import msgspec


class Numbers(msgspec.Struct, forbid_unknown_fields=True):
    """Numbers of a text, with a query for each of them."""

    text: str
    values: list[str]
    record: str = ""
    rows: list[list[str]] = []

    def claims(self) -> Iterator[tuple[str, list[str]]]:
        """Return the texts with ``{}`` in place of numbers, and their queries."""
        for row in self.rows or [[]]:
            yield _filled(self.text, row), [_filled(value, row) for value in self.values]


class Lines(msgspec.Struct, forbid_unknown_fields=True):
    """A function that writes lines of the page from records."""

    function: str

    def lines(self) -> Sequence[str]:
        """Return the lines as the records have them now."""
        module, _, name = self.function.partition(":")
        written = getattr(importlib.import_module(module), name)()
        return [line for line in (written.splitlines() if isinstance(written, str) else written) if line]


class Texts(msgspec.Struct, forbid_unknown_fields=True):
    """Texts of the page, and tables by the start of their first line."""

    texts: list[str] = []
    tables: list[str] = []

    def patterns(self) -> Iterator[tuple[str, str]]:
        """Return each text, and the pattern of the place that it names."""
        yield from ((text, pattern(text)) for text in self.texts)
        yield from ((table, rf"^{re.escape(table)}.*\n(?:\|.*\n?)*") for table in self.tables)


class Stated(Texts, forbid_unknown_fields=True, kw_only=True):
    """Numbers that are no measurements of ours. So many `others` are on the page, in no text of its sources."""

    why: str
    others: int = 0


class Unrecorded(Texts, forbid_unknown_fields=True, kw_only=True):
    """Measured numbers without a record, which the page marks."""

    mark: str


class Sources(msgspec.Struct, forbid_unknown_fields=True):
    """The sources of all numbers of a page."""

    numbers: list[Numbers] = []
    lines: list[Lines] = []
    stated: list[Stated] = []
    unrecorded: list[Unrecorded] = []

    def patterns(self) -> Iterator[tuple[str, str, str]]:
        """Return texts that stand on the page, their patterns, and who names them."""
        for lines in self.lines:
            yield from ((line, pattern(line), f"{lines.function} writes") for line in lines.lines() if line)
        for unrecorded in self.unrecorded:
            yield unrecorded.mark, pattern(unrecorded.mark), "its sources have the mark"
        for group in (*self.stated, *self.unrecorded):
            yield from ((*pair, "its sources name") for pair in group.patterns())


def pattern(text: str) -> str:
    """Return a pattern of the text. A space may be a break of lines on the page."""
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))


def _filled(text: str, words: Sequence[str]) -> str:
    for place, word in enumerate(words):
        text = text.replace(f"{{{place}}}", word)
    return text
