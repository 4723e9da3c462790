"""Counts names that are bare participles or pronouns, and refuses the worst of them.

    python -m scripts.participles                 the share of such names by room, and the commonest
    python -m scripts.participles --names WORD    the places where WORD is a name
    python -m scripts.participles --check         the places of the names of `WORST`; exit code 1 if there is one, or
                                                  if more than `MOST_PRONOUNS` names are pronouns

A name counts once for each function or class that binds it: a function's own name, its parameters, its locals, and
fields of classes. A bare participle is a name of one word that ends in -ed, or one of `IRREGULAR`. For example, `found`
says that a search is over, but not its target. Names of two words, such as `stored_bytes`, do not count. Pronouns
replace a noun that the reader has to find. `other` is right for the operand of a special method, for example `__add__`.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("functions", "coordinator", "infra", "marless"),
    *("packages/aws-emulator/aws_emulator", "packages/marless-cluster/marless_cluster"),
    *("packages/marless-language/marless_language", "packages/marless-tasks/marless_tasks"),
    "packages/marless-server/marless_server",
    "packages/marless-cloud/marless_cloud",
    "packages/marless-zoo/marless_zoo",
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# `own` is no participle, and as vague. Words that are verbs or nouns too (run, set, read, cut, bound) are left out.
IRREGULAR = _words("""
    begun born bought broken brought built caught chosen drawn driven fallen felt forgotten found given gone grown heard
    held kept known laid led left lent lost made meant met own paid said seen sent shown sold spent spoken taken taught
    thrown told torn understood withdrawn won worn written
""")
NO_PARTICIPLES = ("bed", "breed", "deed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "weed")
# Names that Gymnasium and PettingZoo give these values, so that readers look for them.
TERMS = ("terminated", "truncated")

# They can mean anything, so each hides another noun.
WORST = _words("""
    asked chosen ended found given held kept known looked made named own played said seen shown taken told wanted worn
""")
# Pronouns, and other words that name no value.
PRONOUNS = _words("again beside each every luck of one other ours there what where who why")
# So many names may be pronouns. Lower the number when you rename some.
MOST_PRONOUNS = 504
# Names that users' plug-ins and configurations, messages and files hold.
STORED: tuple[str, ...] = (
    "Entities.own",  # environments of plug-ins set it
    "Batch.ended",  # algorithms of plug-ins read it
    "Step.ended",  # environments of plug-ins make it
    "WorldState.said",  # rounds cut into fragments store it
    "gae.ended",  # plug-ins call it
    "Evaluation.every",  # configurations set it
    "League.every",
    "Failed.again",  # stored messages have it
)


class Name(NamedTuple):
    """A bound name. `scope` is the dotted path of classes and functions around it."""

    path: Path
    line: int
    scope: str
    text: str

    @property
    def room(self) -> str:
        """The folder two levels deep, or the package for files directly in it."""
        parts = self.path.relative_to(ROOT).parent.parts
        return "/".join(parts[2:4] if parts[:1] == ("packages",) else parts[:2])


def is_participle(name: str) -> bool:
    """Return whether a name is one participle."""
    word = name.strip("_")
    if word in IRREGULAR:
        return True
    return word.endswith("ed") and len(word) > 3 and "_" not in word and word not in (*NO_PARTICIPLES, *TERMS)


def names(path: Path) -> Iterator[Name]:
    """The names that a file binds in functions and classes."""
    yield from _bound(path, ast.parse(path.read_text(encoding="utf-8")), "", set())


def _bound(path: Path, node: ast.AST, scope: str, local: set[str] | None) -> Iterator[Name]:
    """Yield the names bound below a node. `local` holds the yielded names of the function around it, or None in a
    class."""
    for child in ast.iter_child_nodes(node):
        inner_scope, inner = scope, local
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            text = getattr(child, "name", "lambda")
            inner_scope = f"{scope}.{text}".lstrip(".")
            inner = None if isinstance(child, ast.ClassDef) else set()
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Name(path, child.lineno, scope, text)
        elif isinstance(child, ast.arg):
            yield from _once(path, child.lineno, scope, child.arg, local)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store) and scope and local is not None:
            yield from _once(path, child.lineno, scope, child.id, local)
        elif isinstance(child, ast.ExceptHandler) and child.name and scope:
            yield from _once(path, child.lineno, scope, child.name, local)
        elif isinstance(child, ast.AnnAssign) and local is None and isinstance(child.target, ast.Name):
            yield Name(path, child.lineno, scope, child.target.id)
        yield from _bound(path, child, inner_scope, inner)


def _once(path: Path, line: int, scope: str, text: str, local: set[str] | None) -> Iterator[Name]:
    if local is not None and text not in local and text not in ("self", "cls"):
        local.add(text)
        yield Name(path, line, scope, text)


def worst(bound: list[Name]) -> list[Name]:
    """The names of `WORST` that are not `STORED`."""
    return [name for name in bound if name.text.strip("_") in WORST and not _is_stored(name)]


def pronouns(bound: list[Name]) -> list[Name]:
    """The names of `PRONOUNS`, except operands of special methods and names of `STORED`."""
    return [
        name
        for name in bound
        if name.text.strip("_") in PRONOUNS
        and not _is_stored(name)
        and not (name.text == "other" and name.scope.endswith("__"))
    ]


def _is_stored(name: Name) -> bool:
    return f"{name.scope.rpartition('.')[2]}.{name.text}" in STORED


def summary(bound: list[Name]) -> str:
    """Totals by room, the commonest participles, and all pronouns."""
    total = Counter(name.room for name in bound)
    bare = [name for name in bound if is_participle(name.text)]
    rooms = Counter(name.room for name in bare)
    common = Counter(name.text for name in bare).most_common(40)
    vague = Counter(name.text.strip("_") for name in pronouns(bound))
    lines = [_line(room, rooms[room], total[room]) for room in sorted(total)]
    lines += [_line("all", len(bare), len(bound)), ", ".join(f"{text} {count}" for text, count in common)]
    lines.append(_line("pronouns", vague.total(), len(bound)))
    lines.append(", ".join(f"{text} {count}" for text, count in vague.most_common()))
    return "\n".join(lines)


def _line(room: str, bare: int, total: int) -> str:
    return f"{room:28} {bare:5} of {total:6,} {bare / total:6.2%}"


def main() -> int:
    """Print the counts or the refused names. Return 1 if `--check` refuses a name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="refuse the worst words")
    parser.add_argument("--names", metavar="WORD", help="list the places that bind a word")
    options = parser.parse_args()
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    bound = [name for path in files for name in names(path)]
    if not options.check and not options.names:
        print(summary(bound))
        return 0
    listed = [name for name in bound if name.text == options.names] if options.names else worst(bound)
    for name in listed:
        print(f"{name.path.relative_to(ROOT)}:{name.line}: {name.text} in {name.scope}: name what the value is")
    count = len(pronouns(bound))
    if options.check and count > MOST_PRONOUNS:
        print(f"{count} names are pronouns ({', '.join(sorted(PRONOUNS))}), and {MOST_PRONOUNS} may be: rename yours")
    return int(options.check and (bool(listed) or count > MOST_PRONOUNS))


if __name__ == "__main__":
    raise SystemExit(main())
