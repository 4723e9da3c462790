"""`marless.resources.local`: environments ask resources without a run."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

import numpy as np
import pytest

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.errors import UserError
from marless.environments import as_pettingzoo, check, make
from marless.functions.environments.base import EnvTask
from marless.resources import ResourceFault, local

JUDGE = {"serve": "judges:grade", "slots": 2}


@pytest.fixture(autouse=True)
def calls(tmp_path, shell):
    shell.export(CALLS=str(tmp_path / "calls"))
    return lambda: (tmp_path / "calls").read_text().splitlines()


def test_a_batch_is_answered_in_its_order():
    with local(judge=JUDGE) as resources:
        assert resources.call("judge", [b"\x01", b"\x02", b"\x0c"]) == [b"1", b"2", b"2"]
        with pytest.raises(ResourceFault, match="the run has no resource 'jury'; it has judge"):
            resources.call("jury", [b"a"])


def test_what_is_closed_answers_nothing_and_begins_nothing():
    with local(judge=JUDGE) as resources:
        pass
    with pytest.raises(ResourceFault, match=r"resource 'judge': marless\.resources\.local was closed"):
        resources.call("judge", [b"a"])


def test_threads_may_ask_at_once():
    with local(judge=JUDGE) as resources, ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda number: resources.call("judge", [bytes([number])]), range(40))
        assert list(answers) == [[b"%d" % (number % 10)] for number in range(40)]


def test_a_fork_of_this_process_cannot_ask():
    with local(judge=JUDGE) as resources:
        if (pid := os.fork()) == 0:
            try:
                resources.call("judge", [b"a"])
            except ResourceFault:
                os._exit(7)
            finally:
                os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert resources.call("judge", [b"\x01"]) == [b"1"]


def test_a_process_with_many_open_files_can_ask():
    """select(2) takes no descriptor from 1024 on."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if hard != RLIM_INFINITY and hard < 1200:
        pytest.skip("this process may not open 1200 files")
    with ExitStack() as opened:
        opened.callback(setrlimit, RLIMIT_NOFILE, (soft, hard))
        setrlimit(RLIMIT_NOFILE, (max(soft, 1200), hard))
        while opened.enter_context(Path(os.devnull).open()).fileno() < 1100:
            pass
        with local(judge=JUDGE) as resources:
            assert resources.call("judge", [b"\x01"]) == [b"1"]


def test_environments_made_within_ask_it():
    with local(judge=JUDGE):
        environment = make(EnvTask(name="pettingzoo:asking_games:quiz"), 2)
        environment.reset(np.random.default_rng(0))
        rewards = environment.step((np.array([[0, 1], [2, 0]]),)).rewards
    grades = [[sum(b"%d 0 %d" % pair) % 10 for pair in copy] for copy in (((0, 0), (1, 1)), ((0, 2), (1, 0)))]
    assert rewards.tolist() == grades
    with pytest.raises(Exception, match="resource 'judge': no run is asked here"):
        environment.step((np.zeros((2, 2), int),))


def test_the_check_of_environments_asks_it():
    with local(judge=JUDGE):
        check(lambda num_envs: make(EnvTask(name="toy/signal", judge="judge"), num_envs))
        parallel = as_pettingzoo(EnvTask(name="matrix/climbing", judge="judge"))
        parallel.reset(seed=1)
        _, graded, *_ = parallel.step(dict.fromkeys(parallel.agents, 0))
    assert graded["agent_0"] != 11  # the payoff of the matrix


def test_cached_answers_stay_in_named_folder(tmp_path, calls):
    settings = {"serve": "judges:at_random", "keep": True}
    with local(tmp_path / "answers", judge=settings) as resources:
        first = resources.call("judge", [b"a"])
    resources = local(tmp_path / "answers", judge=settings)
    assert resources.call("judge", [b"a"]) == first
    resources.close()
    resources.close()
    assert len(calls()) == 1


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        (
            {"serve": "judges:grade", "slots": 0},
            ConfigError,
            "resources.judge.slots: 0 is not a whole number of at least",
        ),
        ({"slot": 1}, ConfigError, "there is no key resources.judge.slot; did you mean resources.judge.slots"),
        ({"serve": "no_such_judge:grade"}, UserError, "resources.judge.serve: there is no module 'no_such_judge'"),
        ({"command": "no-such-engine"}, UserError, "resources.judge.command: 'no-such-engine' is not installed"),
    ],
)
def test_what_cannot_be_served_is_one_line(settings, error, says):
    with pytest.raises(error, match=says):
        local(judge=settings)
