"""Count the sentences that are hard to read at the first try.

    python -m scripts.plain_words                 the share of such sentences in each part of the project, by kind
    python -m scripts.plain_words PATH ...        the sentences of these files or folders, with their repair
    python -m scripts.plain_words --check         exit code 1 if a part has more than its budget
    python -m scripts.plain_words --lower         lower the budgets to today's counts

A budget is the number of such sentences that a part may have, in scripts/sizes/budgets.toml. It may only fall.
"""

import argparse
import ast
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from scripts.plain_words.kinds import KINDS, QUESTION_WORD, TOO_LONG, Kind, kinds_of
from scripts.plain_words.prose import Sentence, sentences_of
from scripts.sizes import budgets

ROOT = Path(__file__).parents[2]
TABLE = "sentences"
UNDOCUMENTED = "public functions and classes without a docstring"
# A log of past changes, and texts that other programs or people wrote.
_LEFT_OUT = ("CHANGELOG.md", "LICENSE", "tests/goldens/", "scripts/plain_words/kinds.py")
_SUFFIXES = (".md", ".py", ".c", ".h", ".yaml", ".yml", ".toml")


class Hit(NamedTuple):
    """A sentence that is hard to read, and the reasons."""

    path: str
    sentence: Sentence
    kinds: tuple[Kind, ...]


class Count(NamedTuple):
    """The sentences of a part, and the hits among them."""

    sentences: int
    hits: list[Hit]

    @property
    def share(self) -> float:
        """Hits per sentence, 0 without sentences."""
        return len(self.hits) / max(1, self.sentences)


def part_of(path: str) -> str:
    """Return the part of a file: a folder of docs/ or packages/, a top folder, or the file itself."""
    folders = path.split("/")[:-1]
    if not folders:
        return path
    return "/".join(folders[:2]) if folders[0] in ("docs", "packages") else folders[0]


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
        if name.endswith(".py") and "tests" not in name.split("/"):
            for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    total += not node.name.startswith("_") and ast.get_docstring(node) is None
    return total


def _summary(counts: dict[str, Count]) -> str:
    lines = [f"{part:28}{len(of.hits):6,} of {of.sentences:6,}{of.share:7.1%}" for part, of in counts.items()]
    kinds = Counter(kind.name for of in counts.values() for hit in of.hits for kind in hit.kinds)
    lines += ["", *(f"{kinds[kind.name]:6,}  {kind.name}" for kind in (*KINDS, TOO_LONG, QUESTION_WORD))]
    return "\n".join(lines)


def main() -> int:
    """Print the table or the hits. Returns 1 if `--check` refuses a part."""
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
    if options.lower:
        budgets.lower(TABLE, numbers)
    if not options.check:
        print(_summary(counts))
        return 0
    return budgets.check(TABLE, numbers, "see `python -m scripts.plain_words {}`")


if __name__ == "__main__":
    raise SystemExit(main())
