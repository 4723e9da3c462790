"""Runs with environments that ask resources: the questions, the cached answers and repeated rounds."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from driver import SMALL, train

from marless.backends.registry import backend
from marless.cli.app import main
from marless.functions.resources.settings import Resource
from marless.infra.local.file_storage import FileStorage

RUN = (*SMALL, "algorithm.name=ippo", "task.name=pettingzoo:asking_games:quiz", "stop.rounds=3", "actors.num_envs=2")
KEPT = (*RUN, "resources.judge.serve=judges:at_random", "resources.judge.keep=true")
inline = backend("inline").open


def test_run_with_random_judge_repeats_from_its_answers(tmp_path, calls):
    first = train(tmp_path / "first", KEPT, back_end=inline)
    asked = calls()
    assert len(asked) == len(set(asked))
    assert len(FileStorage(tmp_path / "first/objects").list("answers/")) == len(asked)
    (tmp_path / "second/objects").mkdir(parents=True)
    (tmp_path / "first/objects/answers").rename(tmp_path / "second/objects/answers")
    second = train(tmp_path / "second", KEPT, back_end=inline)
    assert second.sha256 == first.sha256
    assert calls() == asked


@pytest.mark.parametrize("round_", [0, 1, 2])
def test_run_killed_in_round_repeats_no_question(tmp_path, calls, round_):
    train(tmp_path / "run", KEPT, leave=lambda state: state.round == round_ and bool(state.slots), back_end=inline)
    train(tmp_path / "run", KEPT, back_end=inline)
    assert len(calls()) == len(set(calls()))


def test_how_a_resource_is_asked_changes_no_weight(tmp_path, calls):
    run = (*RUN, "resources.judge.serve=judges:grade")
    kept = train(tmp_path / "kept", [*run, "resources.judge.keep=true"], back_end=inline)
    once = len(calls())
    assert train(tmp_path / "asked", [*run, "resources.judge.slots=3"], back_end=inline).sha256 == kept.sha256
    assert len(calls()) > 2 * once


def test_judge_without_answer_ends_run_with_cause(tmp_path, calls):
    state = train(tmp_path, [*RUN, "resources.judge.serve=judges:raises", "attempts=2"], back_end=inline).state
    assert state.status == "failed"
    assert "ResourceFault: resource 'judge': ValueError: no idea (3 attempts)" in state.reason


def test_unknown_resource_of_environment_ends_run_in_line(tmp_path):
    state = train(tmp_path, [*RUN, "resources.jury.serve=judges:grade"], back_end=inline).state
    assert "the run has no resource 'judge'; it has jury" in state.reason
    assert Resource(serve="judges:grade").slots == 1


def test_grades_are_part_of_what_is_learned(tmp_path, calls):
    run = [*SMALL, "stop.rounds=2", "actors.num_envs=2", "algorithm.name=ippo", "resources.judge.serve=judges:grade"]
    graded = train(tmp_path / "graded", [*run, "task.judge=judge"], back_end=inline)
    assert graded.sha256 != train(tmp_path / "plain", run, back_end=inline).sha256
    assert calls()


def test_bill_matches_judge_after_failed_and_killed_attempts(tmp_path, calls):
    """One question in seven has no answer at first, and then its task is tried again."""
    settings = [*RUN, "resources.judge.serve=judges:fails_at_first", "resources.judge.keep=true"]
    once = [*settings, "resources.judge.attempts=1", "attempts=10"]
    train(tmp_path, once, leave=lambda state: state.round == 1 and bool(state.slots), back_end=inline)
    state = train(tmp_path, once, back_end=inline).state
    assert state.status == "finished"
    answered = len(FileStorage(tmp_path / "objects").list("answers/"))
    assert state.meter.actions["judge"].count == answered
    assert len(calls()) > answered


def test_repeated_rounds_receive_answers_of_run(tmp_path, shell, calls):
    """The judge answers at random, and the rounds are compared with the records of the run."""
    shell.cd(tmp_path)
    assert main(["train", *KEPT, "--backend", "inline", "--run", "heard"]) == 0
    asked = calls()
    assert main(["export", "heard", "--to", "npz", "--rounds", "1-2", "--out", "played"]) == 0
    assert calls() == asked


def test_runs_in_threads_use_their_own_judges(tmp_path):
    """Each has the weights that it has alone."""
    common = [*SMALL, "task.name=matrix/penalty", "task.judge=judge", "stop.rounds=4", "actors.rollouts=2"]

    def weights(name, judge):
        run = [*common, f"resources.judge.serve=judges:{judge}"]
        return train(tmp_path / f"{name}-{judge}", run, back_end=inline).sha256

    judges = ["lets_others_run", "lets_others_run_too"]
    alone = [weights("alone", judge) for judge in judges]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(partial(weights, "together"), judges)) == alone
    assert alone[0] != alone[1]
