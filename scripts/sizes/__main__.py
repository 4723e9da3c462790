"""Measure the size of the house and of each other package.

    python -m scripts.sizes             the sizes, and the numbers with budgets
    python -m scripts.sizes --check     exit code 1 above a budget

The house is `functions`, `coordinator`, `infra` and `marless`. A statement is a node of the syntax tree (`ast.stmt`).
Budgets are in scripts/sizes/budgets.toml. If a change raises one, its commit names the code that it removed.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.sizes import budgets

ROOT = Path(__file__).parents[2]
TABLE = "sizes"
HOUSE = ("functions", "coordinator", "infra", "marless")
CORE = "modules that the core loads"
HANDLER = "modules that the coordinator loads on Lambda"
# The modules that begin each of the two.
_ENTRIES = {
    CORE: ("marless.coordinator.core.decide", "marless.coordinator.core.apply"),
    HANDLER: ("marless.coordinator.drive.handler",),
}
# A deployed function has these variables.
_SETTINGS = {
    "MARLESS_BUCKET": "bucket",
    "MARLESS_TABLE": "table",
    "MARLESS_TENANT": "default",
    "POWERTOOLS_METRICS_NAMESPACE": "MARLess",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
}
_LOADED = """
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
importlib.import_module("marless.coordinator.config.schema").RunConfig()
for name, module in sys.modules.items():
    if name.partition(".")[0] == "marless" and not hasattr(module, "__path__"):
        print(name)
"""
_LONG_FUNCTION, _LONG_FILE = 40, 350
_GUIDES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")


class Size(NamedTuple):
    """The number of files, lines and statements."""

    files: int
    lines: int
    statements: int

    def plus(self, other: "Size") -> "Size":
        """Return the sum of both."""
        return Size(self.files + other.files, self.lines + other.lines, self.statements + other.statements)


def loaded_modules(budget: str) -> list[str]:
    """Return the modules of the house that are loaded for a budget, without packages."""
    program = _LOADED.format(modules=_ENTRIES[budget])
    environment = {**_SETTINGS, "PATH": os.environ.get("PATH", os.defpath)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout.split()


def tracked(*patterns: str) -> list[Path]:
    """Return the tracked files of these patterns of git, relative to the root. Links are left out."""
    listing = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    paths = map(Path, listing.stdout.splitlines())
    return [path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink()]


def lines_of(path: Path) -> int:
    """Return the number of lines of a file."""
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


@cache
def statements_of(path: Path) -> list[ast.stmt]:
    """Return all statements of a Python file, nested ones included."""
    waiting: list[ast.AST] = [ast.parse((ROOT / path).read_text(encoding="utf-8"))]
    statements = list[ast.stmt]()
    for node in waiting:
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLDERS)]
        statements += [child for child in inner if isinstance(child, ast.stmt)]
        waiting += inner
    return statements


def size_of(path: Path) -> Size:
    """Return the size of a Python file."""
    return Size(1, lines_of(path), len(statements_of(path)))


def is_test(path: Path) -> bool:
    """Return whether the file is a test, or supports tests."""
    return "tests" in path.parts[:-1]


def sizes(paths: Sequence[Path]) -> dict[str, Size]:
    """Return the sizes of the parts: two folders deep in the house and in packages/, one folder deep elsewhere."""
    parts: dict[str, Size] = {}
    for path in paths:
        depth = 2 if path.parts[0] in (*HOUSE, "packages", "tests") else 1
        folders = path.parts[: min(depth, len(path.parts) - 1)]
        name = "/".join((*folders, "tests") if is_test(path) and folders[0] != "tests" else folders)
        parts[name] = parts.get(name, Size(0, 0, 0)).plus(size_of(path))
    return dict(sorted(parts.items()))


def numbers() -> dict[str, int]:
    """Return the numbers with budgets, by name."""
    return {name: count() for name, count in counters().items()}


def counters() -> dict[str, Callable[[], int]]:
    """Return the function that counts each number, by name."""
    code, pages = tracked("*.py"), tracked("docs/**.md", *_GUIDES)
    house = [path for path in code if path.parts[0] in HOUSE]
    return {
        CORE: lambda: len(loaded_modules(CORE)),
        HANDLER: lambda: len(loaded_modules(HANDLER)),
        "lines of the house": lambda: sum(map(lines_of, house)),
        "statements of the house": lambda: sum(len(statements_of(path)) for path in house),
        "lines of tests": lambda: sum(lines_of(path) for path in code if is_test(path)),
        "words of docs": lambda: sum(words((ROOT / page).read_text("utf-8")) for page in pages),
        f"functions over {_LONG_FUNCTION} lines": lambda: sum(
            _is_long(node) for path in house for node in statements_of(path)
        ),
        f"files over {_LONG_FILE} lines": lambda: sum(lines_of(path) > _LONG_FILE for path in house),
        "public classes with a name of another class": lambda: _repetitions(house),
    }


# The nodes that hold statements.
_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)


def _is_long(node: ast.stmt) -> bool:
    lines = (node.end_lineno or 0) - node.lineno + 1
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines > _LONG_FUNCTION


def _repetitions(paths: Iterable[Path]) -> int:
    names = Counter(
        node.name
        for path in paths
        for node in statements_of(path)
        if isinstance(node, ast.ClassDef) and not (node.col_offset or node.name.startswith("_"))
    )
    return sum(count for count in names.values() if count > 1)


# `make docs` writes a whole page with this mark, or this block of a page.
_WRITTEN_PAGE = "<!-- Written by `make docs`; edit "
_WRITTEN = re.compile(r"<!-- [^\n]*written by `make docs` -->.*?<!-- end of [^\n]*?-->", re.DOTALL)


def words(page: str) -> int:
    """Return how many words people wrote in a page. Generated pages and blocks do not count."""
    return 0 if _WRITTEN_PAGE in page else len(_WRITTEN.sub("", page).split())


def _table(parts: Mapping[str, Size]) -> Iterator[str]:
    yield f"{'':36}{'files':>7}{'lines':>9}{'statements':>12}"
    for name, size in parts.items():
        yield f"{name:36}{size.files:7,}{size.lines:9,}{size.statements:12,}"


def main() -> int:
    """Print, and return 1 if `--check` refuses a number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="refuse a number above its budget")
    parser.add_argument("--lower", action="store_true", help="lower the budgets to the numbers of today")
    options = parser.parse_args()
    counts = numbers()
    if options.check:
        return budgets.check(TABLE, counts, "remove as much, or say in the commit what you removed")
    if options.lower:
        budgets.lower(TABLE, counts)
    print("\n".join([*_table(sizes(tracked("*.py"))), ""]))
    limits = budgets.of_table(TABLE)
    print("\n".join(f"{count:9,} of {limits.get(name, 0):9,}  {name}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
