"""Count the sentences that are hard to read at the first try.

    python -m scripts.plain_words                 the share of such sentences in each part of the project, by kind
    python -m scripts.plain_words PATH ...        the sentences of these files or folders, with their repair
    python -m scripts.plain_words --check         exit code 1 if a part has more than its budget
    python -m scripts.plain_words --lower         lower the budgets to today's counts

A budget is the number of such sentences that a part may have, in scripts/plain_words/budgets.toml. It may only fall.
"""

import argparse
import ast
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from scripts.plain_words.kinds import KINDS, QUESTION_WORD, TOO_LONG, Kind, kinds_of
from scripts.plain_words.prose import Sentence, sentences_of

ROOT = Path(__file__).parents[2]
BUDGETS = Path(__file__).with_name("budgets.toml")
UNDOCUMENTED = "public functions and classes without a docstring"
_HEADER = "# Sentences of each part that may be hard to read. `python -m scripts.plain_words --lower` lowers them.\n"
# A log of past changes, and texts that other programs or people wrote.
_LEFT_OUT = ("CHANGELOG.md", "LICENSE", "tests/goldens/", "scripts/plain_words/kinds.py")
_SUFFIXES = (".md", ".py", ".c", ".h", ".yaml", ".yml", ".toml")


class Hit(NamedTuple):
    """A sentence that is hard to read, and the reasons."""

    path: str
    sentence: Sentence
    kinds: tuple[Kind, ...]


class Count(NamedTuple):
    """The sentences of a part, and those that are hard to read."""

    sentences: int
    hits: list[Hit]

    @property
    def share(self) -> float:
        """Hits per sentence, 0 without sentences."""
        return len(self.hits) / max(1, self.sentences)


def part_of(path: str) -> str:
    """Return the part of the project that a file counts for: a folder of docs/, a top folder, or a file of the root."""
    folders = path.split("/")[:-1]
    if not folders:
        return path
    return "/".join(folders[:2]) if folders[0] == "docs" else folders[0]


def tracked_files() -> list[str]:
    """Return the tracked files with prose, as paths below the root."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    return [
        name
        for name in listing.splitlines()
        if (name.endswith(_SUFFIXES) or name == "Makefile")
        and not name.startswith(_LEFT_OUT)
        and (ROOT / name).is_file()
    ]


def counted(files: list[str]) -> dict[str, Count]:
    """Return the count of each part that these files belong to."""
    sentences: Counter[str] = Counter()
    hits: dict[str, list[Hit]] = {}
    for name in files:
        of_part = hits.setdefault(part_of(name), [])
        for sentence in sentences_of(ROOT / name):
            sentences[part_of(name)] += 1
            if kinds := kinds_of(sentence.text, sentence.first_of_docstring):
                of_part.append(Hit(name, sentence, kinds))
    return {part: Count(sentences[part], hits[part]) for part in sorted(hits) if sentences[part]}


def undocumented(files: list[str]) -> int:
    """Return the number of public functions and classes without a docstring, tests left out."""
    total = 0
    for name in files:
        if name.endswith(".py") and not name.startswith("tests/"):
            for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    total += not node.name.startswith("_") and ast.get_docstring(node) is None
    return total


def excesses(counts: dict[str, int], budgets: dict[str, int]) -> list[str]:
    """Return a line for each part with more than its budget."""
    return [
        f"{part}: {count}, and its budget is {budgets.get(part, 0)}"
        for part, count in counts.items()
        if count > budgets.get(part, 0)
    ]


def lowered(counts: dict[str, int], budgets: dict[str, int]) -> dict[str, int]:
    """Return the new budgets: today's count, or the old budget where that is lower; parts without files leave."""
    return {part: min(count, budgets.get(part, count)) for part, count in counts.items()}


def _summary(counts: dict[str, Count]) -> str:
    lines = [f"{part:28}{len(of.hits):6,} of {of.sentences:6,}{of.share:7.1%}" for part, of in counts.items()]
    kinds = Counter(kind.name for of in counts.values() for hit in of.hits for kind in hit.kinds)
    lines += ["", *(f"{kinds[kind.name]:6,}  {kind.name}" for kind in (*KINDS, TOO_LONG, QUESTION_WORD))]
    return "\n".join(lines)


def main() -> int:
    """Print; return 1 if `--check` refuses a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders below the root of the project")
    parser.add_argument("--check", action="store_true", help="refuse a part with more than its budget")
    parser.add_argument("--lower", action="store_true", help="lower the budgets to today's counts")
    options = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # for `| head`
    files = tracked_files()
    if options.paths:
        chosen = [name for name in files if name.startswith(tuple(options.paths))]
        counts = counted(chosen)
        for hit in (hit for count in counts.values() for hit in count.hits):
            repairs = ", ".join(f"{kind.name} ({kind.repair})" for kind in hit.kinds)
            print(f"{hit.path}:{hit.sentence.line}: {hit.sentence.text[:200]}\n    {repairs}")
        print(_summary(counts))
        return 0
    counts = counted(files)
    numbers = {part: len(count.hits) for part, count in counts.items()} | {UNDOCUMENTED: undocumented(files)}
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8")) if BUDGETS.is_file() else {}
    if options.lower:
        rows = [f'"{part}" = {number}\n' for part, number in lowered(numbers, budgets).items()]
        BUDGETS.write_text(_HEADER + "".join(rows), encoding="utf-8")
    if not options.check:
        print(_summary(counts))
        return 0
    lines = excesses(numbers, budgets)
    for line in lines:
        print(f"{line}; see `python -m scripts.plain_words {line.partition(':')[0]}`", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    raise SystemExit(main())
