"""Cells: their order, their status, the commands that run them, and the loop that runs them in parallel."""

import signal
import subprocess
import sys
from collections import Counter

import pytest
from ablated_runs import a_folder, a_line

from coordinator.ablation import campaign as campaigns
from coordinator.ablation.arms import ARMS, Arm
from coordinator.ablation.campaign import Campaign
from coordinator.ablation.cells import Cell, command, failure_reason, list_cells, run_status
from coordinator.ablation.runner import drive, spawn
from coordinator.ablation.study import Study
from coordinator.ablation.study import read as study_of

A, B = Arm("a", "", {"scaling.rule": "gns", "trend.gamma": 0.1, "sharing.trial": False}), Arm("b", "", {})


def test_all_arms_of_a_seed_come_before_the_next_seed():
    assert [cell.run for cell in list_cells([A, B], [3, 1])] == ["a-s3", "b-s3", "a-s1", "b-s1"]


def test_a_cell_stands_as_its_files_say(tmp_path):
    folder = tmp_path / "run"
    assert run_status(folder) == "new"
    folder.mkdir()
    assert run_status(folder) == "new"
    (folder / "plan.json").write_text("{}")
    assert run_status(folder) == "begun"
    for status, stands in (("interrupted", "begun"), ("failed", "begun"), ("finished", "finished")):
        (folder / "summary.json").write_text(f'{{"status": "{status}"}}')
        assert run_status(folder) == stands


def test_a_cell_is_an_ordinary_run_with_one_worker():
    words = command(Cell(A, 7), A.settings, "new")
    assert words == [
        *("train", "base.toml", "scaling.rule=gns", "trend.gamma=0.1", "sharing.trial=false", "seed=7"),
        *("--run", "a-s7", "--workers", "1"),
    ]
    assert command(Cell(A, 7), A.settings, "begun") == ["resume", "a-s7", "--workers", "1"]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("run x\nmarless: failed after round 2: no; go on with: marless resume x\n", "failed after round 2: no"),
        ("marless: first\nTraceback\nMemoryError\n", "first"),
        ("Killed\n\n", "Killed"),
        ("", "exit code 9"),
    ],
)
def test_the_reason_of_a_failure_is_what_the_command_said(log, says):
    assert failure_reason(log, 9) == says


class Made:
    """A process that ends after `polls` polls; a signal ends it if it `listens`."""

    def __init__(self, polls=1, code=0, listens=True):
        self.polls, self.code, self.listens, self.signals = polls, code, listens, []

    def poll(self):
        self.polls -= 1
        return None if self.polls >= 0 else self.code

    def send_signal(self, number):
        self.signals.append(number)
        if self.listens:
            self.polls, self.code = 0, 130

    def wait(self, timeout=None):
        return self.code


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("coordinator.ablation.runner._POLL_S", 0.0)


def test_so_many_run_at_once_and_all_run_in_order():
    begun, running, most = [], Counter(), []

    def begin(cell):
        begun.append(cell.run)
        running[cell] += 1
        most.append(running.total())
        return Made(polls=3)

    def ended(cell, code):
        running[cell] -= 1

    drive(list_cells([A, B], range(4)), 3, lambda cell: True, begin, ended, lambda: False)
    assert begun == ["a-s0", "b-s0", "a-s1", "b-s1", "a-s2", "b-s2", "a-s3", "b-s3"]
    assert max(most) == 3


def test_a_cell_that_is_not_ready_waits_and_one_that_cannot_begin_ends_nothing():
    order, over = [], []

    def begin(cell):
        order.append(cell.run)
        return None if cell.run == "a-s2" else Made()

    drive(
        [Cell(B, 1), Cell(A, 1), Cell(A, 2)],
        1,
        lambda cell: cell.arm is A or len(over) == 1,
        begin,
        lambda cell, code: over.append(cell.run),
        lambda: False,
    )
    assert (order, over) == (["a-s1", "b-s1", "a-s2"], ["a-s1", "b-s1"])


def test_a_cell_that_goes_on_does_so_before_those_that_wait():
    begun = []

    def begin(cell):
        begun.append(cell.seed)
        return Made()

    drive([Cell(A, 1), Cell(A, 2)], 1, lambda cell: True, begin, lambda cell, _: begun.count(1) < 3, lambda: False)
    assert begun == [1, 1, 1, 2]


def test_a_stop_is_passed_on_once_and_nothing_new_begins():
    made, over = Made(polls=100), []
    stops = iter([False, False, False])
    drive(
        [Cell(A, 1), Cell(A, 2)],
        1,
        lambda cell: True,
        lambda cell: made,
        lambda cell, code: over.append((cell.seed, code)),
        lambda: next(stops, True),
    )
    assert (made.signals, over) == ([signal.SIGINT], [(1, 130)])


def test_whatever_ends_the_loop_ends_the_runs_even_deaf_ones(monkeypatch):
    monkeypatch.setattr("coordinator.ablation.runner._PATIENCE_S", 0.2)
    script = "import signal, time; signal.signal(2, lambda *_: None); print(1, flush=True); time.sleep(60)"
    begun = []

    def begin(cell):
        begun.append(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE))
        begun[-1].stdout.readline()
        return begun[-1]

    def stopping():
        if begun:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        drive([Cell(A, 1)], 1, lambda cell: True, begin, lambda *_: None, stopping)
    assert begun[0].returncode == -signal.SIGKILL
    begun[0].stdout.close()


