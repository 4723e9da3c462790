"""Records name commits of the history. Pages name the commits of other records."""

import csv
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.records.history import history, outside_history

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs/results"


def named_commits(path):
    """Each commit that a record names, as often as it does."""
    if path.suffix in (".json", ".jsonl"):
        return re.findall(r'"commit":\s*"([0-9a-f]{7,40})"', path.read_text(encoding="utf-8"))
    with path.open(newline="", encoding="utf-8") as file:
        return [
            value for row in csv.DictReader(file) if re.fullmatch("[0-9a-f]{7,40}", value := row.get("commit") or "")
        ]


@pytest.fixture(scope="module")
def outside():
    """Each record's commits outside the history, as often as it names them."""
    if not history():
        pytest.skip("this is no clone with its history")
    paths = (*RESULTS.rglob("*.csv"), *RESULTS.rglob("*.json*"))
    named = {path.relative_to(RESULTS).as_posix(): named_commits(path) for path in paths}
    missing = outside_history(commit for commits in named.values() for commit in commits)
    found = {label: [commit[:8] for commit in commits if commit in missing] for label, commits in named.items()}
    return {label: commits for label, commits in found.items() if commits}


def test_page_lists_records_with_commit_outside_history(outside):
    rows = {f"| `{label}` | {len(commits)} | {', '.join(sorted(set(commits)))} |" for label, commits in outside.items()}
    page = (RESULTS / "commits.md").read_text(encoding="utf-8")
    assert {line for line in page.splitlines() if line.startswith("| `")} == rows
    present_names = re.findall(r"^\| [0-9a-f]{8} \| ([0-9a-f]{8}) \|$", page, re.MULTILINE)
    assert present_names and not outside_history(present_names)
    assert f"For {sum(map(len, outside.values()))} records" in page


def test_page_marks_records_outside_history_next_to_link(outside):
    pages = [path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md")]
    paragraphs = [paragraph for page in pages for paragraph in page.split("\n\n")]
    for label, commits in outside.items():
        linked = [paragraph for paragraph in paragraphs if f"]({label})" in paragraph]
        assert any("outside this history" in text and all(name in text for name in commits) for text in linked), label


def test_records_tell_how_their_commit_made_them():
    described = tomllib.loads((ROOT / "benchmarks/records/files.toml").read_text(encoding="utf-8"))
    stored = {path for ending in ("csv", "json", "jsonl") for path in RESULTS.rglob(f"*.{ending}")}
    written = {path for path in stored if not path.name.endswith("-marl-eval.json")}
    assert described.keys() == {path.relative_to(ROOT).as_posix() for path in written}
    for path in written:
        entry = described[path.relative_to(ROOT).as_posix()]
        assert entry.keys() - {"commit"} == {"command", "processor", "load"}
        assert all(entry.values())
        assert "commit" in entry or named_commits(path), path
    commits = re.findall("[0-9a-f]{7,40}", " ".join(entry.get("commit", "") for entry in described.values()))
    assert commits and not outside_history(commits)


def test_an_unknown_commit_is_outside_the_history(outside):
    unknown, current = "0" * 40, history()[0]
    assert outside_history([unknown, current, f"{current[:7]}+"]) == {unknown}
