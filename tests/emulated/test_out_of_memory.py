"""A run ends after its learner's attempts run out of memory, with a problem that says where to look."""

import sys

import pytest

from marless.infra.deployment import deploy
from marless.reports import provenance

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system does not report the memory of a process")

# The arrays alone fit, so the run is not refused before it starts. The process around them does not.
LARGE = ("task.name=toy/signal", "algorithm.hidden=[1000, 1000]", "attempts=2")
SMALL = ("--backend", "emulated", "--tenant", "small")


@pytest.fixture(scope="module")
def small(place):
    made = deploy(place.cloud, "small", {"Code": provenance.code_sha256(), "LearnerMemory": "128"})
    place.look_after(made)
    return made


def test_a_driven_run_ends_at_once(small, marless):
    said = marless.train("driven-large", *LARGE, "functions.learner.timeout_s=30", *SMALL)
    assert said.code == 2
    assert "initialise failed after 2 attempts, last: the learner died: Runtime.ExitError: " in said.err[-1]
    assert "Error: Runtime exited with error: signal: killed" in said.err[-1]


@pytest.mark.conformance
def test_detached_run_ends_after_waiting_for_both_attempts(place, small, marless):
    settings = (*LARGE, "functions.learner.timeout_s=1")  # both attempts are waited for
    assert marless.train("detached-large", *settings, *SMALL, "--detach").code == 0
    list(place.wait(["detached-large"], sweeping=True, limit_s=120, deployment=small))
    said = marless("status", "--follow", "detached-large")
    assert said.code == 1
    assert (
        "initialise failed after 2 attempts, last: the learner did not report: it timed out, ran out of"
        " memory or was never started; its log: marless cloud logs --function learner" in said.err[-1]
    )
    assert any("signal: killed" in line for line in marless("cloud", "logs", "--function", "learner", *SMALL).out)
