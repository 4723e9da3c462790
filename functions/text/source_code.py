"""The part of a source file that computes: its text without comments, docstrings and blank lines.

It is the same in every version of Python, so a hash of it names a program on all machines that run it.
"""

import re
from pathlib import PurePath

SUFFIXES = (".py", ".c", ".h", ".toml")

# Strings, opening and closing brackets and line breaks are groups. Comments and joined lines have no group.
_PYTHON = re.compile(
    r'("""(?:\\.|[^\\])*?"""|'
    r"'''(?:\\.|[^\\])*?'''|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\.|[^'\\\n])*')"
    r"|#[^\n]*|\\\n|([(\[{])|([)\]}])|(\n)",
    re.DOTALL,
)
# By suffix: strings, and comments, which are groups.
_C = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(//(?:\\\n|[^\n])*|/\*.*?\*/)""", re.DOTALL)
_TOML = re.compile(r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|' r"'''.*?'''|'[^'\n]*'|(#[^\n]*)", re.DOTALL)
_COMMENTS = {".c": _C, ".h": _C, ".toml": _TOML}
# The letters before a string that computes nothing where it stands alone.
_PREFIXES = ("r", "R", "u", "U")


def computing_part(name: str, body: bytes) -> bytes:
    """Return the part of the file `name` that computes, or the whole `body` if it is of no kind in `SUFFIXES`.

    A file's text is Python of version 3.11, C or TOML. Without comments its numbers, names and strings stay.
    """
    suffix = PurePath(name).suffix
    try:
        text = body.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return body
    if suffix == ".py":
        text = _python(text)
    elif suffix in _COMMENTS:
        text = _without_comments(text, _COMMENTS[suffix])
    return text.encode()


def _python(text: str) -> str:
    """Return the statements, one a line with its indentation, without strings that stand alone, such as docstrings."""
    statements: list[str] = []
    indent, words, strings, depth, end = "", list[str](), 0, 0, 0
    for match in _PYTHON.finditer(f"{text}\n"):
        between, end = text[end : match.start()], match.end()
        string, opening, closing, line_break = match.groups()
        if not words:
            indent = between[: len(between) - len(between.lstrip())]
        words += [word for word in (" ".join(between.split()), string or opening or closing) if word]
        strings += bool(string)
        depth += bool(opening) - bool(closing)
        if line_break and depth <= 0:
            is_text = strings > 0 and all(word in _PREFIXES or word[-1] in "\"'" for word in words)
            if words and not is_text:
                statements.append(indent + " ".join(words))
            words, strings = [], 0
    return "\n".join(statements)


def _without_comments(text: str, pattern: re.Pattern[str]) -> str:
    bare = pattern.sub(lambda match: " " if match[1] else match[0], text)
    return "\n".join(line for raw_line in bare.split("\n") if (line := raw_line.strip()))
