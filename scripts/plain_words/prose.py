"""Find the sentences of a file: Markdown with its tables, docstrings, comments, help texts and messages."""

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from scripts.plain_words.kinds import SHORTEST

TEXT_ARGUMENTS = ("help", "description", "title")
"""Keyword arguments that hold text for readers."""


class Sentence(NamedTuple):
    """A sentence, and the first line of its paragraph."""

    line: int
    text: str
    first_of_docstring: bool = False


def sentences_of(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file by its suffix. Files of other kinds have none."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        yield from _markdown(text)
    elif path.suffix == ".py":
        yield from _python(text)
    elif path.suffix in (".c", ".h"):
        comments = re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL)
        yield from _blocks((_line(text, match.start()), match.group().strip("/* ")) for match in comments)
    elif path.suffix in (".yaml", ".yml", ".toml") or path.name == "Makefile":
        yield from _blocks(_comment_lines(text))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _markdown(text: str, first: int = 1) -> Iterator[Sentence]:
    """Yield the sentences of paragraphs, bullets and cells of tables. Code and generated tables are left out."""
    blank = re.compile(r"```.*?```|<!--[^>]*written by.*?<!-- end.*?-->|<!--.*?-->", re.DOTALL)
    text = blank.sub(lambda match: "\n" * match.group().count("\n"), text)
    paragraph: list[str] = []
    begin = first
    for number, line in enumerate([*text.splitlines(), ""], first):
        content = line.strip()
        # A line such as `    lr: Adam's step size` describes an argument or an attribute.
        bullet = re.match(r"\s*(?:[*-]|\d+\.| {4}\w+:)\s+(.*)", line)
        if not content or bullet or content.startswith(("|", "#", "<", "![", ":::", "!!!", "???")):
            yield from split(begin, " ".join(paragraph))
            paragraph = [bullet.group(1)] if bullet else []
            begin = number
            if content.startswith("|"):
                for cell in content.strip("|").split("|"):
                    yield from split(number, cell)
        else:
            begin = begin if paragraph else number
            paragraph.append(content)


def split(line: int, paragraph: str) -> Iterator[Sentence]:
    """Yield a paragraph's sentences of at least `SHORTEST` words, with links and code replaced by their label."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    plain = re.sub(r"`+[^`]*`+", "CODE", plain).replace("**", "")
    plain = re.sub(r"\s+", " ", plain).strip()
    for text in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(\d])", plain):
        if len(text.split()) >= SHORTEST:
            yield Sentence(line, text)


def _python(text: str) -> Iterator[Sentence]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(node)
        elif isinstance(node, ast.Call):
            for value in _texts(node):
                yield from split(node.lineno, value)
    comments = [
        (token.start[0], token.string.removeprefix("#").strip())
        for token in tokenize.generate_tokens(StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.string.startswith("# ")
    ]
    yield from _blocks(comments)


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Sentence]:
    line = getattr(node, "lineno", 1)
    for index, sentence in enumerate(_markdown(ast.get_docstring(node) or "", line)):
        yield sentence._replace(first_of_docstring=index == 0)


def _texts(call: ast.Call) -> Iterator[str]:
    """Yield the text that a call shows to readers: help, descriptions, and the messages of errors."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    shown = [word.value for word in call.keywords if word.arg in TEXT_ARGUMENTS]
    if name == "Doc" or name.endswith(("Error", "Exit", "Failed", "BadRequest")):
        shown += call.args[:1]
    for value in shown:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in value.values)  # type: ignore[misc]


def _comment_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        _, mark, comment = line.partition("# ")
        if mark and not _.strip(" #"):
            yield number, comment


def _blocks(lines: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> Iterator[Sentence]:
    """Yield the sentences of comments. Comments on consecutive lines are a paragraph."""
    paragraph: list[str] = []
    begin = last = 0
    for number, text in lines:
        if paragraph and number != last + 1:
            yield from split(begin, " ".join(paragraph))
            paragraph = []
        begin = begin if paragraph else number
        paragraph.append(re.sub(r"\s*\n\s*\*?\s*", " ", text))
        last = number + text.count("\n")
    yield from split(begin, " ".join(paragraph))
