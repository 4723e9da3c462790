"""Bad neighbours of forty-odd kinds on one pool: two good runs have their weights, and nothing is left behind."""

import sys

import pytest

from benchmarks.pool.bad_neighbour import HARMS
from benchmarks.pool.neighbours import run

pytestmark = [pytest.mark.conformance, pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")]


@pytest.fixture(scope="module")
def alone():
    return run("").runs


@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm != "nothing"])
def test_a_bad_neighbour_harms_itself_alone(alone, harm):
    outcome = run(harm)
    assert {name: outcome.runs[name] for name in alone} == alone
    assert (outcome.processes, outcome.unreadable) == (0, 0) and outcome.megabytes < 20
    assert outcome.code in (0, 1) and "Traceback" not in outcome.said
