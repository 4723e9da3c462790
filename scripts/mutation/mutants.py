"""Candidates for mutations: one token, or one statement, of a source file and its replacement."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*"},
    **{"//": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "and": "or", "or": "and", "not": "", "in": "not in"},
    **{"is": "is not", "True": "False", "False": "True", "min": "max", "max": "min", "any": "all", "all": "any"},
    **{"break": "continue", "continue": "break", "if": "if not", "&&": "||", "||": "&&"},
}
"""The replacement of each token that has one."""
_ONLY_PYTHON = ("if", "in", "is", "not")
_C_TOKENS = re.compile(r"\d\w*(?:\.\w*)?(?:(?<=[eE])[-+]\d+)?|\w+|[-+*/%&|<>=!]=|&&|\|\||->|\+\+|--|<<|>>|\S")
_C_PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|^\s*#\s*include[^\n]*', re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"\d[-+\w.]*")


class Mutant(NamedTuple):
    """The text `before` at a place of a file, and the text `after` that replaces it.

    `line` counts from 1, `column` from 0. `code` is the whole line without the white space around it. It finds the
    place again after other lines of the file have moved.
    """

    file: str
    line: int
    column: int
    code: str
    before: str
    after: str

    def line_of(self, source: str) -> int | None:
        """The line's number in the file's text, from 1. None if the line is gone."""
        places = [number for number, line in enumerate(source.splitlines(), 1) if line.strip() == self.code]
        return min(places, key=lambda place: abs(place - self.line)) if places else None

    def applied(self, source: str) -> str | None:
        """The file's text with this mutation. None if the line is gone."""
        place = self.line_of(source)
        if place is None:
            return None
        lines = source.splitlines(keepends=True)
        number = place - 1
        line = lines[number]
        indent = len(line) - len(line.lstrip())
        start = indent + self.column
        if not line.startswith(self.before, start):
            return None
        lines[number] = line[:start] + self.after + line[start + len(self.before) :]
        return "".join(lines)


def mutants_of(root: Path, path: Path) -> Iterator[Mutant]:
    """All mutants of a file in Python or C that are valid Python, or that look like valid C."""
    source = path.read_text(encoding="utf-8")
    is_python = path.suffix == ".py"
    places = {*_python_places(source)} if is_python else {*_c_places(source)}
    lines = source.splitlines()
    for line, column, before, after in sorted(places):
        text = lines[line - 1]
        indent = len(text) - len(text.lstrip())
        mutant = Mutant(str(path.relative_to(root)), line, column - indent, text.strip(), before, after)
        if not is_python or _is_python(mutant.applied(source)):
            yield mutant


def _python_places(source: str) -> Iterator[tuple[int, int, str, str]]:
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_star = token.string == "*" and before in ("(", ",", "[", "{", ":")
        is_code = token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER) and not is_star
        if is_code and (after := _swapped(token.string)):
            yield *token.start, token.string, after[0]
        before = token.string
    for statement in ast.walk(ast.parse(source)):
        is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if isinstance(statement, ast.AugAssign | ast.Expr) and (is_call or isinstance(statement, ast.AugAssign)):
            text = ast.get_source_segment(source, statement) or ""
            if "\n" not in text:
                yield statement.lineno, statement.col_offset, text, "pass"


def _c_places(source: str) -> Iterator[tuple[int, int, str, str]]:
    code = _C_PROSE.sub(lambda match: re.sub(r"\S", " ", match[0]), source)
    for number, line in enumerate(code.splitlines(), 1):
        for token in _C_TOKENS.finditer(line):
            # A star after a space and before a name declares a pointer.
            is_pointer = token[0] == "*" and re.match(r"[\w(*]", line[token.end() : token.end() + 1])
            if token[0] not in _ONLY_PYTHON and not is_pointer and (after := _swapped(token[0])):
                yield number, token.start(), token[0], after[0]


def _swapped(token: str) -> tuple[str] | None:
    """The replacement of a token. None for a token that stays."""
    if token in SWAPS:
        return (SWAPS[token],)
    if not _NUMBER.fullmatch(token):
        return None
    if token.isdigit():
        return (str(int(token) + 1),)
    number = re.match(r"\d+\.\d+", token)
    return (f"{float(number[0]) * 2 or 1.0}{token[number.end() :]}",) if number else None


def _is_python(source: str | None) -> bool:
    try:
        ast.parse(source or "")
    except SyntaxError:
        return False
    return source is not None
