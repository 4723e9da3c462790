"""The tables of names in docs/how-to/coming-from-*.md, between two markers, from
`marless.coordinator.config.foreign_names`."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from marless.coordinator.config.foreign_names import PEERS, Counterpart
from scripts.reference import markdown

_FOLDER = markdown.DATA.parent / "how-to"
_BEGIN, _END = "<!-- names: written by `make docs` -->", "<!-- end of names -->"
LIBRARIES: Mapping[str, Path] = {
    name: _FOLDER / f"coming-from-{name.lower()}.md" for name in ("EPyMARL", "RLlib", "BenchMARL")
}


def page(library: str) -> str:
    """The page of a library with the generated table."""
    before, rest = LIBRARIES[library].read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{_table(PEERS[library])}\n\n{_END}{rest.split(_END)[1]}"


def _table(names: Mapping[str, Counterpart]) -> str:
    rows = [(markdown.code(name), " or ".join(map(markdown.code, one.here)), one.note) for name, one in names.items()]
    # Names without a counterpart come last.
    return markdown.table(("there", "here", ""), sorted(rows, key=lambda row: not row[1]))


PAGES: Mapping[Path, Callable[[], str]] = {path: partial(page, library) for library, path in LIBRARIES.items()}