def test_a_run_says_what_it_says_in_its_log(tmp_path):
    process = spawn(["train", "no.toml"], tmp_path, tmp_path / "log.txt", None)
    assert process.wait() == 2
    assert "marless: there is no file no.toml" in (tmp_path / "log.txt").read_text()


PAPER, MEAN = ARMS["marless"], ARMS["constant-mean"]


class Scripted:
    """Fake runs that finish with these numbers of rollouts per round, or fail for None."""

    def __init__(self, monkeypatch, folder, rollouts):
        self.folder, self.rollouts, self.words = folder, rollouts, []
        monkeypatch.setattr(campaigns, "spawn", self)

    def __call__(self, arguments, folder, log, modules):
        name = arguments[arguments.index("--run") + 1] if "--run" in arguments else arguments[1]
        self.words.append((name, arguments))
        rollouts = self.rollouts[name]
        if rollouts is None:
            log.write_text("marless: out of luck\n")
            return Made(code=1)
        a_folder(self.folder / "runs" / name, [a_line(1, rollouts=rollouts), a_line(2, rollouts=rollouts + 2)])
        return Made()


def a_campaign(folder, arms=(PAPER, MEAN), seeds=(1, 2), study=None):
    ended_runs = []
    return Campaign(folder, study or Study(settings={}, arms={}), arms, seeds, ended_runs.append), ended_runs


def test_the_constant_arm_waits_for_the_runs_it_takes_its_rollouts_from(tmp_path, monkeypatch):
    # Means per round are 5 and 8 rollouts; 6.5 is rounded to even.
    runs = Scripted(
        monkeypatch, tmp_path, {"marless-s1": 4, "marless-s2": 7, "constant-mean-s1": 6, "constant-mean-s2": 6}
    )
    campaign, ended_runs = a_campaign(tmp_path)
    campaign.run(4, lambda: False)
    assert [name for name, _ in runs.words] == ["marless-s1", "marless-s2", "constant-mean-s1", "constant-mean-s2"]
    assert "scaling.rollouts=6" in runs.words[2][1]
    assert study_of(tmp_path).rollouts == {"constant-mean": 6}
    assert [(ended.status, ended.done, ended.total) for ended in ended_runs][-1] == ("finished", 4, 4)
    assert {name: list(found) for name, found in campaign.results.items()} == {
        "marless": [1, 2],
        "constant-mean": [1, 2],
    }


def test_a_failed_run_is_reported_with_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    Scripted(monkeypatch, tmp_path, {"marless-s1": None, "marless-s2": 4, "constant-mean-s1": 6, "constant-mean-s2": 6})
    campaign, ended_runs = a_campaign(tmp_path)
    campaign.run(1, lambda: False)
    assert [(e.cell.run, e.status, e.reason) for e in ended_runs if e.status == "failed"] == [
        ("marless-s1", "failed", "out of luck")
    ]
    assert campaign.failures == {Cell(PAPER, 1): "out of luck"}
    assert not campaign.missing and len(ended_runs) == 4


def test_without_any_run_to_take_rollouts_from_an_arm_fails(tmp_path, monkeypatch):
    Scripted(monkeypatch, tmp_path, {"marless-s1": None})
    campaign, ended_runs = a_campaign(tmp_path, seeds=(1,))
    campaign.run(1, lambda: False)
    assert [ended.reason for ended in ended_runs] == [
        "out of luck",
        "no run of the arm marless finished, so its number of rollouts is unknown",
    ]


def test_finished_runs_are_not_run_again_and_rollouts_once_worked_out_stay(tmp_path, monkeypatch):
    a_folder(tmp_path / "runs" / "marless-s1", [a_line(1, rollouts=20)])
    runs = Scripted(monkeypatch, tmp_path, {"constant-mean-s1": 6})
    campaign, ended_runs = a_campaign(
        tmp_path, seeds=(1,), study=Study(settings={}, arms={}, rollouts={"constant-mean": 3})
    )
    assert [cell.run for cell in campaign.missing] == ["constant-mean-s1"]
    campaign.run(1, lambda: False)
    assert "scaling.rollouts=3" in runs.words[0][1] and len(ended_runs) == 1


def test_a_run_that_a_stop_ended_has_not_failed(tmp_path, monkeypatch):
    runs = Scripted(monkeypatch, tmp_path, {"marless-s1": None})
    campaign, ended_runs = a_campaign(tmp_path, arms=(PAPER,), seeds=(1,))
    campaign.run(1, lambda: bool(runs.words))
    assert [ended.status for ended in ended_runs] == ["interrupted"]
    assert (campaign.failures, [cell.run for cell in campaign.missing]) == ({}, ["marless-s1"])


def test_a_run_whose_files_are_damaged_is_a_failure(tmp_path):
    folder = a_folder(tmp_path / "runs" / "marless-s1", [a_line(1), a_line(2)])
    (folder / "metrics.jsonl").write_text("")
    campaign, _ = a_campaign(tmp_path, seeds=(1,))
    assert "metrics.jsonl does not have all 2 rounds" in campaign.failures[Cell(PAPER, 1)]
