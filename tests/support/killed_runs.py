"""The driver in a process that tests kill, interrupt or stop, and a comparison of its run with another."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import driver

OPTIONS = (
    "actors.num_envs=8", "actors.rollouts=2", "placement.rule=fused", "stop.rounds=8", "checkpoint_every=3",
    "evaluation.every=3", "evaluation.episodes=4", "evaluation.final_episodes=4",
)  # fmt: skip
DRIVER = Path(driver.__file__)
# Of modules that runs name.
FOLDERS = [str(DRIVER.parents[2]), str(DRIVER.parent / "resources")]


class Process:
    """The driver in a separate process. With `hold` it stops itself when it has invoked the work after that round, and
    again after round `limit`. So it never ends before it is killed."""

    def __init__(self, folder, hold=None, options=OPTIONS, limit=""):
        hold_setting = {} if hold is None else {"HOLD": f"{hold} {limit}"}
        self._hold = hold
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), "2", *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **hold_setting, "PYTHONPATH": os.pathsep.join(FOLDERS)},
        )
        if hold is not None:
            while (line := self._process.stdout.readline()) != "holding\n":
                assert line, "the driver ended before it held"
            while not any(pid == self._process.pid and state.startswith("T") for pid, _, state in processes()):
                time.sleep(0.01)

    def alive(self):
        return self._process.poll() is None

    def send(self, *signals):
        for number in signals:
            self._process.send_signal(number)

    def end(self):
        try:
            output, _ = self._process.communicate(timeout=60)
        finally:
            self._process.kill()
        return output.rstrip().rpartition("\n")[2]

    def kill(self):
        """Kill it, and return its round, among the rounds that it has told."""
        self.send(signal.SIGKILL)
        output, _ = self._process.communicate(timeout=60)
        return max([self._hold, *(int(line.split()[1]) for line in output.splitlines() if line.startswith("round "))])

    def workers(self):
        return [pid for pid, parent, _ in processes() if parent == self._process.pid]

    def below(self):
        """All processes that it and its processes have started: (pid, whether it serves a resource)."""
        rows, below = processes(), [self._process.pid]
        for parent in below:
            below += [pid for pid, other, _ in rows if other == parent]
        return [(pid, serves_resource(pid)) for pid in below[1:]]


def serves_resource(pid):
    try:
        return b"marless.functions.resources" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def held_processes(folder, kills, rounds, options_of):
    """Give as many drivers of the run as kills, one after another, each held when it has invoked the work after its
    next round.

    The caller kills each driver before the next. `rounds` counts the whole run, and each driver may run its share of
    them. `options_of` gives the options of a driver by its number."""
    assert rounds > kills
    round_ = 0
    for kill in range(kills):
        limit = rounds * (kill + 1) // (kills + 1)
        process = Process(folder, hold=round_ + 1, options=options_of(kill), limit=limit)
        yield process
        round_ = process.kill()


def kill_in_turn(folder, kills, rounds, draw, options_of):
    """Kills the run's driver that often, each time about a round later, and at every second time a worker before it, as
    `draw` says. `rounds` and `options_of` as of `held_processes`."""
    for kill, process in enumerate(held_processes(folder, kills, rounds, options_of)):
        if kill % 2:
            # The run continues with another worker for a moment.
            os.kill(draw.choice(process.workers()), signal.SIGKILL)
            process.send(signal.SIGCONT)
            time.sleep(draw.uniform(0.0, 0.2))


def kill_at_random(folder, kills, rounds, draw, options, spares_resources=False):
    """Kill the run's driver that often, each time a moment after its next round has begun. Mostly another process of
    the run dies before it, by `draw`. Processes of resources die too unless `spares_resources`."""
    for process in held_processes(folder, kills, rounds, lambda kill: options):
        process.send(signal.SIGCONT)
        for _ in range(draw.choice((0, 1, 1, 2))):
            time.sleep(draw.uniform(0.0, 0.2))
            if victims := [pid for pid, serves in process.below() if not (serves and spares_resources)]:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(victims), signal.SIGKILL)
        time.sleep(draw.uniform(0.0, 0.2))


def processes():
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat="], capture_output=True, text=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return [(int(pid), int(parent), state) for pid, parent, state, *_ in rows]


def gone(pids, within_s=5.0):
    until = time.monotonic() + within_s
    while any(pid in pids and not state.startswith("Z") for pid, _, state in processes()):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def same(trained, undisturbed):
    """Require the same weights and evaluations of both runs, and each round once."""
    assert [line.round for line in trained.lines] == list(range(1, len(undisturbed.lines) + 1))
    assert trained.sha256 == undisturbed.sha256
    assert trained.state.final == undisturbed.state.final
    assert [(line.env_steps, line.return_mean, line.evaluation) for line in trained.lines] == [
        (line.env_steps, line.return_mean, line.evaluation) for line in undisturbed.lines
    ]
