"""The computing part of a source file is all of it except comments, docstrings and layout."""

import io
import random
import re
import shutil
import subprocess
import token
import tokenize

import pytest

from marless.functions.text.source_code import computing_part
from marless.reports import provenance

PYTHON = '''"""Doc."""

LIMIT = 3
"""What it is."""


def add(a, b=1):
    """Return the sum."""
    # carefully
    total = [
        a,  # the first
        b,
    ]
    return f"{total[0] + total[1]} # no comment"
'''
SAME_PYTHON = {
    "another docstring": ("Return the sum.", "Return their sum, 'quoted' (and \\\\\\\\ escaped)."),
    "no docstring": ('    """Return the sum."""\n', ""),
    "a raw docstring": ('"""Return the sum."""', "r'''Return\n\n    the \"\"\"sum.'''"),
    "another attribute's docstring": ("What it is.", "It limits."),
    "another comment": ("# carefully", "#"),
    "no comment": ("  # the first", ""),
    "a comment that quotes": ("# carefully", "# \"it's'''"),
    "blank lines": ("LIMIT", "\n\nLIMIT"),
    "a comment among the items": ("        b,\n", "        # the second\n\n        b,\n"),
    "a joined line": ("total = [", "total = \\\n    ["),
    "line breaks of Windows": ("\n", "\r\n"),
}
OTHER_PYTHON = {
    "a number": ("b=1", "b=2"),
    "a name": ("def add", "def sub"),
    "an operator": ("total[0] + total", "total[0] - total"),
    "a text": ("# no comment", "# a comment"),
    "a statement less": ("LIMIT = 3\n", ""),
    "an indentation": ("    return", "return"),
    "a text that is used": ("LIMIT = 3\n", "LIMIT = 3; "),
    "a text that is called": ('"""What it is."""', '"""What it is.""".strip()'),
    "a formatted text": ('"""What it is."""', 'f"""{print()}"""'),
    "a name in place of a text": ("{total[0]", "{other[0]"),
}
C = (
    "int a = 1; // one\n/* two\n lines */ "
    'char *b = "/* none */ // none", c = \'"\'; // more \\\n of it\n#define D \\\n  2\n'
)
SAME_C = {
    "another comment": ("// one", '/* "one */'),
    "no comment": ("/* two\n lines */", ""),
    "a longer comment": (" of it", ' of it, "quoted" /*'),
    "blank lines": ("\n#define", "\n\n#define"),
}
OTHER_C = {
    "a number": ("= 1", "= 2"),
    "a text": ("/* none */", "/* some */"),
    "what follows a comment": ("more \\\n of it", "more\n of it"),
    "a macro": ("  2", "  3"),
}
TOML = 'date = "2026-11-21" # day\npath = \'C:\\\' # root\n\n[actor]\nprice = 1.5\nnote = """\n# text"""\n'
SAME_TOML = {"a comment": ("# day", "# \"the' day"), "blank lines": ("\n\n", "\n"), "no comment": (" # root", "")}
OTHER_TOML = {"a price": ("1.5", "1.25"), "a table": ("[actor]", "[learner]"), "a text": ("# text", "# other")}


def cases(name, text, edits):
    return [pytest.param(name, text, *edit, id=f"{name}: {what}") for what, edit in edits.items()]


SAME = [
    *cases("a.py", PYTHON, SAME_PYTHON),
    *cases("a.c", C, SAME_C),
    *cases("a.h", C, SAME_C),
    *cases("a.toml", TOML, SAME_TOML),
]
OTHER = [*cases("a.py", PYTHON, OTHER_PYTHON), *cases("a.c", C, OTHER_C), *cases("a.toml", TOML, OTHER_TOML)]


def part(name, text):
    return computing_part(name, text.encode())


@pytest.mark.parametrize(("name", "text", "before", "after"), SAME)
def test_what_computes_nothing_is_not_part_of_it(name, text, before, after):
    assert before in text
    assert part(name, text.replace(before, after)) == part(name, text)


@pytest.mark.parametrize(("name", "text", "before", "after"), OTHER)
def test_what_computes_is_part_of_it(name, text, before, after):
    assert before in text
    assert part(name, text.replace(before, after)) != part(name, text)


def test_file_that_is_no_text_counts_unchanged():
    assert computing_part("a.py", b"\xff # x") == b"\xff # x"


def sources(suffix, count):
    packages = (provenance.ROOT / package for package in provenance.PACKAGES)
    paths = sorted(path for package in packages for path in package.rglob(f"*{suffix}"))
    return paths if count is None else random.Random(56).sample(paths, count)


LAYOUT = {token.COMMENT, token.NL, token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER}


def tokens(text):
    """The tokens of Python's own reader, except layout and statements that are only texts."""
    statement, kept = [], []
    for each in tokenize.generate_tokens(io.StringIO(text).readline):
        if each.type not in LAYOUT:
            statement.append(each)
        if each.type in (token.NEWLINE, token.ENDMARKER):
            alone = all(one.type == token.STRING and one.string[0].lower() in "ru\"'" for one in statement)
            kept += [] if alone else [one.string for one in statement]
            statement = []
    return kept


@pytest.mark.parametrize("count", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_python_finds_same_words_in_computing_part(count):
    for path in sources(".py", count):
        text = path.read_text("utf-8")
        # Of the part, a text and its prefix are two words.
        words = "".join(tokens(text))
        assert re.sub(r"\s", "", part("a.py", text).decode()) == re.sub(r"\s", "", words), path


def test_other_word_changes_program_and_comment_does_not():
    draw = random.Random(57)
    for path in sources(".py", 40):
        text = path.read_text("utf-8")
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
        lines = text.splitlines(keepends=True)
        words = [each for each in found if each.type in (token.NAME, token.NUMBER)]
        comments = [each for each in found if each.type == token.COMMENT]
        for each in draw.sample(words, min(3, len(words))):
            assert part("a.py", replaced(lines, each, f"{each.string}1")) != part("a.py", text)
        for each in draw.sample(comments, min(3, len(comments))):
            assert part("a.py", replaced(lines, each, '# """ \'(')) == part("a.py", text)


def replaced(lines, each, word):
    row, (start, end) = each.start[0] - 1, (each.start[1], each.end[1])
    line = lines[row]
    return "".join([*lines[:row], line[:start] + word + line[end:], *lines[row + 1 :]])


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no GCC")
def test_a_compiler_removes_the_same_comments():
    texts = [C, *(path.read_text("utf-8") for suffix in (".c", ".h") for path in sources(suffix, None))]
    for text in texts:
        command = ["gcc", "-x", "c", "-fpreprocessed", "-dD", "-E", "-P", "-"]
        joined = text.replace("\\\n", "")
        said = subprocess.run(command, input=joined, capture_output=True, encoding="utf-8", check=True)
        # GCC leaves out this line, too.
        computing = part("a.c", text).decode().replace("\\\n", "").replace("#pragma once", "")
        assert re.sub(r"\s", "", computing) == re.sub(r"\s", "", said.stdout)
