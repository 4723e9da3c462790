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


def requirements() -> dict[str, list[str]]:
    """Return the packages that each extra brings, also by the same extra of `marless-tasks`."""
    extras, of_tasks = (
        tomllib.loads((PAGE.parents[2] / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        for folder in ("", "packages/marless-tasks")
    )
    return {
        name: ["marless-tasks", *of_tasks[name]] if name in of_tasks else brought for name, brought in extras.items()
    }


def _table() -> str:
    brings = requirements()
    rows = [
        (markdown.code(name), what, ", ".join(map(markdown.code, brings[name]))) for name, (what, _) in EXTRAS.items()
    ]
    return markdown.table(("extra", "for", "brings"), rows)
