"""`marless runs verify` for the files next to a run's objects: it reports a changed digit in any of them."""

import json
import re
import sqlite3
from pathlib import Path

import msgspec
import pytest

from marless.cli.app import main
from marless.runs.folder import Identity, RunFolder
from marless.runs.integrity.file_hashes import COVERED, plan_hash

pytestmark = pytest.mark.usefixtures("copies")


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("name", COVERED)
def test_a_changed_digit_is_found(marless, name, place):
    path = Path("runs/first") / name
    body = bytearray(path.read_bytes())
    digits = [match.start() for match in re.finditer(rb"[0-8]", body)]
    body[digits[{"first": 0, "middle": len(digits) // 2, "last": -1}[place]]] += 1
    path.write_bytes(body)
    said = marless("runs", "verify", "first")
    assert said.code == 1 and f"{name} does not match its hash in the ledger" in said.out[0]


CHANGES = [
    *(("summary.json", lambda _, body=body: body) for body in (b"", b"{", b'{"run": 1}', b"\xff")),
    *((f"{name}.jsonl", lambda body: body + body[-80:]) for name in ("metrics", "attempts")),
    *((f"{name}.jsonl", lambda body: body[:-80]) for name in ("metrics", "attempts")),
    *((f"{name}.jsonl", lambda body: b"") for name in ("metrics", "attempts")),
    *((name, None) for name in COVERED),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_a_changed_or_missing_file_is_found(marless, name, change):
    path = Path("runs/first") / name
    body = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(body))
    said = marless("runs", "verify", "first")
    assert said.code == 1 and f"{name} does not match its hash in the ledger" in said.out[0]


@pytest.mark.parametrize("field", ["run", "backend", "code_sha256", "commit", "created"])
def test_another_origin_is_found(marless, field):
    path = Path("runs/first/plan.json")
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, field: "inline" if field == "backend" else f"{plan[field]}0"}))
    said = marless("runs", "verify", "first")
    assert said.code == 1 and "plan.json does not match its hash in the ledger" in said.out[0]


def test_field_added_by_later_program_changes_no_hash(marless):
    class Later(Identity, frozen=True, kw_only=True):
        cluster: str | None = None

    text = Path("runs/first/plan.json").read_bytes()
    assert plan_hash(msgspec.json.decode(text, type=Later)) == plan_hash(RunFolder(Path("runs/first")).identity())


def test_run_of_earlier_program_is_ok_but_uncovered(marless):
    with sqlite3.connect("runs/first/ledger.sqlite") as connection:
        connection.execute("DELETE FROM items WHERE item = 'files'")
    connection.close()
    said = marless("runs", "verify", "first")
    names = ["plan.json", *COVERED]
    assert said.code == 0 and said.out[0].endswith(f"not covered: {', '.join(names)}")
    assert json.loads(marless("runs", "verify", "first", "--json").out[0])["not_covered"] == names


def test_a_run_that_went_on_is_ok(marless):
    assert marless("resume", "first", "stop.rounds=6", "--workers", "1").code == 0
    said = marless("runs", "verify", "first")
    assert said.code == 0 and "not covered" not in said.out[0]


@pytest.mark.parametrize("name", ["bill.json", "summary.json", "evaluations.json"])
def test_kill_before_file_is_written_leaves_run_ok(marless, monkeypatch, name):
    """The ledger has the new hashes already, and the files after this one are old too."""
    write = RunFolder.write

    def dies(folder, file, body, durable=False):
        if file == name:
            raise KeyboardInterrupt
        write(folder, file, body, durable)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", dies)
        with pytest.raises(KeyboardInterrupt):
            main(["resume", "first", "stop.rounds=6", "--workers", "1"])
    assert not [line for line in marless("runs", "verify", "first").out if "does not match its hash" in line]


def test_kill_within_round_leaves_earlier_attempts_ok(marless, monkeypatch):
    from marless.reports.attempts import AttemptLog

    record = AttemptLog.record

    def dies(log, records):
        record(log, records)
        if records and records[0].round == 5 and records[0].kind == "sample":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AttemptLog, "record", dies)
        with pytest.raises(KeyboardInterrupt):
            main(["resume", "first", "stop.rounds=8", "--workers", "1"])
    assert marless("runs", "verify", "first").code == 0


def test_weights_are_as_published_or_not(marless):
    sha256 = json.loads(Path("runs/first/summary.json").read_text())["weights_sha256"]
    said = marless("runs", "verify", "first", "--published", sha256.upper())
    assert said.code == 0 and f"weights_sha256 {sha256} as published" in said.out[0]
    (said,) = marless("runs", "verify", "first", "--published", sha256, "--json").out
    assert json.loads(said)["as_published"] is True
    said = marless("runs", "verify", "first", "--published", "0" * 64)
    assert said.code == 1 and f"weights_sha256 is {sha256}, not the published {'0' * 64}" in said.out[0]
    assert json.loads(marless("runs", "verify", "first", "--json").out[0])["as_published"] is False


def test_what_is_no_hash_is_refused(marless):
    said = marless("runs", "verify", "first", "--published", "abc")
    assert said.code == 2 and "--published abc: a weights_sha256 has 64 digits from 0 to f" in said.err[0]
