"""A run with a missing, empty or old ledger is refused. No command starts it again or plays it."""

import json
import shutil
import sqlite3
from contextlib import chdir
from pathlib import Path

import pytest
from commands import SMALL
from detached_runs import World as Detached
from simulated import World, make_plan
from studies import setting, study

from marless.cli.app import main
from marless.coordinator.drive.ledger_items import Unresumable

pytestmark = pytest.mark.usefixtures("copies")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the runs `four`, of four rounds, and `six`, the same resumed for two more."""
    folder = tmp_path_factory.mktemp("trained")
    with chdir(folder):
        assert main(["train", *SMALL, "--run", "four", "--workers", "1"]) == 0
        shutil.copytree("runs/four", "runs/six")
        assert main(["resume", "six", "stop.rounds=6", "--workers", "1"]) == 0
    return folder / "runs"


def without_ledger():
    for path in Path("runs/six").glob("ledger.sqlite*"):
        path.unlink()


def empty_ledger():
    without_ledger()
    Path("runs/six/ledger.sqlite").touch()


def ledger_without_items():
    with sqlite3.connect("runs/six/ledger.sqlite") as connection:
        connection.execute("DELETE FROM items")
    connection.close()


def older_ledger():
    without_ledger()
    shutil.copy("runs/four/ledger.sqlite", "runs/six/ledger.sqlite")


def contents():
    return {
        path: path.read_bytes()
        for path in Path("runs/six").rglob("*")
        if path.is_file() and not path.name.startswith((".lock", "ledger.sqlite"))
    }


LOSSES = (without_ledger, empty_ledger, ledger_without_items)


@pytest.mark.parametrize("lose", LOSSES)
def test_begun_run_without_ledger_is_not_restarted(marless, lose):
    lose()
    before = contents()
    for command in ("resume six stop.rounds=8", "status six", "runs verify six", "evaluate six"):
        said = marless(*command.split())
        assert said.code == 2 and len(said.err) == 1, said
        assert "six has lost its ledger: the run began (6 rounds in metrics.jsonl)" in said.err[0]
        assert "marless train runs/six/config.toml" in said.err[0]
    listed = marless("runs", "--json")
    problem = next(row for row in map(json.loads, listed.out) if row["run"] == "six")["problem"]
    assert problem in said.err[0]
    assert contents() == before


@pytest.mark.parametrize("evidence", ["objects", "policies.safetensors", "bill.json", "attempts.jsonl"])
def test_any_trace_of_round_shows_run_began(marless, evidence):
    without_ledger()
    for path in Path("runs/six").iterdir():
        if path.name not in (evidence, "plan.json", "config.toml"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    said = marless("resume", "six", "--workers", "1")
    assert said.code == 2 and "has lost its ledger: the run began, and" in said.err[0]


def test_what_a_message_says_still_works_does(marless):
    without_ledger()
    assert marless("export", "six", "--to", "safetensors", "--best").code == 0
    assert marless("train", "runs/six/config.toml", "stop.rounds=1", "--run", "anew", "--workers", "1").code == 0


def test_run_killed_before_first_commit_begins(marless):
    without_ledger()
    for path in Path("runs/six").iterdir():
        if path.name not in ("plan.json", "config.toml"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert marless("resume", "six", "--workers", "1").code == 0


def test_driver_does_not_restart_over_objects_of_run():
    world = World(make_plan("stop.rounds=2"))
    world.finish()
    stored = dict(world.storage)
    del world.ledger["state"]
    with pytest.raises(Unresumable, match="its ledger was lost"):
        world.driver()
    assert dict(world.storage) == stored


def test_nor_does_the_coordinator_in_the_cloud():
    world = Detached("stop.rounds=1", "task.name=toy/signal", "algorithm.hidden=[8]").run()
    stored = dict(world.storage.dict)
    del world.ledger["state"]
    with pytest.raises(Unresumable, match="its ledger was lost"):
        world.coordinate()
    assert dict(world.storage.dict) == stored


def test_study_leaves_run_without_ledger_unchanged(marless):
    study(Path("s.toml"), setting("a", ["algorithm.lr=0.01"]), head="seeds = [1]\npool.workers = 1\n")
    assert marless("study", "s.toml").code == 0
    (run,) = Path("studies/s/runs").iterdir()
    (run / "ledger.sqlite").write_bytes(b"")
    (run / "summary.json").unlink()
    metrics = (run / "metrics.jsonl").read_bytes()
    record = Path("studies/s/study.json")  # as a kill before the run's end leaves it
    record.write_text(record.read_text().replace('"finished"', '"interrupted"'))
    said = marless("study", "s.toml")
    assert said.code != 0 and "has lost its ledger" in "".join(said.out + said.err)
    assert (run / "metrics.jsonl").read_bytes() == metrics


def test_older_ledger_is_not_ok_and_not_played(marless):
    older_ledger()
    said = marless("runs", "verify", "six")
    lost = "the ledger ends at round 4, summary.json of round 6 and metrics.jsonl of round 6: a part of it was lost"
    assert said.code == 1 and lost in said.out[0]
    for command in (["evaluate", "six"], ["export", "six", "--to", "npz", "--episodes", "4"]):
        refused = marless(*command)
        assert refused.code == 2 and lost in refused.err[0] and "marless resume six" in refused.err[0]
    assert any(lost in line for line in marless("status", "six").out)


def test_run_with_older_ledger_continues_and_says_so(marless):
    whole = json.loads(Path("runs/six/summary.json").read_text())["weights_sha256"]
    for path in Path("runs/six").glob("ledger.sqlite*"):
        path.unlink()
    shutil.copytree("runs/four/objects", "runs/six/objects", dirs_exist_ok=True)
    shutil.copy("runs/four/ledger.sqlite", "runs/six/ledger.sqlite")
    said = marless("resume", "six", "--workers", "1")
    assert said.code == 0 and any("what followed round 4 is trained again" in line for line in said.out + said.err)
    assert json.loads(Path("runs/six/summary.json").read_text())["weights_sha256"] == whole
    assert marless("runs", "verify", "six").code == 0
