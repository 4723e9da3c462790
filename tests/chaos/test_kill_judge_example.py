"""examples/judge.toml as a user types it, killed and resumed: each program is run and paid once, no byte is another.

The judge is the example's own, in the same sandbox, behind a judge that counts its questions.
"""

import hashlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from installed_commands import needs_bubblewrap
from killed_runs import FOLDERS, processes, serves_resource

from marless.infra.local.file_storage import FileStorage

pytestmark = [pytest.mark.conformance, needs_bubblewrap]

EXAMPLE = Path(__file__).parents[2] / "examples/judge.toml"
# A task that is killed often is tried often enough.
SETTINGS = ("resources.judge.serve=counted_writers:grade", "resources.judge.attempts=10", "attempts=10")
# The most rounds of a run per kill, and some more.
ROUNDS_PER_KILL = 1.2


class Typed:
    """A run called `name` in `folder`, by the commands that a user types there one after the other."""

    def __init__(self, folder, name, rounds):
        self._folder, self._name, self._settings = folder, name, [*SETTINGS, f"stop.rounds={rounds}"]
        self.path, self._calls = folder / "runs" / name, folder / f"{name}.calls"
        self._variables = {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS), "CALLS": str(self._calls)}

    def command(self):
        if (self.path / "plan.json").exists():
            return ["marless", "resume", self._name]
        return ["marless", "train", str(EXAMPLE), *self._settings, "--run", self._name]

    def start(self):
        with (self._folder / f"{self._name}.log").open("a") as log:
            return subprocess.Popen(
                self.command(), cwd=self._folder, env=self._variables, stdout=log, stderr=log, start_new_session=True
            )

    def questions(self):
        """Hashes of the judge's questions so far, in order."""
        return self._calls.read_text().split() if self._calls.exists() else []

    def rounds(self):
        metrics = self.path / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def answers(self):
        return len(FileStorage(self.path / "objects").list("answers/"))

    def actions(self):
        return json.loads((self.path / "summary.json").read_text())["actions"]["judge"]["count"]

    def policies(self):
        """Hashes of the policies that it ended with, and of its best."""
        files = ("policies.safetensors", "best_policies.safetensors")
        return [hashlib.sha256((self.path / name).read_bytes()).hexdigest() for name in files]

    def finish(self):
        assert self.start().wait() == 0, (self._folder / f"{self._name}.log").read_text()[-2000:]


def wait_for_moment(run, process, draw):
    """Wait a moment from the start of the command, or until the judge got some more questions or the run has ended a
    round. Then wait a little more."""
    if draw.random() < 0.2:
        time.sleep(draw.uniform(0.0, 2.0))
        return
    asked, rounds = len(run.questions()) + draw.randrange(1, 25), run.rounds()
    while len(run.questions()) < asked and run.rounds() == rounds and process.poll() is None:
        time.sleep(0.005)
    time.sleep(draw.uniform(0.0, 0.1))


def kill_group(process):
    """Kills the command with all of its process group, as a terminal does that is closed by force."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_one_below(process, draw):
    """Kill a process of workers or of the judge, or their forking process. Returns whether it belonged to the judge."""
    rows, below = processes(), [process.pid]
    for parent in below:
        below += [pid for pid, other, _ in rows if other == parent]
    victims = [pid for pid in below[1:] if b"marless.infra.local.processes.zygote" in command_line(pid)]
    if not victims:
        return False
    # As often one of the judge's as one of the workers'.
    judge = [pid for pid in victims if serves_resource(pid)]
    victim = draw.choice(draw.choice([each for each in (judge, [*{*victims} - {*judge}]) if each]))
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    return victim in judge


def command_line(pid):
    """Return the command line of a process, or b'' if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_hundred_group_kills_repeat_no_question(tmp_path, draw):
    kills = 100
    rounds = round(ROUNDS_PER_KILL * kills)
    undisturbed, killed = Typed(tmp_path, "undisturbed", rounds), Typed(tmp_path, "killed", rounds)
    undisturbed.finish()
    without_answer = 0
    for kill in range(kills):
        process = killed.start()
        wait_for_moment(killed, process, draw)
        assert process.poll() is None, f"it ended before kill {kill + 1}"
        kill_group(process)
        without_answer += killed.answers() < len(killed.questions())
    killed.finish()
    print(f"{len(killed.questions())} questions, {killed.answers()} answers, {killed.actions()} actions")
    print(f"after {without_answer} of {kills} kills the judge was at a question")
    assert without_answer
    assert [question for question, count in Counter(killed.questions()).items() if count > 1] == []
    assert len(killed.questions()) == killed.answers() == killed.actions() == len(undisturbed.questions())
    assert {*killed.questions()} == {*undisturbed.questions()}
    assert killed.policies() == undisturbed.policies()


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["the driver lives", "the driver is killed after half of them"])
def test_thirty_kills_of_workers_and_judge_change_nothing(tmp_path, draw, share):
    """A question is asked twice only if its process was killed. A driver that lives bills everything that it has heard
    of."""
    kills = 30
    rounds = round(ROUNDS_PER_KILL * kills)
    undisturbed, killed = Typed(tmp_path, "undisturbed", rounds), Typed(tmp_path, "killed", rounds)
    undisturbed.finish()
    of_judge, process = 0, killed.start()
    for kill in range(kills):
        wait_for_moment(killed, process, draw)
        assert process.poll() is None, f"it ended before kill {kill + 1}"
        of_judge += kill_one_below(process, draw)
        if draw.random() < share:
            time.sleep(draw.uniform(0.0, 0.5))
            kill_group(process)
            process = killed.start()
    assert process.wait() == 0
    again = len(killed.questions()) - killed.answers()
    print(f"{killed.answers()} answers, {again} questions again, {killed.actions()} actions, {of_judge} of the judge")
    assert {*killed.questions()} == {*undisturbed.questions()} and killed.answers() == len(undisturbed.questions())
    assert 0 <= again <= 2 * of_judge and 0 <= killed.actions() - killed.answers() <= 2 * of_judge
    assert share or len(killed.questions()) <= killed.actions()
    assert killed.policies() == undisturbed.policies()
