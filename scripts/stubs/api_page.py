"""The page about the Python API: each public name with its description and an example.

The examples are programs in docs/data/api, one for each public module. A comment names the object of the next lines.
"""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from marless import settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"
EXAMPLES = ROOT / "docs" / "data" / "api"
MODULES = ("marless", *(f"marless.{path.stem}" for path in sorted(EXAMPLES.glob("*.txt")) if path.stem != "marless"))
_NAME = re.compile(r"^# (marless\.[\w.]+)\n", re.MULTILINE)
_HEAD = """\
# Python API

<!-- the rest of this page is written by `make docs` -->

You may import all names on this page. All other modules may change without notice. The examples of a section belong
together: later lines use the names of earlier lines, and a test runs them. This file holds the examples alone. The page
that `make docs` builds also shows signatures and descriptions, as `help(marless.train)` does in Python.
"""


def page() -> str:
    """Return the page. Its code has the format of all code here."""
    text = "\n".join([_HEAD, *map(_section, MODULES), "<!-- end of the names -->\n"])
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PAGE), "-"]
    return subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=True).stdout


def examples(module: str) -> dict[str, str]:
    """Return the lines of each example in a public module by name, and the lines before all examples as ''."""
    text = (EXAMPLES / f"{module.rpartition('.')[2]}.txt").read_text(encoding="utf-8")
    head, *parts = _NAME.split(text)
    lines = (line for line in head.splitlines() if not line.startswith("#"))
    return {"": "\n".join(lines).strip(), **dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))}


def _section(module: str) -> str:
    head, *entries = examples(module).items()
    summary = (import_module(module).__doc__ or "").partition("\n\n")[0]
    lines = [f"## {module}\n", f"{' '.join(summary.split())}\n", _code(head[1])]
    return "\n".join([*lines, *(f"{_entry(name)}\n\n{_code(code)}" for name, code in entries)])


def _entry(name: str) -> str:
    module, _, last = name.rpartition(".")
    if module == "marless.language":
        return f"::: marless_language.public.{last}\n    options:\n      heading: {last}"
    # The page's generator reads these classes in the stub of their module.
    is_setting = module == "marless" and last in settings.__all__
    return f"::: marless.settings.{last}" if is_setting else f"::: {name}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"
