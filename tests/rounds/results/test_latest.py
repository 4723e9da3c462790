"""`latest`, which commands take where no run is named, when it is gone."""

import shutil
from pathlib import Path


def test_newest_run_replaces_removed_latest(marless, no_processes):
    for name in ("old", "new"):
        assert marless.train(name, "stop.rounds=1").code == 0
    shutil.rmtree("runs/new")
    for command in ("status", "resume", "evaluate", "runs verify", "report"):
        [line] = marless(*command.split()).err
        assert line == "marless: the latest run, new, was removed; the newest run is old: name it"
    shutil.rmtree("runs/old")
    Path("runs/latest").unlink()
    for command in ("status", "report"):
        [line] = marless(command).err
        assert line == "marless: there is no latest run in runs of this folder; start one with: marless train"
