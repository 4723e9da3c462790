"""No bill exceeds the budget cap, even after failures."""

import math
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import faulty_environments
import pytest
from driver import SMALL
from driver import train as drive

from marless.coordinator.config.loading import load

pytestmark = pytest.mark.usefixtures("processes")  # ended by time-outs

ROOT = Path(__file__).resolve().parents[2]
CAP = Decimal("0.001")
QUICK = ("actors.num_envs=4", "functions.actor.timeout_s=2", "functions.evaluator.timeout_s=2")


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Imports the packages first: after an installation, the first import may take longer than these time-outs."""
    handlers = (f"marless.functions.{role}.handler" for role in ("actor", "learner", "evaluator"))
    program = f"import {', '.join(handlers)}, marless.functions.environments.mpe, faulty_environments"
    folder = Path(faulty_environments.__file__).parent
    subprocess.run([sys.executable, "-c", program], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def faulty(name, *overrides):
    return [*SMALL, *QUICK, f"stop.dollars={CAP}", f"task.name=pettingzoo:faulty_environments:{name}", *overrides]


def test_default_task_progresses_under_tenth_of_a_cent(tmp_path):
    # The task's own passes, which runs of tests otherwise have fewer of.
    passes = [
        f"algorithm.{key}={getattr(load(None, []).algorithm.sized(1600), key)}" for key in ("epochs", "num_minibatches")
    ]
    trained = drive(tmp_path, [f"stop.dollars={CAP}", *passes])
    # The reserve for failures depends on the slowest attempt. Five rounds fit if no attempt takes longer than this
    # (milliseconds, per episode for evaluations). A busy machine exceeds it.
    slowest, most = trained.state.slowest, {"learn": 45, "sample": 24, "evaluate": 0.1}
    if all(slowest.get(kind, math.inf) <= limit for kind, limit in most.items()):
        assert (trained.state.status, trained.state.reason) == ("finished", "dollars")
        assert trained.state.round >= 5 and len(trained.state.final) == 3200
    assert trained.dollars <= CAP


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [
        ("Hangs", 2, "sample/00000-00000 of round 1 failed after 3 attempts.*longer than its time-out of 2 s"),
        ("Raises", 10, "the simulator lost its map"),
    ],
)
def test_a_faulty_environment_fails_within_the_cap(tmp_path, name, limit, reason):
    trained = drive(tmp_path, faulty(name, f"functions.actor.timeout_s={limit}"))
    assert trained.state.status == "failed"
    assert re.search(reason, trained.state.reason) and "\n" not in trained.state.reason
    assert trained.dollars <= CAP


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["Dies", "Stalls"])
def test_faults_now_and_then_stay_within_the_cap(tmp_path, name):
    trained = drive(tmp_path, faulty(name, "attempts=10", "stop.rounds=4"))
    assert trained.state.status in ("finished", "stopped", "failed") and "\n" not in trained.state.reason
    assert trained.dollars <= CAP


def test_capped_run_continues_under_higher_cap(tmp_path):
    options = [*SMALL, "stop.rounds=3"]
    poor = drive(tmp_path, [*options, "stop.dollars=0.00001"])
    assert (poor.state.status, poor.state.round) == ("stopped", 0)
    assert poor.dollars <= Decimal("0.00001")
    rich = drive(tmp_path, [*options, "stop.dollars=0.01"])
    assert (rich.state.status, rich.state.round) == ("finished", 3)
    assert rich.dollars <= Decimal("0.01")
