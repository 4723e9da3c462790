"""Every kind of file that a run leaves, damaged in several ways: each command says one line or answers.

`python -m benchmarks.damage` asks the same of hundreds of files, with the answers of undamaged runs.
"""

import random
import shutil

import pytest
from commands import Commands, train_in

from benchmarks.damage.damages import damage, kinds_of_files

COMMANDS = {
    "verify": ("runs", "verify", "r"),
    "status": ("status", "r"),
    "runs": ("runs",),
    "log": ("log", "r"),
    "timeline": ("report", "--timeline", "r"),
    "resume": ("resume", "r", "stop.rounds=3", "--workers", "1"),
}
# Pages and comparisons take long to make.
SLOW = {"report": ("report", "r", "--out", "page.html"), "compare": ("compare", "r", "r")}
IN_PAGES = ("bill.json", "evaluations.json", "metrics.jsonl")
# Two ways for each kind of file: contents that surprise handlers, and damage by people and disks.
WAYS = (("not UTF-8", "half"), ("deep", "a folder"), ("a number", "empty"), ("another encoding", "a dangling link"))
KINDS = (
    "attempts.jsonl", "bill.json", "config.toml", "evaluations.json", "ledger.sqlite", "metrics.jsonl", "plan.json",
    "policies.safetensors", "progress.csv", "summary.json", "objects/rounds/#/learn/#.learner.safetensors",
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    train_in(folder, "r", "stop.rounds=2", 'log.to=["csv"]')
    return folder


def test_damaged_kinds_cover_all_files_of_run(finished):
    kinds = set(kinds_of_files(finished / "runs/r"))
    assert {kind for kind in kinds if "/" not in kind} - {".lock", "best_policies.safetensors"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_file_is_one_line_for_every_reader(finished, tmp_path, shell, capfd, kind):
    files = kinds_of_files(finished / "runs/r")
    path = files.get(kind, [next(path for paths in files.values() for path in paths if "learner" in path.name)])[0]
    marless, asked = Commands(capfd), {**(SLOW if kind in IN_PAGES else {}), **COMMANDS}
    for how in WAYS[KINDS.index(kind) % len(WAYS)]:
        folder = tmp_path / how
        shutil.copytree(finished, folder, symlinks=True)
        shell.cd(folder)
        damage(random.Random(1), folder / "runs/r" / path, how)
        for name, argv in asked.items():
            said = marless(*argv)
            assert said.code in (0, 1, 2), f"{name} of {kind}, {how}: {said}"
            assert not any("internal error" in line for line in said.err), f"{name} of {kind}, {how}: {said.err}"


def test_damaged_summary_is_reported_and_run_continues(finished, tmp_path, shell, capfd):
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    shell.cd(tmp_path / "copy")
    summary = tmp_path / "copy/runs/r/summary.json"
    summary.write_bytes(summary.read_bytes() + b"\xff")
    marless = Commands(capfd)
    for command in ("log", "report"):
        said = marless(command, "r")
        assert said.code == 2 and "summary.json cannot be read" in said.err[0], command
    said = marless("runs", "verify", "r")
    assert said.code == 1 and "summary.json does not match its hash in the ledger" in said.out[0]
    assert marless("resume", "r", "stop.rounds=3", "--workers", "1").code == 0
    assert marless("runs", "verify", "r").code == 0


def test_edited_configuration_no_longer_belongs_to_run(finished, tmp_path, shell, capfd):
    """A valid edit counts, too, for example an empty file with the defaults."""
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    shell.cd(tmp_path / "copy")
    marless = Commands(capfd)
    assert marless("runs", "verify", "r").code == 0
    (tmp_path / "copy/runs/r/config.toml").write_bytes(b"")
    said = marless("runs", "verify", "r")
    assert said.code == 1 and "config.toml was edited after the run began" in said.out[0]


def test_damaged_line_is_named_but_truncated_end_accepted(finished, tmp_path, shell, capfd):
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    shell.cd(tmp_path / "copy")
    path = tmp_path / "copy/runs/r/metrics.jsonl"
    first, second, _ = path.read_bytes().split(b"\n")
    marless = Commands(capfd)
    path.write_bytes(first + b"\n" + second[:20])
    assert marless("report", "r", "--out", "page.html").code == 0
    path.write_bytes(first[:-1] + b"\n" + second + b"\n")
    said = marless("report", "r", "--out", "page.html")
    assert said.code == 2 and "metrics.jsonl, line 1, cannot be read" in said.err[0]
