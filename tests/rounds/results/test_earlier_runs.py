"""Runs that commit 1467c408 trained are read, and continued, by the program of today (tests/goldens/README.md)."""

import contextlib
import json
import sqlite3
import tarfile
import zlib
from pathlib import Path

import pytest
from built_kernels import needs_kernels

GOLDENS = Path(__file__).parents[2] / "goldens"
# By run: its finished rounds and its status.
RUNS = {
    "finished": (3, "finished"),
    "interrupted": (5, "interrupted"),
    "killed": (5, "interrupted"),
    "judged": (2, "finished"),
    "league": (3, "finished"),
}
# The weights of the program that trained them, after 8 rounds without a stop.
WHOLE = "3122191cd5332d4e7b15194c3ee4d6a76df6a72a3f689112cec84b7330b624d1"


@pytest.fixture
def unpack(marless, shell):
    shell.import_from(GOLDENS)
    shell.forget("golden_judge")

    def unpack_run(run):
        assert marless("runs", "restore", str(GOLDENS / f"{run}.tar.gz")).code == 0

    return unpack_run


def as_json(said):
    assert said.code == 0, said.err
    return json.loads(said.out[-1])


@pytest.mark.parametrize("run", RUNS)
def test_an_earlier_run_is_read(marless, unpack, run):
    rounds, status = RUNS[run]
    unpack(run)
    shown = as_json(marless("status", run, "--json"))
    assert (shown["round"], shown["status"]) == (rounds, status)
    verified = as_json(marless("runs", "verify", run, "--json"))
    assert verified["ok"] and verified["round"] == rounds
    assert marless("report", run, "--out", "page.html").code == 0
    assert f"{rounds:,} rounds" in Path("page.html").read_text()
    total = float(as_json(marless("status", "--bill", run, "--json"))["bill"]["total"])
    assert total == pytest.approx(shown["dollars"])
    if status == "finished":
        assert total == pytest.approx(json.loads((Path("runs") / run / "summary.json").read_text())["dollars"]["total"])
    assert marless("runs", "archive", run, "--out", "again.tar.gz").code == 0
    assert [row["run"] for row in map(json.loads, marless("runs", "--json").out)] == [run]


@pytest.mark.parametrize("run", [pytest.param("finished", marks=needs_kernels), "judged", "league"])
def test_policies_of_earlier_run_are_played_and_exported(marless, unpack, run):
    unpack(run)
    played = marless("evaluate", run, "--episodes", "4", "--trust", "--workers", "1", "--json")
    assert (as_json(played)["round"], as_json(played)["episodes"]) == (RUNS[run][0], 4)
    assert marless("export", run, "--to", "safetensors", "--out", "tensors").code == 0
    assert marless("export", run, "--to", "npz", "--episodes", "2", "--out", "episodes", "--trust").code == 0


@pytest.mark.parametrize("run", ["interrupted", "killed"])
def test_earlier_run_continues_only_on_request(marless, unpack, run):
    unpack(run)
    said = marless("resume", run, "--workers", "1")
    assert said.code == 2 and len(said.err) == 1
    assert "it began with commit 1467c4080f98aa8e918c0e8ff9d7577c29fb3eed" in said.err[0]
    assert said.err[0].endswith(f"marless resume {run} --changed-code")


@needs_kernels
@pytest.mark.parametrize("run", ["interrupted", "killed"])
def test_continued_earlier_run_has_earlier_weights(marless, unpack, run):
    unpack(run)
    began = json.loads((Path("runs") / run / "plan.json").read_text())["code_sha256"]
    assert marless("resume", run, "--workers", "1", "--changed-code").code == 0
    verified = as_json(marless("runs", "verify", run, "--json"))
    assert verified["ok"] and verified["weights_sha256"] == WHOLE
    changes = {change["part"]: change for change in verified["code_changes"]}
    assert changes["program"]["before"] == began != changes["program"]["after"]
    assert {change["round"] for change in changes.values()} == {5}


def test_earlier_study_is_compared_with_earlier_run(marless, unpack):
    with tarfile.open(GOLDENS / "studied.tar.gz") as archive:
        archive.extractall("studies", filter="data")
    comparison = as_json(marless("compare", "studied", "--json"))["comparison"]
    assert [row["seeds"] for row in comparison["equal"]] == [2]
    assert marless("report", "studies/studied", "--out", "page.html").code == 0
    # All of its runs have finished.
    assert marless("study", "studied", "--workers", "1").code == 0


def write_as_a_newer_program(run, place):
    """Gives a stored value the version and a field of a later program."""
    later = {"format_version": 2, "a_field_of_later": 1}
    if place == "plan.json":
        plan = run / place
        plan.write_text(json.dumps(json.loads(plan.read_text()) | later))
        return
    with contextlib.closing(sqlite3.connect(run / "ledger.sqlite")) as ledger, ledger:
        (body,) = ledger.execute("SELECT body FROM items WHERE item = ?", (place,)).fetchone()
        newer = zlib.compress(json.dumps(json.loads(zlib.decompress(body)) | later).encode())
        ledger.execute("UPDATE items SET body = ? WHERE item = ?", (newer, place))


@pytest.mark.parametrize("place", ["plan.json", "state", "checkpoint"])
def test_run_of_newer_program_is_refused(marless, unpack, place):
    unpack("interrupted")
    write_as_a_newer_program(Path("runs/interrupted"), place)
    sentence = "was written by a newer MARLess (format 2; this one reads 1); install the newer one"
    for command in ("status", "runs verify", "status --bill", "evaluate", "resume"):
        more = ("--changed-code",) if command == "resume" else ()
        said = marless(*command.split(), "interrupted", *more)
        assert said.code == 2 and len(said.err) == 1, (command, said)
        assert sentence in said.err[0], (command, said)
    (row,) = map(json.loads, marless("runs", "--json").out)
    assert row["status"] == "unreadable" and sentence in row["problem"]
