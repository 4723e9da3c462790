"""docs/explanation/mappo.md: MAPPO's path from a batch to new weights, with the source of every step."""

import ast
import re
import textwrap
from collections.abc import Iterable

from scripts.reference import markdown

_ROOT = markdown.DATA.parents[1]
_PLACEHOLDER = re.compile(r"\{\{ (\S+\.py): ([\w., ]+) \}\}")


def page() -> str:
    """The whole page."""
    text = (markdown.DATA / "mappo.md").read_text(encoding="utf-8")
    body = _PLACEHOLDER.sub(lambda found: _listing(found[1], found[2].split(", ")), text)
    return markdown.page("MAPPO, step by step", "`docs/data/mappo.md` or the code", [body.strip()])


def _listing(path: str, names: Iterable[str]) -> str:
    """Return definitions of a file as a block of code, without docstrings. Raises `KeyError` for a missing
    definition."""
    source = (_ROOT / path).read_text(encoding="utf-8")
    pieces = [_source(source, _find(ast.parse(source).body, name.split("."))) for name in names]
    return f"`{path}`:\n\n```python\n" + "\n".join(pieces) + "\n```"


def _find(body: Iterable[ast.stmt], path: list[str]) -> ast.stmt:
    for node in body:
        if path[0] in _names(node):
            inner = node.body if isinstance(node, ast.ClassDef) else []
            return _find(inner, path[1:]) if path[1:] else node
    raise KeyError(f"there is no {path[0]}")


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _source(source: str, node: ast.stmt) -> str:
    lines, first = source.splitlines(), node.lineno - 1
    drop = range(0)
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
        drop = range(node.body[0].lineno - 1, node.body[0].end_lineno or 0)
    kept = [lines[number] for number in range(first, node.end_lineno or first + 1) if number not in drop]
    return textwrap.dedent("\n".join(kept))
