"""Numbers that may only fall, by table and name, in scripts/sizes/budgets.toml."""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("budgets.toml")
_HEADER = """\
# Numbers that may only fall; `make check` refuses a higher one. These commands lower them to the numbers of today:
#   python -m scripts.plain_words --lower
#   python -m scripts.sizes --lower
"""


def of_table(table: str) -> dict[str, int]:
    """Return the budgets of a table by name."""
    budgets: dict[str, int] = _read().get(table, {})
    return budgets


def excesses(counts: Mapping[str, int], budgets: Mapping[str, int]) -> list[str]:
    """Return a line for each count above its budget."""
    return [
        f"{name}: {count}, and its budget is {budgets.get(name, 0)}"
        for name, count in counts.items()
        if count > budgets.get(name, 0)
    ]


def check(table: str, counts: Mapping[str, int], advice: str) -> int:
    """Print a line with the advice for each count above its budget, and return the exit code."""
    lines = excesses(counts, of_table(table))
    for line in lines:
        print(f"{line}; {advice.format(line.partition(':')[0])}", file=sys.stderr)
    return int(bool(lines))


def lower(table: str, counts: Mapping[str, int]) -> None:
    """Set the budgets of a table to the counts, or to the old budgets where those are lower."""
    before = _read()
    budgets = {**before, table: lowered(counts, before.get(table, {}))}
    blocks = [
        f"\n[{name}]\n" + "".join(f'"{key}" = {number}\n' for key, number in budgets[name].items()) for name in budgets
    ]
    FILE.write_text(_HEADER + "".join(blocks), encoding="utf-8")


def lowered(counts: Mapping[str, int], budgets: Mapping[str, int]) -> dict[str, int]:
    """Return the new budgets: the count, or the old budget where that is lower. Names without a count leave."""
    return {name: min(count, budgets.get(name, count)) for name, count in counts.items()}


def _read() -> dict[str, dict[str, int]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
