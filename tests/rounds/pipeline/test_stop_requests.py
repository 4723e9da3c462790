"""A run that is to stop waits only for the attempts that a worker has begun, and nothing of it is lost."""

import random
from dataclasses import replace

import pytest
from driver import train

from marless.backends import inline, local

SETTINGS = (
    "task.name=matrix/penalty", "algorithm.hidden=[8]", "actors.num_envs=4", "actors.rollouts=6", "sharing.rule=none",
    "stop.rounds=3", "evaluation.every=1", "evaluation.episodes=320", "evaluation.final_episodes=1600",
    "evaluation.episodes_per_invocation=80", "checkpoint_every=2", "placement.rule=split",
)  # fmt: skip


class Watched:
    """Passes everything on, and counts the attempts that were answered after the run was told to stop."""

    def __init__(self, invoker, answered_tasks):
        self._invoker, self._is_stopping, self._answered_tasks = invoker, False, answered_tasks
        self.answered, self.withdrawn = 0, 0

    def __getattr__(self, name):
        return getattr(self._invoker, name)

    def wait(self, timeout_s):
        reports = self._invoker.wait(timeout_s)
        self._answered_tasks += [report.id for report in reports if report.outcome == "answered"]
        if self._is_stopping:
            self.answered += sum(report.outcome == "answered" for report in reports)
        self.withdrawn += sum(report.outcome == "withdrawn" for report in reports)
        return reports

    def withdraw(self):
        self._is_stopping = True
        self._invoker.withdraw()


def stopped_at_random(folder, draws, workers, back_end):
    """Trains, and stops after a random number of steps, again and again. The result, and how many were withdrawn.

    No task is answered twice.
    """
    withdrawn, answered_tasks = 0, []
    while True:
        watched = []

        def open_watched(at, workers, watched=watched):
            connection = back_end.open(at, workers)
            watched.append(Watched(connection.invoker, answered_tasks))
            return replace(connection, invoker=watched[0])

        left = iter(range(draws.randrange(30)))
        trained = train(folder, SETTINGS, workers, asking=lambda left=left: next(left, None) is not None,
                        back_end=open_watched)  # fmt: skip
        assert watched[0].answered <= workers
        withdrawn += watched[0].withdrawn
        if trained.state.status != "running":
            assert len(answered_tasks) == len(set(answered_tasks))
            return trained, withdrawn


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole") / "run", SETTINGS, back_end=inline.BACKEND.open)


@pytest.mark.parametrize("seed", range(3))
def test_randomly_stopped_run_has_same_bytes(tmp_path, whole, seed):
    trained, withdrawn = stopped_at_random(tmp_path / "run", random.Random(seed), 1, inline.BACKEND)
    assert trained.state.status == "finished" and withdrawn
    assert (trained.sha256, trained.lines[-1].agent_returns) == (whole.sha256, whole.lines[-1].agent_returns)
    assert (trained.state.final, trained.state.absolute) == (whole.state.final, whole.state.absolute)


@pytest.mark.slow
def test_workers_of_stopped_run_finish_their_attempts(tmp_path, processes, whole):
    trained, withdrawn = stopped_at_random(tmp_path / "run", random.Random(4), 2, local.BACKEND)
    assert trained.state.status == "finished" and withdrawn
    assert (trained.sha256, trained.state.final) == (whole.sha256, whole.state.final)
