"""The table of extras in docs/how-to/install.md, between two markers, from `marless.extras` and pyproject.toml."""

import re
import tomllib
from pathlib import Path
from typing import Any

from marless.extras import EXTRAS
from scripts.reference import markdown

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install.md"
_BEGIN, _END = "<!-- extras: written by `make docs` -->", "<!-- end of extras -->"


def page() -> str:
    """The page with the generated table."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{_table()}\n\n{_END}{rest.split(_END)[1]}"


def requirements() -> dict[str, list[str]]:
    """Return the packages that each extra brings, also by way of another package of this repository."""
    root = PAGE.parents[2]
    guests = {path.name: _project(path) for path in root.glob("packages/marless-*")}
    brings: dict[str, list[str]] = _project(root)["optional-dependencies"]
    for name, (first, *_) in brings.items():
        if match := re.fullmatch(r"(marless-\w+)(?:\[(\w+)\])?==.*", first):
            project = guests[match[1]]
            others = [package for package in project["dependencies"] if not package.startswith("marless==")]
            brings[name] = [match[1], *others, *project.get("optional-dependencies", {}).get(match[2], ())]
    return brings


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _table() -> str:
    brings = requirements()
    rows = [
        (markdown.code(name), what, ", ".join(map(markdown.code, brings[name]))) for name, (what, _) in EXTRAS.items()
    ]
    return markdown.table(("extra", "for", "brings"), rows)
