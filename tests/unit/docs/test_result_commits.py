"""Records name commits of the history; a page lists the records that do not."""

import csv
import re
import subprocess
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "docs/results"


def git(*words):
    return subprocess.run(["git", "-C", RESULTS, *words], capture_output=True, text=True, check=True).stdout.split()


def history():
    """The commits up to the present one, from a whole clone."""
    try:
        if git("rev-parse", "--is-shallow-repository") == ["false"]:
            return git("rev-list", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        pass
    return pytest.skip("this is no clone with its history")


def named_commits(path):
    """Each commit that a record names, as often as it does."""
    if path.suffix in (".json", ".jsonl"):
        return re.findall(r'"commit":\s*"([0-9a-f]{7,40})"', path.read_text(encoding="utf-8"))
    with path.open(newline="", encoding="utf-8") as file:
        return [
            value for row in csv.DictReader(file) if re.fullmatch("[0-9a-f]{7,40}", value := row.get("commit") or "")
        ]


def test_the_page_lists_the_records_whose_commit_is_outside_the_history():
    known_commits = sorted(history())
    prefixes = {length: {commit[:length] for commit in known_commits} for length in range(7, 41)}
    missing = {}
    for path in (*RESULTS.rglob("*.csv"), *RESULTS.rglob("*.json*")):
        outside = [commit for commit in named_commits(path) if commit not in prefixes[len(commit)]]
        missing[path.relative_to(RESULTS).as_posix()] = outside
    rows = {
        f"| `{label}` | {len(commits)} | {', '.join(sorted({commit[:8] for commit in commits}))} |"
        for label, commits in missing.items()
        if commits
    }
    page = (RESULTS / "commits.md").read_text(encoding="utf-8")
    assert {line for line in page.splitlines() if line.startswith("| `")} == rows
    present_names = re.findall(r"^\| [0-9a-f]{8} \| ([0-9a-f]{8}) \|$", page, re.MULTILINE)
    assert present_names and {*present_names} <= prefixes[8]
    assert f"For {sum(map(len, missing.values()))} records" in page
