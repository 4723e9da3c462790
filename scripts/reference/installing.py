"""The table of extras in docs/how-to/install.md, between two markers, from `marless.extras` and pyproject.toml."""

import tomllib
from pathlib import Path

from marless.extras import EXTRAS
from scripts.reference import markdown

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install.md"
_BEGIN, _END = "<!-- extras: written by `make docs` -->", "<!-- end of extras -->"


def page() -> str:
    """The page with the generated table."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{_table()}\n\n{_END}{rest.split(_END)[1]}"


def _table() -> str:
    project = tomllib.loads((PAGE.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brings = project["optional-dependencies"]
    rows = [
        (markdown.code(name), what, ", ".join(map(markdown.code, brings[name]))) for name, (what, _) in EXTRAS.items()
    ]
    return markdown.table(("extra", "for", "brings"), rows)
