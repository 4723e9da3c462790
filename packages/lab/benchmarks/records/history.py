"""Commits of this repository up to the current one."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


@cache
def history() -> list[str]:
    """Return the current commit and its ancestors. The list is empty without git or in a shallow clone."""
    try:
        if _git("rev-parse", "--is-shallow-repository") == ["false"]:
            return _git("rev-list", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        pass
    return []


def outside_history(commits: Iterable[str]) -> set[str]:
    """Return the commits that are not in the history. They may be short, and end with + for uncommitted changes."""
    known, digits = history(), {commit: commit.removesuffix("+") for commit in commits}
    prefixes = {commit[:length] for length in set(map(len, digits.values())) for commit in known}
    return {commit for commit, short in digits.items() if known and short not in prefixes}


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.split()
