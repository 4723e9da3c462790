"""Cells: their order, their status, their runs, and their outcomes in a campaign."""

import pytest
from ablated_runs import a_folder, a_line

from marless.ablation.ablation_campaign import Ablation, AblationCampaign
from marless.ablation.arms import ARMS
from marless.ablation.declaration import Declaration
from marless.ablation.declaration import read as declaration_of
from marless.coordinator.config.schema import RunConfig
from marless.runs.folder import RunFolder
from marless.runs.summary import has_finished
from marless.studies.cells import Arm, Cell, list_cells

A, B = Arm("a", "", {"scaling.rule": "gns", "trend.gamma": 0.1, "sharing.trial": False}), Arm("b", "", {})


def test_all_arms_of_seed_precede_next_seed():
    assert [cell.run for cell in list_cells([A, B], [3, 1])] == ["a-s3", "b-s3", "a-s1", "b-s1"]


def test_run_has_finished_if_files_say_so(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert not has_finished(folder)
    folder.path.mkdir()
    (folder.path / "summary.json").write_text("{")
    assert not has_finished(folder)
    for status in ("interrupted", "failed", "finished"):
        assert has_finished(RunFolder(a_folder(tmp_path / status, [a_line(1)], status=status))) == (
            status == "finished"
        )


def test_cell_run_has_arm_settings_over_file(tmp_path):
    base = tmp_path / "base.toml"
    base.write_text("seed = 3\n[trend]\ngamma = 0.2\nwindow = 7\n")
    run = Cell(A, 7).to_train(A.settings, base)
    assert (run.name, run.seed, run.config.seed) == ("a-s7", 7, 7)
    assert (run.config.scaling.rule, run.config.sharing.trial) == ("gns", False)
    assert (run.config.trend.gamma, run.config.trend.window) == (0.1, 7)


PAPER, MEAN = ARMS["marless"], ARMS["constant-mean"]


def a_campaign(folder, arms=(PAPER, MEAN), seeds=(1, 2), study=None):
    (folder / "base.toml").touch()
    ablation = Ablation(folder, RunConfig(), arms, seeds)
    return AblationCampaign(ablation, study or Declaration(settings={}, arms={}))


def asked(campaign):
    return {run.name: run for run in iter(lambda: next(iter(campaign.ask()), None), None)}


def end(campaign, run, rollouts=None, reason="out of luck"):
    """The run finishes with this number of rollouts per round, or fails for the reason."""
    run.status, run.reason = ("failed", reason) if rollouts is None else ("finished", "rounds")
    if rollouts is not None:
        a_folder(campaign.folder / "runs" / run.name, [a_line(1, rollouts=rollouts), a_line(2, rollouts=rollouts + 2)])
    campaign.run_ended(run)


def test_constant_arm_awaits_runs_with_its_rollouts(tmp_path):
    campaign = a_campaign(tmp_path)
    first = asked(campaign)
    assert list(first) == ["marless-s1", "marless-s2"]
    end(campaign, first["marless-s1"], 4)
    assert not campaign.ask()
    # Means per round are 5 and 8 rollouts. 6.5 is rounded to even.
    end(campaign, first["marless-s2"], 7)
    second = asked(campaign)
    assert list(second) == ["constant-mean-s1", "constant-mean-s2"]
    assert {run.config.actors.rollouts for run in second.values()} == {6}
    assert declaration_of(tmp_path).rollouts == {"constant-mean": 6}
    for run in second.values():
        end(campaign, run, 6)
    assert {name: list(found) for name, found in campaign.results.items()} == {
        "marless": [1, 2],
        "constant-mean": [1, 2],
    }


def test_failed_run_is_reported_and_others_continue(tmp_path):
    campaign = a_campaign(tmp_path)
    first = asked(campaign)
    end(campaign, first["marless-s1"])
    end(campaign, first["marless-s2"], 4)
    for run in asked(campaign).values():
        end(campaign, run, 6)
    assert campaign.failures == {Cell(PAPER, 1): "out of luck"}
    assert not campaign.missing and sum(map(len, campaign.results.values())) == 3


def test_arm_fails_without_runs_to_take_rollouts_from(tmp_path):
    campaign = a_campaign(tmp_path, seeds=(1,))
    end(campaign, *campaign.ask())
    (run,) = campaign.ask()
    reason = "no run of the arm marless finished, so its number of rollouts is unknown"
    assert (run.status, run.reason) == ("failed", reason)
    assert list(campaign.failures.values()) == ["out of luck", reason]


def test_finished_runs_and_computed_rollouts_are_reused(tmp_path):
    a_folder(tmp_path / "runs" / "marless-s1", [a_line(1, rollouts=20)])
    known = Declaration(settings={}, arms={}, rollouts={"constant-mean": 3})
    (run,) = asked(a_campaign(tmp_path, seeds=(1,), study=known)).values()
    assert (run.name, run.config.actors.rollouts) == ("constant-mean-s1", 3)


@pytest.mark.parametrize(("reason", "missing"), [("", ["marless-s1"]), ("the disk is full", [])])
def test_only_interrupted_run_with_reason_has_failed(tmp_path, reason, missing):
    campaign = a_campaign(tmp_path, arms=(PAPER,), seeds=(1,))
    (run,) = campaign.ask()
    run.status, run.reason = "interrupted", reason
    campaign.run_ended(run)
    assert [*campaign.failures.values()] == ([reason] if reason else [])
    assert [cell.run for cell in campaign.missing] == missing


def test_run_with_damaged_files_is_failure(tmp_path):
    folder = a_folder(tmp_path / "runs" / "marless-s1", [a_line(1), a_line(2)])
    (folder / "metrics.jsonl").write_text("")
    campaign = a_campaign(tmp_path, seeds=(1,))
    assert "metrics.jsonl does not have all 2 rounds" in campaign.failures[Cell(PAPER, 1)]
